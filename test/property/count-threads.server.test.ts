// Counters of threads that count, load and drop rules, show pages, end at any moment and are replaced: whichever thread shows them,
// sums are what was counted, and no series falls.

import { once } from "node:events";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { reserveCounts } from "../../src/engine/base/count-layout.ts";
import { NameKind, SharedCounts } from "../../src/engine/base/shared-counts.ts";
import { runs } from "../support/runs.ts";

const THREADS = 3;
const PLACES = 256;
const SERIES_MAX = 2;
const KEYS = ["a", "b", "c", "d"];
const VALUES = ["x", "y"];

const DIST = pathToFileURL(`${resolve(import.meta.dirname, "../../dist")}/`).href;

/** What each thread runs, as it is built. "churn" loads, names and drops rules of a domain of its own until the thread ends. */
const PROGRAM = `
import { parentPort, workerData } from "node:worker_threads";
const { runThrough } = await import("${DIST}engine/base/long-work.js");
const { SharedCounts } = await import("${DIST}engine/base/shared-counts.js");
const { LimitStatsBook } = await import("${DIST}operate/telemetry/stats-book.js");
const { SeriesBook } = await import("${DIST}operate/telemetry/series-book.js");
const counts = new SharedCounts(workerData.buffer, workerData.row);
const book = new LimitStatsBook(200, counts);
const series = new SeriesBook(book, counts, ${SERIES_MAX});
const rule = (key) => book.statsOf("edge", [key], "");
let keys = [];
function load(wanted) {
  keys = wanted;
  runThrough(book.retainOnly(new Set(keys.map(rule))));
}
const STEPS = {
  load: (step) => load(step.keys),
  hit: ({ key, value, hits }) => {
    const stats = value === "" ? rule(key) : book.statsOfValues(rule(key), [key + "_" + value]);
    stats.totalHits += hits;
  },
  page: () => [...series.entries()].map(({ path, stats }) => [path.join("/"), stats.sum("totalHits")]),
  churn: () => {
    parentPort.postMessage(undefined);
    for (let i = 0; ; i++) {
      for (const key of ["p", "q", "r"]) {
        const stats = book.statsOf("churn " + (i % 2), [key + (i % 3)], "");
        book.statsOfValues(stats, [key + (i % 3) + "_" + i]).totalHits++;
      }
      load(keys);
    }
  },
};
parentPort.on("message", (step) => parentPort.postMessage(STEPS[step.kind](step)));
`;

class CountingThread {
  readonly #worker: Worker;
  readonly #ended: Promise<unknown>;

  constructor(buffer: SharedArrayBuffer, row: number) {
    this.#worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`), {
      workerData: { buffer, row },
    });
    this.#ended = once(this.#worker, "exit");
  }

  async ask(step: object): Promise<unknown> {
    this.#worker.postMessage(step);
    const [answer] = (await once(this.#worker, "message")) as unknown[];
    return answer;
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
    await this.#ended;
  }
}

/** What one rule or value has counted since some thread first used its rule. */
interface Counted {
  readonly rule: string;
  hits: number;
  /** What pages have shown it as. */
  shown: "not yet" | "own" | "summed";
}

/** What pages have to show. */
class Model {
  /** The rules that each row uses, its ended threads included. */
  readonly used: string[][] = Array.from({ length: THREADS }, () => []);
  readonly counted = new Map<string, Counted>();
  inherited = 0;

  hit(rule: string, path: string, hits: number): void {
    const counted = this.counted.get(path) ?? { rule, hits: 0, shown: "not yet" };
    counted.hits += hits;
    this.counted.set(path, counted);
  }

  load(row: number, rules: string[]): void {
    this.used[row] = rules;
    for (const [path, { rule, hits, shown }] of this.counted) {
      if (this.used.some((of) => of.includes(rule))) continue;
      if (shown === "summed") this.inherited += hits;
      this.counted.delete(path);
    }
    if (this.used.every((of) => of.length === 0)) this.inherited = 0;
  }

  /** Holds a page of that row's thread against what was counted. */
  check(row: number, page: ReadonlyMap<string, number>): void {
    const moved = [...this.counted].filter(([, { rule }]) => this.used[row]?.includes(rule));
    for (const [path, counted] of moved) {
      const shown = page.has(path) ? "own" : "summed";
      if (counted.shown === "not yet") counted.shown = shown;
      expect({ path, shown, hits: page.get(path) ?? counted.hits }).toEqual({
        path,
        shown: counted.shown,
        hits: counted.hits,
      });
    }
    const summed = [...this.counted.values()].filter(({ shown }) => shown === "summed");
    const others = summed.reduce((sum, { hits }) => sum + hits, this.inherited);
    // A domain without rules is not shown.
    expect(page.get("/(other rules)") ?? 0).toBe(this.used[row]?.length === 0 ? 0 : others);
    const own = moved.filter(([, { shown }]) => shown === "own");
    expect(page.size).toBe(own.length + Number(page.has("/(other rules)")));
  }
}

const row = fc.nat({ max: THREADS - 1 });
/** Most loads reach all threads. */
const rows = fc.oneof(
  { weight: 2, arbitrary: fc.constant([...Array(THREADS).keys()]) },
  row.map((one) => [one]),
);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("hit" as const),
      row,
      key: fc.constantFrom(...KEYS),
      value: fc.constantFrom("", ...VALUES),
      hits: fc.integer({ min: 1, max: 9 }),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("page" as const), row }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("load" as const), rows, keys: fc.subarray(KEYS) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      row,
      /** Turns of this thread that the ending one has had to churn; undefined: it ends idle. */
      turns: fc.option(fc.integer({ min: 100, max: 2_000 }), { nil: undefined }),
      keys: fc.subarray(KEYS),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function play(steps: readonly Step[]): Promise<void> {
  const buffer = reserveCounts(THREADS, PLACES);
  const main = new SharedCounts(buffer, -1);
  const threads = Array.from({ length: THREADS }, (_, i) => new CountingThread(buffer, i));
  const model = new Model();
  const load = async (at: number, keys: string[]) => {
    await threads[at]?.ask({ kind: "load", keys });
    model.load(at, keys);
  };
  try {
    for (const at of threads.keys()) await load(at, KEYS);
    for (const one of steps) {
      if (one.kind === "load") {
        for (const at of one.rows) await load(at, one.keys);
        continue;
      }
      const thread = threads[one.row] as CountingThread;
      if (one.kind === "hit") {
        if (!model.used[one.row]?.includes(one.key)) continue;
        await thread.ask(one);
        model.hit(one.key, one.value === "" ? one.key : `${one.key}_${one.value}`, one.hits);
      } else if (one.kind === "page") model.check(one.row, new Map((await thread.ask(one)) as [string, number][]));
      else {
        if (one.turns !== undefined) await thread.ask({ kind: "churn" });
        for (let turn = 0; turn < (one.turns ?? 0); turn++) await new Promise((done) => setImmediate(done));
        await thread.end();
        main.release(one.row);
        threads[one.row] = new CountingThread(buffer, one.row);
        await load(one.row, one.keys);
      }
    }
    for (const at of threads.keys()) await load(at, []);
  } finally {
    for (const thread of threads) await thread.end();
  }
  // Whatever was given up by all has left its place empty, and all places are there to be used again.
  expect([...main.rows, main.common].filter((cells) => cells.some((count) => count !== 0))).toEqual([]);
  expect(roomIn(buffer)).toEqual(roomIn(reserveCounts(THREADS, PLACES)));
}

/** How many names find a place, with a text and without. */
function roomIn(buffer: SharedArrayBuffer): readonly number[] {
  const counts = new SharedCounts(buffer, 0);
  return [{ text: "text" }, {}].map((options) => {
    let names = 0;
    while (counts.use(`${JSON.stringify(options)} ${names}`, { kind: NameKind.limit, ...options }) !== undefined)
      names++;
    return names;
  });
}

// Promise(operators): Threads that end at any moment and are replaced leave every sum exact and let no series fall.
test("sums are what all threads have counted, whichever thread shows them, and whichever ends meanwhile", async () => {
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 60, size: "max" }), play), {
    numRuns: runs(10),
  });
});
