// The counters of this process that have changed since they were last reported to the supervisor, which keeps them in case this
// process is killed. Cheap enough for once a second: an unchanged counter makes no text.

import type { LimitStats } from "../../engine/domain/stats.ts";
import { RARE_FIELDS, RULE_METRICS } from "./metrics.ts";
import type { SeriesSource } from "./series-book.ts";
import type { StatsEntry } from "./stats-book.ts";

/** Some counters as a page in Prometheus's text format, without HELP lines. */
export interface CountChanges {
  readonly text: string;
  /** True if other rules are in force, so that counters of rules reported before are void. */
  readonly isAfresh: boolean;
}

interface CountSources {
  /** Everything but the counters of rules, as a page in Prometheus's text format. */
  readonly page: () => string;
  readonly series: SeriesSource;
  /** Changes when other rules come in force. */
  readonly rulesHash: () => string | undefined;
}

/** Entries of rules in one report; the next report has the others. A rule's text takes some hundreds of bytes per counter. */
export const TOLD_RULES_MAX = 500;

const FIELDS = (Object.keys(RULE_METRICS) as (keyof typeof RULE_METRICS)[]).filter(
  (field) => RULE_METRICS[field].kind === "counter",
);

export class ChangedCounts {
  readonly #sources: CountSources;
  readonly #told = new Map<string, string>();
  #toldOfRules = new WeakMap<LimitStats, readonly number[]>();
  #rulesHash: string | undefined;
  /** Where the last report stopped, if it did not reach the last rule. */
  #rest: Iterator<StatsEntry> | undefined;

  constructor(sources: CountSources) {
    this.#sources = sources;
  }

  /** The counters that have changed since the last call; of rules at most TOLD_RULES_MAX entries. */
  take(): CountChanges {
    const page = this.#sources.page();
    const hash = this.#sources.rulesHash();
    const isAfresh = hash !== this.#rulesHash;
    if (isAfresh) {
      this.#rulesHash = hash;
      this.#toldOfRules = new WeakMap();
      this.#rest = undefined;
    }
    return { text: this.#changedOf(page) + this.#changedRules(), isAfresh };
  }

  #changedOf(page: string): string {
    let text = "";
    let head = "";
    let grows = false;
    for (const line of page.split("\n")) {
      if (line.startsWith("# TYPE ")) {
        grows = !line.endsWith(" gauge");
        head = `${line}\n`;
      } else if (grows && line !== "" && !line.startsWith("#")) {
        const at = line.lastIndexOf(" ");
        const series = line.slice(0, at);
        const value = line.slice(at + 1);
        if (this.#told.get(series) === value) continue;
        this.#told.set(series, value);
        text += `${head}${line}\n`;
        head = "";
      }
    }
    return text;
  }

  #changedRules(): string {
    const rest = this.#rest ?? this.#sources.series.entries();
    const changed: StatsEntry[] = [];
    let next = rest.next();
    for (; next.done !== true; next = rest.next()) {
      if (!this.#note(next.value.stats)) continue;
      if (changed.push(next.value) === TOLD_RULES_MAX) break;
    }
    this.#rest = next.done === true ? undefined : rest;
    if (changed.length === 0) return "";
    return FIELDS.map((field) => {
      const { name } = RULE_METRICS[field];
      const told = RARE_FIELDS.has(field) ? changed.filter(({ stats }) => stats[field] > 0) : changed;
      if (told.length === 0) return "";
      return `# TYPE ${name} counter\n${told.map(({ labels, stats }) => `${name}{${labels}} ${stats[field]}\n`).join("")}`;
    }).join("");
  }

  // True if a counter of the entry has changed since its last report. Before its first report, `hasMoved` tells whether any has.
  #note(stats: LimitStats): boolean {
    const told = this.#toldOfRules.get(stats);
    if (told === undefined ? !stats.hasMoved : FIELDS.every((field, i) => stats[field] === told[i])) return false;
    this.#toldOfRules.set(
      stats,
      FIELDS.map((field) => stats[field]),
    );
    return true;
  }
}
