// The counters of this process that have changed since the supervisor was told of them, which keeps them in case this process is
// killed. Cheap enough for once a second: a counter that has not changed makes no text.

import type { LimitStats } from "../core/limit-stats.ts";
import { HOLD_FIELDS, RULE_METRICS } from "./metrics.ts";
import type { SeriesSource } from "./series-book.ts";
import type { StatsEntry } from "./stats-book.ts";

/** Some counters as a page in Prometheus's text format, without help. */
export interface CountChanges {
  readonly text: string;
  /** True if what was told before of rules holds no more: other rules are in force. */
  readonly isAfresh: boolean;
}

interface CountSources {
  /** Everything but the counters of rules, as a page. */
  readonly page: () => Promise<string>;
  readonly series: SeriesSource;
  /** Changes when other rules come in force. */
  readonly rulesHash: () => string | undefined;
}

/** Entries of rules told of at once; the others come next time. A rule's text is some hundreds of bytes for each counter. */
export const TOLD_RULES_MAX = 500;

const FIELDS = (Object.keys(RULE_METRICS) as (keyof typeof RULE_METRICS)[]).filter(
  (field) => RULE_METRICS[field].kind === "counter",
);

export class ChangedCounts {
  readonly #sources: CountSources;
  readonly #told = new Map<string, string>();
  #toldOfRules = new WeakMap<LimitStats, readonly number[]>();
  #rulesHash: string | undefined;
  /** Where the last look at rules stopped, if it did not come to the end. */
  #rest: Iterator<StatsEntry> | undefined;

  constructor(sources: CountSources) {
    this.#sources = sources;
  }

  /** What has changed since the last call; of rules TOLD_RULES_MAX at most. */
  async take(): Promise<CountChanges> {
    const page = await this.#sources.page();
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
      const told = HOLD_FIELDS.has(field) ? changed.filter(({ stats }) => stats[field] > 0) : changed;
      if (told.length === 0) return "";
      return `# TYPE ${name} counter\n${told.map(({ labels, stats }) => `${name}{${labels}} ${stats[field]}\n`).join("")}`;
    }).join("");
  }

  // True if any of them has changed. All of them only grow, and no hit is counted without being counted as a hit.
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
