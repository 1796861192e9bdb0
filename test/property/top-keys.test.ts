// Counts of top keys hold their bounds, whatever traffic comes: against exact counts, over parts of time and over processes.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Sketch } from "../../src/operate/telemetry/top/sketch.ts";
import { mergeSummaries, summaryOf, type TopSummary, topOf } from "../../src/operate/telemetry/top/summary.ts";
import { type Between, Tally } from "../../src/operate/telemetry/top/tally.ts";
import { TrackedKey } from "../../src/operate/telemetry/top/tracked-keys.ts";
import { runs } from "../support/runs.ts";

/** Keys in the order in which they come. */
type Traffic = readonly number[];

/** Numbers as evenly spread as Math.random, by a seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Shape {
  readonly seed: number;
  readonly calls: number;
  readonly keys: number;
  readonly exponent: number;
}

/** Zipf's law: the n-th key comes 1 / n^exponent as often as the first. 0: all alike. */
function zipf({ seed, calls, keys, exponent }: Shape): Traffic {
  const random = randomOf(seed);
  const sums: number[] = [];
  let sum = 0;
  for (let key = 1; key <= keys; key++) {
    sum += 1 / key ** exponent;
    sums.push(sum);
  }
  return Array.from({ length: calls }, () => {
    const at = random() * sum;
    let low = 0;
    let high = keys - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] as number) < at) low = middle + 1;
      else high = middle;
    }
    return low;
  });
}

/** Keys that all come once, with a few that come now and then: what an attacker sends to hide. */
function flood({ seed, calls, keys }: Shape): Traffic {
  const random = randomOf(seed);
  return Array.from({ length: calls }, (_, i) => (random() < 0.1 ? Math.floor(random() * keys) : 1_000_000 + i));
}

const traffic = fc
  .record({
    seed: fc.integer(),
    calls: fc.integer({ min: 0, max: 6_000 }),
    keys: fc.integer({ min: 1, max: 2_000 }),
    exponent: fc.double({ min: 0, max: 2, noNaN: true }),
    isFlood: fc.boolean(),
  })
  .map((shape) => (shape.isFlood ? flood(shape) : zipf(shape)));
const slots = fc.integer({ min: 1, max: 200 });

/** A hash as even as those of keys, the same for the same key. */
function hashOf(key: number) {
  const random = randomOf(Math.imul(key, 0x9e3779b1));
  return { keyHash: (random() * 2 ** 32) >>> 0, keyHash1: (random() * 2 ** 32) | 0, keyHash2: 0, keyHash3: 0 };
}

function tallyOf(keys: Traffic, slotsMax: number): Tally<number> {
  const sketch = new Sketch<number>(slotsMax, () => undefined);
  for (const key of keys) {
    const slot = sketch.add(hashOf(key));
    if (slot >= 0 && sketch.named[slot] === undefined && sketch.isWorthName(slot)) sketch.named[slot] = key;
  }
  return sketch.tally();
}

function exactOf(keys: Traffic): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** Keys that came less often than the tally says at least, or more often than it says at most. */
function outOfBounds(of: (key: number) => Between, exact: ReadonlyMap<number, number>): readonly object[] {
  return [...exact].flatMap(([key, count]) => {
    const { least, most } = of(key);
    return count >= least && count <= most ? [] : [{ key, count, least, most }];
  });
}

function widest(tally: Tally<number>): number {
  return Math.max(tally.rest, ...tally.keys.map((key) => tally.of(key).most - tally.of(key).least));
}

describe("a sketch of k slots that has counted n", () => {
  // Promise(operators): Top keys are never counted too low, nor too high by more than stated, over several processes too.
  test("never says too little of a key, nor more than it may, and is off by n / k at most, and by one for a key without a name", () => {
    fc.assert(
      fc.property(traffic, slots, (keys, slotsMax) => {
        const tally = tallyOf(keys, slotsMax);
        expect(outOfBounds((key) => tally.of(key), exactOf(keys))).toEqual([]);
        expect(widest(tally)).toBeLessThanOrEqual(keys.length / slotsMax + 1);
      }),
      { numRuns: runs(150) },
    );
  });

  test("is exact as long as there are no more keys than slots", () => {
    fc.assert(
      fc.property(traffic, (keys) => {
        const exact = exactOf(keys);
        const tally = tallyOf(keys, Math.max(1, exact.size));
        const said = new Map(tally.keys.map((key) => [key, tally.of(key)]));
        const counts = [...exact].map(([key, count]) => [key, { least: count, most: count }] as const);
        expect([said, tally.rest]).toEqual([new Map(counts), 0]);
      }),
      { numRuns: runs(50) },
    );
  });
});

test("a sum of sketches holds its bounds after any number of parts, pruned after each", () => {
  fc.assert(
    fc.property(fc.array(traffic, { minLength: 1, maxLength: 8 }), slots, (parts, slotsMax) => {
      const tally = new Tally<number>();
      for (const keys of parts) {
        tally.add(tallyOf(keys, slotsMax));
        tally.prune(slotsMax, () => undefined);
      }
      const calls = parts.flat();
      expect(tally.keys.length).toBeLessThanOrEqual(slotsMax);
      expect(outOfBounds((key) => tally.of(key), exactOf(calls))).toEqual([]);
      expect(tally.total).toBe(calls.length);
      expect(widest(tally)).toBeLessThanOrEqual((2 * calls.length) / slotsMax + parts.length);
    }),
    { numRuns: runs(100) },
  );
});

describe("summaries of several processes", () => {
  /** What a process has counted of those that passed and of those that it refused, by keys of its own. */
  function partOf(passed: Traffic, refused: Traffic, slotsMax: number) {
    const own = new Map<number, TrackedKey>();
    const trackedOf = (key: number) => {
      const known = own.get(key);
      const made = new TrackedKey(hashOf(key), { key: `${key}`, entries: undefined }, LABELS);
      if (known === undefined) own.set(key, made);
      return known ?? made;
    };
    const tracked = (keys: Traffic) => {
      const tally = tallyOf(keys, slotsMax);
      const found = new Tally<TrackedKey>(tally.rest, tally.total);
      for (const key of tally.keys) found.count(trackedOf(key), tally.of(key), tally.rest);
      return found;
    };
    return { passed: tracked(passed), refused: tracked(refused) };
  }
  const LABELS = { domain: "edge", rule: "user", limit: "" };
  const process = fc.record({ passed: traffic, refused: traffic, slotsMax: slots });

  // Promise(operators): Top keys are never counted too low, nor too high by more than stated, over several processes too.
  test("hold their bounds when each tells only its first keys", () => {
    fc.assert(
      fc.property(
        fc.array(process, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 100 }),
        fc.integer({ min: 0, max: 50 }),
        (processes, keysMax, publishedMax) => {
          const summaries = processes.map(({ passed, refused, slotsMax }) =>
            summaryOf([partOf(passed, refused, slotsMax)], 0, keysMax),
          );
          // A process that publishes its keys leaves out more, and the others read JSON.
          const [first, ...others] = summaries;
          const published = topOf(mergeSummaries([first as TopSummary]), publishedMax);
          const all = [JSON.parse(JSON.stringify(published)) as TopSummary, ...others];
          const { rows, restAsked, restRefused, asked, refused } = mergeSummaries(all);
          const keys = rows.map(({ text }) => Number(text.key));
          const boundsOf = (by: "asked" | "refused", rest: number) => {
            const byKey = new Map(rows.map((row) => [Number(row.text.key), row[by]]));
            return (key: number) => byKey.get(key) ?? { least: 0, most: rest };
          };
          const allRefused = processes.flatMap(({ refused }) => refused);
          const allAsked = [...allRefused, ...processes.flatMap(({ passed }) => passed)];
          expect(outOfBounds(boundsOf("refused", restRefused), exactOf(allRefused))).toEqual([]);
          expect(outOfBounds(boundsOf("asked", restAsked), exactOf(allAsked))).toEqual([]);
          expect(new Set(keys).size).toBe(keys.length);
          expect({ asked, refused }).toEqual({ asked: allAsked.length, refused: allRefused.length });
        },
      ),
      { numRuns: runs(100) },
    );
  });
});
