// A snapshot that is written while takes go on holds, for every bucket, a state that the bucket had between begin and end;
// a restart goes on as if there had been none; and of a damaged snapshot nothing is used.

import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import type { LogState } from "../../src/engine/algorithms/log-state.ts";
import { tokenBucket } from "../../src/engine/algorithms/token-bucket.ts";
import { WorkingBucket } from "../../src/engine/algorithms/working-bucket.ts";
import { hashKeyInUse, type Keyed, keyedOf, useHashKey } from "../../src/engine/domain/key-bytes.ts";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { type Ask, bucketKeyOf, fillGroup, groupOf } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { part, runs } from "../support/runs.ts";
import { entriesIn, piecesIn, restore, SnapshotInSteps, sealed, snapshotOf } from "../support/snapshot-bytes.ts";
import { histories, limitsWithHolds } from "./histories.ts";
import { replayAtOnce, replayHistory } from "./replay.ts";

/** Room for eleven pages, of which some are split while the snapshot is under way, and then for no more buckets. */
const BUCKETS_MAX = 1_600;
const LOG_BYTES_MAX = 100_000;

const LIMITS: readonly Limit[] = [
  makeLimit({ amount: 100, burst: 300, windowSeconds: 1 }),
  makeLimit({ algorithm: Algorithm.slidingWindow, amount: 10, windowSeconds: 7 }),
  makeLimit({ algorithm: Algorithm.fixedWindow, amount: 1_000, windowSeconds: 86_400 }),
  makeLimit({ algorithm: Algorithm.slidingLog, amount: 400, windowSeconds: 60 }),
  makeLimit({ algorithm: Algorithm.fixedWindow, amount: 50, windowSeconds: 60, isCounter: true, name: "counter" }),
];

// Made once: a run looks at a thousand buckets several times each.
const keyeds = new Map<string, Keyed>();
const bucketsOf = new WeakMap<object, WorkingBucket>();

/** What is kept under a key, as text; undefined if nothing. */
function stateOf({ buckets }: MemoryStore, key: string): string | undefined {
  const bucket = bucketsOf.get(buckets) ?? new WorkingBucket(tokenBucket);
  bucketsOf.set(buckets, bucket);
  const keyed = keyeds.get(key) ?? keyedOf(key);
  keyeds.set(key, keyed);
  bucket.useKeyOf(keyed);
  bucket.log = undefined;
  bucket.algorithm = key.endsWith(LIMITS[3]?.keySuffix ?? "?") ? Algorithm.slidingLog : Algorithm.tokenBucket;
  if (!buckets.load(bucket)) return undefined;
  const { atUs, used, previous } = bucket.state;
  const log = bucket.log as LogState | undefined;
  if (log === undefined) return `${atUs} ${used} ${previous}`;
  return log.numbers.subarray(0, log.length).join(" ");
}

/** What happens between two steps of a snapshot. */
type Act =
  | {
      readonly kind: "take" | "refund" | "give back";
      readonly limit: number;
      readonly id: number;
      readonly cost: number;
    }
  | { readonly kind: "flood"; readonly limit: number; readonly from: number; readonly keys: number }
  | { readonly kind: "pass"; readonly seconds: number }
  | { readonly kind: "sweep" };

const limit = fc.nat({ max: LIMITS.length - 1 });
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom("take" as const, "take" as const, "refund" as const, "give back" as const),
      limit,
      id: fc.nat({ max: 30 }),
      cost: fc.integer({ min: 1, max: 9 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("flood" as const),
      limit,
      from: fc.constantFrom(0, 500, 1_000),
      keys: fc.constantFrom(1, 100, 400),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pass" as const), seconds: fc.constantFrom(0.5, 3, 70) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("sweep" as const) }) },
);

const HELD = makeLimit({ amount: 100, windowSeconds: 600, holdSeconds: 60, name: "held" });

/** A store that is acted on, and all states that its buckets have had since `watch`. */
class WatchedStore {
  readonly clock = new ManualClock();
  readonly store = new MemoryStore({ clock: this.clock, bucketsMax: BUCKETS_MAX, logBytesMax: LOG_BYTES_MAX });
  readonly #keys = new Map<string, Ask>();
  #states = new Map<string, Set<string | undefined>>();
  readonly #group = new TakeGroup();
  readonly #asked = new TakeGroup();
  /** When each was paid last: a counter ends a window after that. */
  readonly #paidAtUs = new Map<string, number>();

  /** Forgets all states but those of now. */
  watch(): void {
    this.#states = new Map();
    for (const key of this.#keys.keys()) this.#see(key);
  }

  /** Keys there ever were, with the states that they have had. */
  seen(): ReadonlyMap<string, ReadonlySet<string | undefined>> {
    for (const key of this.#keys.keys()) this.#see(key);
    return this.#states;
  }

  do(act: Act): void {
    if (act.kind === "pass") this.clock.advanceUs(act.seconds * 1_000_000);
    else if (act.kind === "sweep") this.store.sweep();
    else if (act.kind === "flood") {
      for (let i = 0; i < act.keys; i++) this.#take({ limit: limitAt(act.limit), identity: String(act.from + i) });
    } else {
      const ask = { limit: limitAt(act.limit), identity: String(act.id), cost: act.cost };
      this.#take(act.kind === "refund" ? { ...ask, mode: Mode.refund } : ask);
      if (act.kind === "give back") this.#seeing(ask, () => this.store.giveBack(this.#group));
    }
  }

  #take(ask: Ask): void {
    this.#seeing(ask, () => this.#settle(this.#group, ask));
    this.#paidAtUs.set(bucketKeyOf(ask, ""), this.clock.nowUs());
  }

  #settle(group: TakeGroup, ask: Ask): void {
    group.reset();
    fillGroup(group, [ask], "", false);
    this.store.take(group);
  }

  #seeing(ask: Ask, act: () => void): void {
    const key = bucketKeyOf(ask, "");
    this.#keys.set(key, ask);
    this.#see(key);
    act();
    this.#see(key);
  }

  #see(key: string): void {
    const states = this.#states.get(key) ?? new Set();
    this.#states.set(key, states.add(stateOf(this.store, key)));
    if (this.#isAsNew(key)) states.add(undefined);
  }

  /** True if the bucket means the same as none, so that it may be left out. */
  #isAsNew(key: string): boolean {
    const ask = this.#keys.get(key) as Ask;
    if (ask.limit.isCounter) return this.clock.nowUs() - (this.#paidAtUs.get(key) ?? 0) >= 60_000_000;
    this.#settle(this.#asked, { ...ask, mode: Mode.peek });
    return this.#asked.takes[0]?.resetUs === 0;
  }
}

const limitAt = (index: number) => LIMITS[index] as Limit;

const hashKey = hashKeyInUse();
afterEach(() => useHashKey(hashKey));

describe("a snapshot that is written while takes go on", () => {
  // Promise(restarts): A bucket comes back in a state that it had while the snapshot was written.
  test("holds for each bucket a state that it had between begin and end", async () => {
    await fc.assert(
      fc.asyncProperty(
        limit,
        // Two or four pages that are nearly full.
        fc.constantFrom(600, 700, 1_200),
        fc.array(fc.tuple(fc.array(act, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 2 })), {
          minLength: 2,
          maxLength: 8,
        }),
        async (first, keys, during) => {
          const watched = new WatchedStore();
          const { store, clock } = watched;
          watched.do({ kind: "flood", limit: first, from: 0, keys });
          watched.watch();
          const snapshot = new SnapshotInSteps(store, clock.nowUs());
          snapshot.step();
          for (const [acts, steps] of during) {
            for (const one of acts) watched.do(one);
            for (let i = 0; i < steps; i++) snapshot.step();
          }
          const bytes = await sealed(snapshot.entries());
          const seen = watched.seen();
          let evicted = 0;
          const observer = { ...SILENT_STORE_OBSERVER, evicted: () => (evicted += 1) };
          const restarted = new MemoryStore({ clock, bucketsMax: BUCKETS_MAX, logBytesMax: LOG_BYTES_MAX, observer });
          await restore(restarted, bytes, clock.nowUs());
          const strange = [...seen].filter(([key, states]) => !states.has(stateOf(restarted, key)));
          // Buckets that were evicted meanwhile may be in it next to those that came in their place: then some must go again.
          const wrong = strange.map(([key, states]) => ({ key, states, found: stateOf(restarted, key) }));
          expect(wrong.filter(({ found }) => found !== undefined || evicted === 0)).toEqual([]);
          expect(wrong.length).toBeLessThanOrEqual(evicted);
          expect(restarted.bucketCount).toBeLessThanOrEqual(seen.size);
          await restarted.close();
          await store.close();
        },
      ),
      { numRuns: runs(20) },
    );
  });
});

describe("a restart", () => {
  const SHAPE = {
    limitsMax: 4,
    // What has ended under one rate may be left out, also if a lower one is asked about it before it would have been swept.
    sharesBuckets: false,
    identities: 2,
    takesMax: 4,
    kinds: [0, 1, 2] as const,
    givesBack: true,
  };

  // Promise(restarts): A restart changes no answer, with every algorithm, holds and COMPATIBILITY_MODE.
  // Promise(restarts): A hold ends in time while no process runs.
  test.each([
    { name: "of any algorithm, mode and kind", shape: { ...SHAPE, givesBackLate: true } },
    {
      name: "of budgets with holds and of limits of calls at once",
      shape: {
        ...SHAPE,
        numbers: limitsWithHolds(),
        modes: [Mode.pay, Mode.pay, Mode.pay, Mode.settle, Mode.settle, Mode.peek, Mode.refund, Mode.postPaid],
        holdIds: ["a", "a", "b", 'c\u00ff"\u0000\u0080', ""],
        stepsMax: 40,
      },
    },
  ])("changes no answer $name, whenever it comes", async ({ shape }) => {
    const when = fc.constantFrom("no", "before the time passes" as const, "after it" as const);
    const restarts = fc.array(when, { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(histories(shape), restarts, async (history, restartsWhen) => {
        const clock = new ManualClock();
        let store = new MemoryStore({ clock });
        const inOne = new MemoryStore({ clock });
        let takes = 0;
        let written: ReturnType<typeof snapshotOf> | undefined;
        const target = {
          setUs: (nowUs: number) => {
            const when = restartsWhen[takes++ % restartsWhen.length];
            if (when === "before the time passes") written = snapshotOf(store, clock.nowUs());
            clock.setUs(nowUs);
            if (when === "after it") written = snapshotOf(store, nowUs);
          },
          async settle(group: TakeGroup) {
            if (written !== undefined) {
              await store.close();
              store = new MemoryStore({ clock });
              await restore(store, await sealed(written), clock.nowUs());
            }
            written = undefined;
            store.take(group);
          },
          giveBack: (group: TakeGroup) => Promise.resolve(store.giveBack(group)),
        };
        expect(await replayHistory(target, history)).toEqual(replayAtOnce(inOne, clock, history));
        await Promise.all([store.close(), inOne.close()]);
      }),
      { numRuns: runs(75) },
    );
  });
});

describe("a damaged snapshot", () => {
  /** A snapshot with buckets of every kind. */
  function sample(): Promise<Buffer> {
    const watched = new WatchedStore();
    for (let limit = 0; limit < LIMITS.length; limit++) {
      for (const id of [1, 1, 2, 3]) {
        watched.clock.advanceUs(10);
        watched.do({ kind: "take", limit, id, cost: 1 });
      }
    }
    for (const [holdId, mode] of [
      ["a", Mode.pay],
      ["b", Mode.pay],
      ["b", Mode.settle],
    ] as const)
      watched.store.take(groupOf([{ limit: HELD, mode, cost: 2, holdId }], ""));
    const entries = snapshotOf(watched.store, watched.clock.nowUs());
    void watched.store.close();
    return sealed(entries);
  }

  const store = new MemoryStore({ clock: new ManualClock() });

  async function refusal(bytes: Buffer): Promise<string> {
    try {
      await restore(store, bytes, 0);
    } catch (error) {
      return (error as Error).message;
    } finally {
      store.clear();
    }
    throw new Error("expected a refusal");
  }

  // Promise(restarts): A snapshot that was cut, or has any changed bit, is not used at all.
  test("is refused wherever it was cut", async () => {
    const bytes = await sample();
    for (const length of part([...bytes.keys()]))
      expect(await refusal(bytes.subarray(0, length))).toMatch(
        /: the file was cut or changed$|^expected a file that begins/,
      );
  });

  // Promise(restarts): A snapshot that was cut, or has any changed bit, is not used at all.
  test("is refused whichever bit was turned", async () => {
    const bytes = await sample();
    for (const at of part([...bytes.keys()])) {
      const changed = Buffer.from(bytes);
      changed[at] = (bytes[at] as number) ^ (1 << (at % 8));
      expect(await refusal(changed)).toContain("expected ");
    }
  });

  test("is refused with blocks missing, twice, in another order, or of another snapshot", async () => {
    const [line, ...blocks] = (await piecesIn(await entriesIn(await sample()))) as [Buffer, ...Buffer[]];
    const [, other] = await piecesIn(await entriesIn(await sample()));
    for (const arranged of [
      [],
      [blocks[1]],
      [blocks[0], ...blocks],
      [...blocks].reverse(),
      [blocks[0], other, blocks[1]],
    ])
      expect(await refusal(Buffer.concat([line, ...(arranged as Buffer[])]))).toContain("the file was cut or changed");
    expect(await refusal(Buffer.concat([line, ...blocks, Buffer.of(0)]))).toContain("the file was cut or changed");
  });
});
