// Adds up the metrics of several processes, in Prometheus's text format: one page of all, series by series. What counters
// of processes that have ended said last stays in the sums, for a sum that falls looks like a restart to Prometheus.

import { setImmediate as nextTurn } from "node:timers/promises";
import { inTurns } from "./in-turns.ts";
import { type Across, acrossWorkers } from "./metrics.ts";

/** Lines read between two turns for other work. */
const LINES_PER_TURN = 2_000;

interface Family {
  /** Its comments: help and type. */
  head: string;
  readonly across: Across;
  /** Counters and histograms only grow. */
  readonly grows: boolean;
  readonly series: Map<string, number>;
}

/** What counters of ended processes had counted, by series. */
export type EndedCounts = Map<string, number>;

/** The sum of some pages. Comments are those of the page that came first. */
export class PageSum {
  readonly #families = new Map<string, Family>();

  /** Adds a whole page. Other work gets its turn meanwhile. */
  async add(page: string): Promise<void> {
    let family: Family | undefined;
    let comments = "";
    let lines = 0;
    for (const line of linesOf(page)) {
      if (++lines % LINES_PER_TURN === 0) await nextTurn();
      const [, name = "", kind = ""] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
      if (name !== "") {
        family = this.#familyOf(name, kind, `${comments}${line}\n`);
        comments = "";
      } else if (line.startsWith("#")) comments += `${line}\n`;
      else if (line !== "" && family !== undefined) addSample(family, line);
    }
  }

  /** Adds what ended processes had counted, and forgets those series of theirs that no living process has. */
  addEnded(ended: EndedCounts): void {
    const unseen = new Set(ended.keys());
    for (const { grows, series } of this.#families.values()) {
      if (!grows) continue;
      for (const [name, value] of series) {
        const before = ended.get(name);
        if (before === undefined) continue;
        series.set(name, value + before);
        unseen.delete(name);
      }
    }
    for (const name of unseen) ended.delete(name);
  }

  /** Takes the counters of this sum over into `ended`. */
  bury(ended: EndedCounts): void {
    for (const { grows, series } of this.#families.values()) {
      if (grows) for (const [name, value] of series) ended.set(name, (ended.get(name) ?? 0) + value);
    }
  }

  /** The page of all, piece by piece. */
  text(): AsyncGenerator<string> {
    return inTurns(this.#lines());
  }

  *#lines(): Generator<string> {
    for (const { head, series } of this.#families.values()) {
      yield head;
      for (const [name, value] of series) yield `${name} ${numberText(value)}\n`;
      yield "\n";
    }
  }

  #familyOf(name: string, kind: string, head: string): Family {
    let family = this.#families.get(name);
    if (family === undefined) {
      family = { head, across: acrossWorkers(name), grows: kind !== "gauge", series: new Map() };
      this.#families.set(name, family);
    }
    return family;
  }
}

function addSample({ series, across }: Family, line: string): void {
  const at = line.lastIndexOf(" ");
  const name = line.slice(0, at);
  const value = Number(line.slice(at + 1).replace("Inf", "Infinity"));
  const before = series.get(name);
  // A value that is none says nothing of the others.
  if (before === undefined || Number.isNaN(before)) series.set(name, value);
  else if (!Number.isNaN(value)) series.set(name, across === "sum" ? before + value : Math[across](before, value));
}

function* linesOf(page: string): Generator<string> {
  for (let start = 0; start < page.length; ) {
    const end = page.indexOf("\n", start);
    yield page.slice(start, end < 0 ? page.length : end);
    start = end < 0 ? page.length : end + 1;
  }
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}
