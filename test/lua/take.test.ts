// What lua/take.lua does to a real server: arguments, replies, lifetimes, and what it leaves untouched. That its
// numbers are those of the algorithms is the contract's business (test/contract, test/property).

import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm } from "../../src/engine/domain/limit.ts";
import { Mode, Verdict } from "../../src/engine/domain/take.ts";
import { bucketNumbers } from "../property/rates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { numbersOf, runOne, runScript, type ScriptCall, type ScriptTake, START_US } from "./script-rig.ts";

const TOO_LATE = 3;
const EACH = ALGORITHMS.map((algorithm) => ({ name: ALGORITHM_NAMES[algorithm], algorithm }));

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterEach(() => server.flush());
afterAll(() => server.stop());

function payCall(algorithm: number, amount: number, cost = 1, overrides: Partial<ScriptCall> = {}): ScriptCall {
  return { keys: ["k"], limits: [{ algorithm, amount }], groups: [{ takes: [{ cost }] }], ...overrides };
}

/** Commands that the server has run since `CONFIG RESETSTAT`, by name. */
async function commandCounts(): Promise<Record<string, number>> {
  const info = String(await server.command("INFO", "commandstats"));
  const counts = [...info.matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)].map(([, name = "", calls]) => [
    name,
    Number(calls),
  ]);
  return Object.fromEntries(counts);
}

describe("replies", () => {
  test("a group of more numbers than a function may return at once is settled like any other", async () => {
    const keys = Array.from({ length: 900 }, (_, index) => `k${index}`);
    const takes = keys.map((_, index) => ({ key: index + 1, descriptor: index, cost: index + 1 }));
    const limits = [{ algorithm: Algorithm.fixedWindow, amount: 1_000 }];
    const { groups } = await runScript(server, { keys, limits, groups: [{ takes }] });
    expect(groups[0]?.answers.map(({ remaining }) => remaining)).toEqual(keys.map((_, index) => 999 - index));
  });

  // Promise(redis): Redis's own clock decides, not the callers'.
  test.each(EACH)("$name answers with its own time when none is given", async ({ algorithm }) => {
    const { timeUs, groups } = await runScript(server, payCall(algorithm, 10, 3, { timeUs: 0 }));
    expect(groups[0]?.answers[0]).toMatchObject({ isPaid: true, paidAtUs: timeUs });
  });

  test("a group that comes after its latest time pays nothing and says so; its neighbours are settled", async () => {
    const call = payCall(Algorithm.fixedWindow, 10, 1, {
      groups: [
        { takes: [{ cost: 2 }], latestUs: START_US },
        { takes: [{ cost: 3 }], latestUs: START_US - 1 },
        { takes: [{ cost: 4 }] },
      ],
    });
    const { groups } = await runScript(server, call);
    expect(groups.map(({ verdict }) => verdict)).toEqual([Verdict.allowed, TOO_LATE, Verdict.allowed]);
    expect(await runOne(server, payCall(Algorithm.fixedWindow, 10))).toMatchObject({ remaining: 10 - 2 - 4 - 1 });
  });
});

describe("lifetimes", () => {
  // A minute is added because the time is given.
  test.each([
    { algorithm: Algorithm.tokenBucket, cost: 6, timeUs: START_US, ms: 36_000 },
    { algorithm: Algorithm.slidingWindow, cost: 6, timeUs: START_US + 15_000_000, ms: 105_000 },
    { algorithm: Algorithm.fixedWindow, cost: 6, timeUs: START_US + 15_000_000, ms: 45_000 },
    { algorithm: Algorithm.slidingLog, cost: 6, timeUs: START_US + 15_000_000, ms: 60_000 },
  ])(
    "algorithm $algorithm keeps its key for $ms ms, until its state means nothing",
    async ({ algorithm, cost, timeUs, ms }) => {
      const limits = [{ algorithm, amount: 10, seconds: 60 }];
      await runScript(server, { keys: ["k"], limits, groups: [{ takes: [{ cost }] }], timeUs });
      const lifetimeMs = Number(await server.command("PTTL", "k"));
      expect(lifetimeMs).toBeLessThanOrEqual(ms + 60_000);
      expect(lifetimeMs).toBeGreaterThan(ms + 60_000 - 2_000);
    },
  );

  test.each(EACH)("$name adds nothing when the time is the server's own", async ({ algorithm }) => {
    const limits = [{ algorithm, amount: 10, seconds: 60 }];
    await runScript(server, { keys: ["k"], limits, groups: [{ takes: [{ cost: 10 }] }], timeUs: 0 });
    const lifetimeMs = Number(await server.command("PTTL", "k"));
    // -1 means for ever; a window may have ended at this moment, and then it is -2.
    expect(lifetimeMs).not.toBe(-1);
    expect(lifetimeMs).toBeLessThanOrEqual(algorithm === Algorithm.slidingWindow ? 120_000 : 60_000);
  });

  test("a debt that takes longer than ten years is kept ten years", async () => {
    const limits = [{ algorithm: Algorithm.tokenBucket, amount: 1, burst: AMOUNT_MAX, seconds: 31_536_000 }];
    await runScript(server, { keys: ["k"], limits, groups: [{ takes: [{ cost: AMOUNT_MAX }] }], timeUs: 0 });
    const tenYearsMs = 315_360_000_000;
    expect(Number(await server.command("PTTL", "k"))).toBeGreaterThan(tenYearsMs - 10_000);
    expect(Number(await server.command("PTTL", "k"))).toBeLessThanOrEqual(tenYearsMs);
  });

  // Promise(limits): A lowered rate keeps what was spent, on every store.
  test("a bucket is kept as long as the rate needs that it was last asked about, refused or only looked at", async () => {
    const costs = fc.integer({ min: 1, max: AMOUNT_MAX });
    await fc.assert(
      fc.asyncProperty(bucketNumbers(), bucketNumbers(), costs, fc.boolean(), async (written, edited, cost, peeks) => {
        await server.command("DEL", "k");
        const callOf = ({ amount, burst, windowSeconds }: typeof written, mode: Mode, asked: number): ScriptCall => ({
          keys: ["k"],
          limits: [{ algorithm: 0, amount, burst, seconds: windowSeconds, debtMax: AMOUNT_MAX }],
          groups: [{ takes: [{ mode, cost: asked }] }],
          timeUs: 0,
        });
        await runOne(server, callOf(written, Mode.postPaid, cost));
        const before = await server.command("GET", "k");
        const { reset } = await runOne(server, callOf(edited, peeks ? Mode.peek : Mode.pay, edited.burst + 1));
        const lifetimeMs = Number(await server.command("PTTL", "k"));
        // What is gone already, by either rate, need not be kept; a busy machine may take a while to come here.
        fc.pre(reset > 1_000_000 && before !== null);
        expect(lifetimeMs).toBeGreaterThan(reset / 1_000 - 500);
        expect(await server.command("GET", "k")).toBe(before);
      }),
      { numRuns: runs(150) },
    );
  });

  // Promise(redis): Every key in Redis has a lifetime.
  test("every key of a mixed call has a lifetime", async () => {
    const keys = ["a", "b", "c", "d"];
    const takes = keys.map((_, index) => ({ key: index + 1, limit: index + 1 }));
    const limits = EACH.map(({ algorithm }) => ({ algorithm, amount: 5 }));
    await runScript(server, { keys, limits, groups: [{ takes }], timeUs: 0 });
    const lifetimes = await Promise.all(keys.map((key) => server.command("PTTL", key)));
    expect(lifetimes.filter((ms) => Number(ms) > 0)).toHaveLength(keys.length);
  });

  test.each(EACH)("$name deletes a state that is full", async ({ algorithm }) => {
    await runScript(server, payCall(algorithm, 10, 3));
    await runScript(server, payCall(algorithm, 10, 1, { groups: [{ takes: [{ mode: Mode.refund, cost: 9 }] }] }));
    expect(await server.command("EXISTS", "k")).toBe(0);
  });
});

describe("writes", () => {
  test("one over among many undoes what was paid for the others, and a refusal writes nothing", async () => {
    const keys = ["a", "b", "c", "d", "e", "full"];
    const limits = [
      ...EACH.map(({ algorithm }) => ({ algorithm, amount: 5, seconds: 3_600 })),
      { algorithm: Algorithm.fixedWindow, amount: 0 },
    ];
    const takes = keys.map((_, index) => ({ key: index + 1, limit: index + 1, descriptor: index }));
    const ask = async (asked: readonly ScriptTake[]) =>
      (await runScript(server, { keys, limits, groups: [{ takes: asked }] })).groups[0];
    const dumps = () => Promise.all(keys.map((key) => server.command("DUMP", key)));
    expect((await ask(takes))?.verdict).toBe(Verdict.refused);
    expect(await server.command("DBSIZE")).toBe(0);
    expect((await ask(takes.slice(0, -1)))?.verdict).toBe(Verdict.allowed);
    const before = await dumps();
    await server.command("CONFIG", "RESETSTAT");
    const refused = await ask(takes.map((take) => ({ ...take, cost: 3 })));
    expect(refused?.verdict).toBe(Verdict.refused);
    expect(refused?.answers.map(({ remaining }) => remaining)).toEqual([4, 4, 4, 4, 4, 0]);
    expect(Object.keys(await commandCounts()).filter((name) => /^(set|del|pexpire)$/.test(name))).toEqual([]);
    expect(await dumps()).toEqual(before);
  });

  test("a hundred groups on one key cost one read and one write", async () => {
    const groups = Array.from({ length: 100 }, () => ({ takes: [{}] }));
    await server.command("CONFIG", "RESETSTAT");
    const reply = await runScript(server, payCall(Algorithm.tokenBucket, 1_000, 1, { groups, timeUs: 0 }));
    expect(reply.groups.filter(({ verdict }) => verdict === Verdict.allowed)).toHaveLength(100);
    const { mget, set, time, eval: calls, ...others } = await commandCounts();
    expect({ mget, set, time, calls }).toEqual({ mget: 1, set: 1, time: 1, calls: 1 });
    expect(Object.keys(others).filter((name) => !/^(config\|resetstat|info)$/.test(name))).toEqual([]);
  });

  test("a log drops what has left its window, and only that", async () => {
    const limit = { algorithm: Algorithm.slidingLog, amount: 1_000, seconds: 1 };
    const payments = Array.from({ length: 400 }, (_, i) => [START_US + i * 5_000, 2 * (i + 1)]);
    await server.command("SET", "log", numbersOf(0, ...payments.flat()));
    const timeUs = START_US + 2_010_000;
    await runScript(server, { keys: ["log"], limits: [limit], groups: [{ takes: [{ cost: 3 }] }], timeUs });
    const kept = [2 * 203, ...payments.slice(203).flat(), timeUs, 2 * 400 + 3];
    expect(await server.commandForBytes("GET", "log")).toEqual(numbersOf(...kept));
  });

  test("a log of a thousand payments joins a further one to the newest, which then counts as paid now", async () => {
    const limit = { algorithm: Algorithm.slidingLog, amount: 1_000, seconds: 3_600 };
    const payments = Array.from({ length: 1_000 }, (_, i) => [START_US + i, i + 1]);
    await server.command("SET", "log", numbersOf(0, ...payments.flat()));
    const timeUs = START_US + 20_000;
    const takes = [{ mode: Mode.postPaid, cost: 5 }];
    await runScript(server, { keys: ["log"], limits: [limit], groups: [{ takes }], timeUs });
    const kept = [0, ...payments.slice(0, -1).flat(), timeUs, 1_005];
    expect(await server.commandForBytes("GET", "log")).toEqual(numbersOf(...kept));
  });

  test("a log whose sums have become large begins to count from 0 again", async () => {
    const limit = { algorithm: Algorithm.slidingLog, amount: 10, seconds: 60 };
    const base = 2 ** 52;
    await server.command("SET", "log", numbersOf(base, START_US, base + 1, START_US + 50_000_000, base + 4));
    const timeUs = START_US + 70_000_000;
    const call = { keys: ["log"], limits: [limit], groups: [{ takes: [{ cost: 5 }] }], timeUs };
    expect(await runOne(server, call)).toMatchObject({ isPaid: true, remaining: 2 });
    expect(await server.commandForBytes("GET", "log")).toEqual(numbersOf(0, START_US + 50_000_000, 3, timeUs, 8));
  });
});
