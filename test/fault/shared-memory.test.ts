// One memory store that several threads take from: it grants no more than its limits say, whatever the threads do at the same time, and
// wherever one of them ends in the middle of a call.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { JournaledMemory } from "../../src/engine/base/journaled-memory.ts";
import { hashKeyInUse } from "../../src/engine/domain/key-bytes.ts";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { newSharedStore, type SharedStore, STRIPE_WORDS, StoreMemory } from "../../src/stores/memory/store-memory.ts";
import { makeLimit } from "../support/builders.ts";

const THREAD = new URL("../support/take-thread.mjs", import.meta.url);
const DIST = pathToFileURL(resolve(import.meta.dirname, "../../dist/")).href.concat("/");

/** A take of every call of a thread. */
interface Asked {
  readonly key: string;
  readonly limit: Limit;
  readonly cost: number;
  readonly mode: Mode;
  readonly holdId?: string;
}

/** Limits of which nothing comes back during a test. */
const YEAR = { windowSeconds: 31_536_000 };
const limitOf = (algorithm: Algorithm, amount: number, more: Partial<Limit> = {}) =>
  makeLimit({ ...YEAR, algorithm, amount, burst: amount, debtMax: amount, ...more });
const counterOf = (amount: number) => limitOf(Algorithm.fixedWindow, amount, { isCounter: true });
const asked = (key: string, limit: Limit, more: Partial<Asked> = {}): Asked => {
  return { key, limit, cost: 1, mode: Mode.pay, ...more };
};

/** As with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a refused call charges only counters that are over. */
const askCounter = (key: string, amount: number) => asked(key, counterOf(amount), { mode: Mode.charge });

interface ThreadOptions {
  readonly shared: SharedStore;
  readonly thread: number;
  /** Calls in turn. */
  readonly groups: readonly (readonly Asked[])[];
  /** By group: calls allowed and refused. */
  readonly counted: SharedArrayBuffer;
  readonly untilRefused?: number;
  /** By default it makes calls until `untilRefused` were refused. */
  readonly calls?: number;
}

function startThread({ groups, untilRefused = Number.POSITIVE_INFINITY, ...options }: ThreadOptions): {
  worker: Worker;
  ended: Promise<void>;
} {
  // Only what a store reads of a limit can be sent.
  const sent = groups.map((asks) =>
    asks.map(({ limit, ...rest }) => {
      const { algorithm, amount, burst, windowSeconds, calendar, debtMax, holdSeconds, isConcurrent, isCounter } =
        limit;
      // Of a calendar only the edges.
      calendar?.turnTo(new SystemClock().nowUs());
      const numbers = {
        algorithm,
        amount,
        burst,
        windowSeconds,
        calendar,
        debtMax,
        holdSeconds,
        isConcurrent,
        isCounter,
      };
      return { ...rest, limit: numbers };
    }),
  );
  const workerData = { ...options, groups: sent, untilRefused, dist: DIST, hashKey: hashKeyInUse() };
  const worker = new Worker(THREAD, { workerData });
  const ended = new Promise<void>((done, failed) => {
    worker.once("error", failed);
    worker.once("exit", () => done());
  });
  return { worker, ended };
}

/** What is used of the bucket: the limit's amount less what remains. */
function usedOf(store: MemoryStore, { key, limit }: Asked): number {
  const group = new TakeGroup();
  const take = group.add(limit);
  take.bucketKey = key;
  take.needKeyBytes();
  take.mode = Mode.peek;
  store.take(group);
  return limit.amount - take.remaining;
}

const countsOf = (counted: SharedArrayBuffer) => [...new Int32Array(counted)];
const newCounts = (groups: number) => new SharedArrayBuffer(groups * 8);

/** The locks that somebody has. */
function lockedIn(shared: SharedStore): number[] {
  const memory = new StoreMemory(shared, 1);
  const locks = Array.from({ length: memory.layout.stripes + 1 }, (_, stripe) => stripe);
  return locks.filter((stripe) => memory.memory.words[stripe * STRIPE_WORDS] !== 0);
}

const THREADS = 4;
const AMOUNT = 700;

describe("threads that share a memory store", () => {
  // Promise(limits): Threads that share the memory store grant exactly what a limit says, with every algorithm and COMPATIBILITY_MODE.
  test.each([
    ...Object.entries(Algorithm).map(([name, algorithm]) => ({
      name,
      ask: (key: string, amount: number) => asked(key, limitOf(algorithm, amount)),
      askTotal: (key: string, amount: number) => asked(key, limitOf(Algorithm.fixedWindow, amount)),
    })),
    { name: "counters of COMPATIBILITY_MODE", ask: askCounter, askTotal: askCounter },
  ])("grant exactly what a limit says, and charge nobody for a refused call: $name", async ({ ask, askTotal }) => {
    const shared = newSharedStore({ threadsMax: THREADS + 1 });
    const hot = ask("hot", AMOUNT);
    const total = askTotal("total", 2 * AMOUNT);
    const keys = ["a", "b", "c"].map((key) => ask(key, AMOUNT));
    const groups = [[hot], ...keys.map((key) => [key, total])];
    const counted = newCounts(groups.length);
    const threads = Array.from({ length: THREADS }, (_, i) =>
      startThread({ shared, thread: i + 1, groups, counted, untilRefused: 1_000 }),
    );
    await Promise.all(threads.map(({ ended }) => ended));
    const granted = countsOf(counted).filter((_, i) => i % 2 === 0);
    const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread: THREADS + 1 } });
    expect(granted[0]).toBe(AMOUNT);
    expect(keys.map((key) => usedOf(store, key))).toEqual(granted.slice(1));
    expect(usedOf(store, total)).toBe(2 * AMOUNT);
    expect(granted.slice(1).reduce((sum, count) => sum + count, 0)).toBe(2 * AMOUNT);
    expect(lockedIn(shared)).toEqual([]);
    await store.close();
  });

  // Promise(limits): Threads that reserve, settle, refund and report on the same buckets leave exactly what they used.
  test("leave exactly what they used when they reserve, settle below and above, refund and report at the same time", async () => {
    // Room for all settled ids, however long a thread waits for a processor between two calls.
    const shared = newSharedStore({ threadsMax: THREADS + 1, holdsMax: 100_000 });
    const held = (algorithm: Algorithm) => limitOf(algorithm, 100_000, { holdSeconds: 3_600 });
    const buckets = [held(Algorithm.tokenBucket), held(Algorithm.fixedWindow)].map((limit, i) =>
      asked(`held-${i}`, limit),
    );
    const all = (more: Partial<Asked>) => buckets.map((bucket) => ({ ...bucket, ...more }));
    const places = asked(
      "places",
      limitOf(Algorithm.tokenBucket, 0, { burst: 100, isConcurrent: true, holdSeconds: 3_600 }),
    );
    const groups = [
      [...all({ cost: 5, holdId: "a" }), { ...places, holdId: "a" }],
      all({ cost: 9, holdId: "b" }),
      all({ cost: 2, mode: Mode.postPaid }),
      [...all({ cost: 3, mode: Mode.settle, holdId: "a" }), { ...places, mode: Mode.settle, holdId: "a" }],
      all({ cost: 20, mode: Mode.settle, holdId: "b" }),
      // Settled again, which charges nothing.
      all({ cost: 50, mode: Mode.settle, holdId: "a" }),
      all({ cost: 1, mode: Mode.refund }),
    ];
    const rounds = 300;
    const counted = newCounts(groups.length);
    const threads = Array.from({ length: THREADS }, (_, i) =>
      startThread({ shared, thread: i + 1, groups, counted, calls: rounds * groups.length }),
    );
    await Promise.all(threads.map(({ ended }) => ended));
    const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread: THREADS + 1 } });
    expect(buckets.map((bucket) => usedOf(store, bucket))).toEqual(
      buckets.map(() => THREADS * rounds * (3 + 20 + 2 - 1)),
    );
    expect(store.buckets.holds.liveCount).toBe(0);
    expect(lockedIn(shared)).toEqual([]);
    await store.close();
  });

  const mixed = [
    asked("key", limitOf(Algorithm.tokenBucket, 1_000_000)),
    asked("log", limitOf(Algorithm.slidingLog, 1_000)),
    asked("held", limitOf(Algorithm.fixedWindow, 1_000_000, { holdSeconds: 3_600 }), { holdId: "id" }),
    asked("debt", limitOf(Algorithm.tokenBucket, 1_000_000, { holdSeconds: 3_600 }), { holdId: "id" }),
    asked("month", limitOf(Algorithm.calendarWindow, 1_000_000)),
    askCounter("counter", 1_000_000),
    asked("total", limitOf(Algorithm.slidingWindow, 1_000_000)),
  ];

  /** What must hold after a thread has ended in a call of `mixed`, having counted `said` calls. */
  function expectWhole(shared: SharedStore, said: number, exitAtStep: number): void {
    new StoreMemory(shared, 1).endThread();
    const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread: 2 } });
    const used = mixed.map((one) => usedOf(store, one));
    expect({ exitAtStep, used }).toEqual({ exitAtStep, used: mixed.map(() => used[0]) });
    expect([said, said + 1]).toContain(used[0]);
    expect(store.buckets.holds.liveCount).toBe(2 * (used[0] as number));
    expect(lockedIn(shared)).toEqual([]);
    void store.close();
  }

  const newShared = () => newSharedStore({ threadsMax: 2, bucketsMax: 100 });

  // Promise(limits): A thread that ends at any step of a call leaves no lock, no half call and no wrong count.
  test("count a call of several limits whole or not at all, at whichever step it is cut off", () => {
    let exitAtStep = 0;
    for (let said = 0; said < 3; ) {
      const shared = newShared();
      said = callsUntilStep(shared, ++exitAtStep);
      expectWhole(shared, said, exitAtStep);
    }
    expect(exitAtStep).toBeGreaterThan(500);
  });

  /** Makes calls until the given step, after which nothing is written any more, as if the thread had ended; returns how many were answered. */
  function callsUntilStep(shared: SharedStore, exitAtStep: number): number {
    class End extends Error {}
    let steps = 0;
    const step = () => {
      if (++steps >= exitAtStep) throw new End();
    };
    const patched = [
      ...(["setNumber", "setWord", "commit", "undo"] as const).map(
        (name) => [JournaledMemory.prototype, name] as const,
      ),
      ...(["compareExchange", "exchange"] as const).map((name) => [Atomics, name] as const),
    ].map(([object, name]) => {
      const methods = object as unknown as Record<string, (...given: unknown[]) => unknown>;
      const original = methods[name] as (...given: unknown[]) => unknown;
      methods[name] = function (this: unknown, ...given) {
        step();
        const result = original.apply(this, given);
        step();
        return result;
      };
      return () => {
        methods[name] = original;
      };
    });
    const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread: 1 } });
    let calls = 0;
    try {
      for (;;) {
        const group = new TakeGroup();
        group.hasCounters = true;
        for (const [i, { key, limit, mode, holdId }] of mixed.entries()) {
          const take = group.add(limit);
          Object.assign(take, { bucketKey: key, descriptor: i, mode });
          if (holdId !== undefined) take.holdId = `${holdId}-${calls}`;
        }
        store.take(group);
        calls++;
      }
    } catch (error) {
      if (!(error instanceof End)) throw error;
    } finally {
      for (const restore of patched) restore();
      void store.close();
    }
    return calls;
  }

  test("go on exactly while threads are ended at random and replaced", async () => {
    const shared = newSharedStore({ threadsMax: THREADS + 1 });
    const counted = newCounts(1);
    const start = (thread: number) =>
      startThread({
        shared,
        thread,
        groups: [mixed.slice(0, 1).concat(mixed.slice(2))],
        counted,
      });
    const running = Array.from({ length: THREADS }, (_, i) => start(i + 1));
    let random = 7;
    const below = (max: number) => {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      return random % max;
    };
    const kills = 24;
    for (let kill = 0; kill < kills; kill++) {
      await new Promise((done) => setTimeout(done, 20 + below(60)));
      const number = below(THREADS);
      const { worker, ended } = running[number] as (typeof running)[0];
      await worker.terminate();
      await ended;
      new StoreMemory(shared, number + 1).endThread();
      running[number] = start(number + 1);
    }
    for (const [i, { worker, ended }] of running.entries()) {
      await worker.terminate();
      await ended;
      new StoreMemory(shared, i + 1).endThread();
    }
    const store = new MemoryStore({ clock: new SystemClock(), shared: { store: shared, thread: THREADS + 1 } });
    const used = [mixed[0], ...mixed.slice(2)].map((one) => usedOf(store, one as Asked));
    const [said = 0] = countsOf(counted);
    expect(used).toEqual(used.map(() => used[0]));
    expect(used[0]).toBeGreaterThanOrEqual(said);
    expect(used[0]).toBeLessThanOrEqual(said + kills + THREADS);
    expect(said).toBeGreaterThan(1_000);
    expect(lockedIn(shared)).toEqual([]);
    await store.close();
  });
});
