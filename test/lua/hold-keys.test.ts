// What Redis keeps of holds: as long as they live, whatever else happens to their bucket; and what comes of keys that it evicts.
// Calls are written as the store writes them, under server time where lifetimes are looked at.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { HoldFound, Mode, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { HOLDS_FULL } from "../../src/stores/batching/reply.ts";
import { RedisBatch, unpackNumbers } from "../../src/stores/redis/redis-batch.ts";
import { overspent, type Use } from "../property/overspent.ts";
import { makeLimit } from "../support/builders.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { SCRIPTS, START_US } from "./script-rig.ts";

const SECOND_US = 1_000_000;
const KEY = "{bench}|k";

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
}, 60_000);
afterAll(() => server.stop());

interface Asked {
  readonly limit: Limit;
  readonly mode: Mode;
  readonly cost?: number;
  readonly holdId?: string;
  readonly key?: string;
}

interface Answered {
  readonly verdict: number;
  readonly remaining: number;
  /** Of a settlement: what was held, or a HoldFound. */
  readonly found: number;
}

/** One script call of one group; `timeUs` 0 is the server's own time. The answer is the first take's. */
async function ask(asked: readonly Asked[], timeUs = 0): Promise<Answered> {
  const group = new TakeGroup();
  for (const [i, { limit, mode, cost = 1, holdId = "", key = KEY }] of asked.entries()) {
    const take = group.add(limit);
    Object.assign(take, { bucketKey: key, descriptor: i, mode, cost, holdId });
  }
  const batch = new RedisBatch();
  batch.add(group, { answered: () => undefined });
  const args = batch
    .encode(timeUs, { latestOf: () => 0, bucketTimeUs: () => timeUs })
    .map((text) => Buffer.from(text, "latin1"));
  const reply = unpackNumbers(await server.commandForBytes("EVAL", SCRIPTS[batch.script].text, ...args)) ?? [];
  return { verdict: reply[2] ?? 0, remaining: reply[4] ?? 0, found: reply[7] ?? 0 };
}

/** Milliseconds that a key has left, -2 if there isn't one, and what it holds. */
async function look(key: string): Promise<{ leftMs: number; dump: string }> {
  const dump = await server.commandForBytes("DUMP", key);
  return { leftMs: Number(await server.command("PTTL", key)), dump: String(dump) };
}

const ALL_KEYS = [KEY, `${KEY}|holds`, `${KEY}|lows`];

function bucketOf(amount: number, holdSeconds: number): Limit {
  return makeLimit({
    algorithm: Algorithm.tokenBucket,
    amount,
    burst: 1_000,
    windowSeconds: 1,
    debtMax: 10_000,
    holdSeconds,
  });
}

const FULL = makeLimit({ algorithm: Algorithm.tokenBucket, amount: 1, burst: 1, windowSeconds: 1 });

const SLOW = makeLimit({
  algorithm: Algorithm.tokenBucket,
  amount: 100,
  burst: 1_000,
  windowSeconds: 60,
  holdSeconds: 3_600,
});

const operation = fc.record({
  // Refills a bucket in less than a millisecond, in a while, and hardly ever; rules are edited in between.
  amount: fc.constantFrom(4_000_000, 1_000, 1),
  ttl: fc.constantFrom(20, 300, 5_000),
  what: fc.constantFrom("pay", "pay", "pay", "settle", "settle", "post-pay", "peek", "refused"),
  id: fc.constantFrom("a", "b", "c", "d", ""),
  cost: fc.integer({ min: 1, max: 700 }),
});

test("holds and lows live as long as the last hold, and a refused call leaves all keys as they were", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 30 }), async (operations) => {
      await server.flush();
      for (const { amount, ttl, what, id, cost } of operations) {
        const limit = bucketOf(amount, ttl);
        const before = await Promise.all(ALL_KEYS.map(look));
        if (what === "refused") {
          const refused = { limit: FULL, mode: Mode.pay, cost: 2, key: `${KEY}full` };
          expect((await ask([{ limit, mode: Mode.pay, cost, holdId: id }, refused])).verdict).toBe(Verdict.refused);
          const after = await Promise.all(ALL_KEYS.map(look));
          for (const [i, { leftMs, dump }] of before.entries()) {
            // A bucket that is full by either rate, or was about to be, may go.
            const mayGo = i === 0 && (amount === 4_000_000 || leftMs < 1_000);
            if (!mayGo || after[i]?.leftMs !== -2) expect(after[i]?.dump, ALL_KEYS[i]).toBe(dump);
          }
        } else if (what === "settle" && id !== "") await ask([{ limit, mode: Mode.settle, cost, holdId: id }]);
        else if (what === "post-pay") await ask([{ limit, mode: Mode.postPaid, cost }]);
        else if (what === "peek") await ask([{ limit, mode: Mode.peek, cost }]);
        else await ask([{ limit, mode: Mode.pay, cost, holdId: id }]);
        await expectKept();
      }
    }),
    { numRuns: runs(200) },
  );
});

async function expectKept(): Promise<void> {
  const keys = [`${KEY}|holds`, `${KEY}|lows`];
  // Looked at before the time is asked for: what is left only shrinks meanwhile.
  const left = await Promise.all(keys.map(look));
  const [, endsUs = "0"] = (await server.command("ZRANGE", `${KEY}|holds`, -1, -1, "WITHSCORES")) as string[];
  const [seconds, micros] = (await server.command("TIME")) as [string, string];
  const neededMs = (Number(endsUs) - Number(seconds) * SECOND_US - Number(micros)) / 1_000;
  for (const [i, { leftMs }] of left.entries()) {
    if (endsUs === "0") expect(leftMs, keys[i]).toBe(-2);
    // Redis rounds, and so does the script.
    else expect(leftMs, keys[i]).toBeGreaterThanOrEqual(neededMs - 2);
  }
}

const reserve = (holdId: string) => ({ limit: SLOW, mode: Mode.pay, cost: 5, holdId });
const settle = (holdId: string) => ({ limit: SLOW, mode: Mode.settle, cost: 2, holdId });

test.each([
  {
    what: "reserves the first hold",
    before: [],
    asked: reserve("a"),
    commands: "mget pexpire set set set time zadd zrange",
  },
  {
    what: "settles the last hold",
    before: [reserve("a")],
    asked: settle("a"),
    commands: "del mget set set time zrange",
  },
])("a call that $what asks Redis no more than it needs", async ({ before, asked, commands }) => {
  await server.flush();
  for (const one of before) await ask([one]);
  await server.command("CONFIG", "RESETSTAT");
  await ask([asked]);
  const info = String(await server.command("INFO", "commandstats"));
  const run = [...info.matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)].flatMap(([, name, calls]) =>
    Array.from({ length: Number(calls) }, () => name),
  );
  expect(
    run
      .filter((name) => !/eval|config|info/.test(name ?? ""))
      .sort()
      .join(" "),
  ).toBe(commands);
});

test("a call for whose holds one bucket has no room leaves the lifetimes of its other buckets", async () => {
  await server.flush();
  const limit = makeLimit({
    algorithm: Algorithm.tokenBucket,
    amount: 10,
    burst: 100,
    windowSeconds: 3_600,
    holdSeconds: 1,
  });
  const crowded = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 99, windowSeconds: 3_600, holdSeconds: 60 });
  const crowd = "{bench}|crowd";
  const inTheCrowd = { limit: crowded, mode: Mode.pay, key: crowd };
  await ask([{ ...inTheCrowd, holdId: "first" }]);
  const [, endsUs = ""] = (await server.command("ZRANGE", `${crowd}|holds`, 0, 0, "WITHSCORES")) as string[];
  const members = Array.from({ length: 9_999 }, (_, i) => [endsUs, `1 1 1 |r${i}`]).flat();
  await server.command("ZADD", `${crowd}|holds`, ...members);
  await ask([{ limit, mode: Mode.pay, cost: 90 }]);
  await ask([{ limit, mode: Mode.pay, cost: 5, holdId: "ends" }]);
  await expect
    .poll(async () => {
      const { verdict } = await ask([
        { limit, mode: Mode.pay, holdId: "new" },
        { ...inTheCrowd, holdId: "one more" },
      ]);
      expect(verdict).toBe(HOLDS_FULL);
      return server.command("ZCARD", `${KEY}|holds`);
    })
    .toBe(0);
  // 90 of 100 are owed: nine hours.
  expect((await look(KEY)).leftMs).toBeGreaterThan(8 * 3_600_000);
});

// Some wait until the bucket is full, and many use all or nothing of much: there giving back too much shows.
const stream = fc.record({
  afterUs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20 * SECOND_US })),
  estimate: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constant(60)),
  usedShare: fc.oneof(fc.integer({ min: 0, max: 1_000 }), fc.constantFrom(0, 1_000)),
  takesUs: fc.oneof(
    { weight: 4, arbitrary: fc.integer({ min: 0, max: 60 * SECOND_US - 1 }) },
    { weight: 1, arbitrary: fc.constant(Number.POSITIVE_INFINITY) },
  ),
  evicted: fc.constantFrom("", "", "|holds", "|lows", "|lows", "|hold|"),
});

test("whatever Redis evicts of holds, what callers use stays within the limit", async () => {
  const numbers = fc.record({ amount: fc.integer({ min: 60, max: 2_000 }), burst: fc.constantFrom(60, 61, 90, 120) });
  await fc.assert(
    fc.asyncProperty(
      numbers,
      fc.array(stream, { minLength: 10, maxLength: 40 }),
      async ({ amount, burst }, streams) => {
        await server.flush();
        const limit = makeLimit({
          algorithm: Algorithm.tokenBucket,
          amount,
          burst,
          windowSeconds: 60,
          debtMax: 1_000_000,
          holdSeconds: 60,
        });
        const uses: Use[] = [];
        const due: { readonly atUs: number; readonly id: string; readonly used: number }[] = [];
        let nowUs = START_US;
        for (const [i, { afterUs, estimate, usedShare, takesUs, evicted }] of streams.entries()) {
          nowUs += afterUs;
          due.sort((one, other) => one.atUs - other.atUs);
          for (let report = due[0]; report !== undefined && report.atUs <= nowUs; report = due[0]) {
            due.shift();
            await ask([{ limit, mode: Mode.settle, cost: report.used, holdId: report.id }], report.atUs);
          }
          if (evicted !== "")
            await server.command("DEL", `${KEY}${evicted}${evicted === "|hold|" ? `r${Math.max(0, i - 1)}` : ""}`);
          const answer = await ask([{ limit, mode: Mode.pay, cost: estimate, holdId: `r${i}` }], nowUs);
          if (answer.verdict !== Verdict.allowed || takesUs === Number.POSITIVE_INFINITY) continue;
          const used = Math.floor((estimate * usedShare) / 1_000);
          uses.push({ atUs: nowUs, used });
          due.push({ atUs: nowUs + takesUs, id: `r${i}`, used });
        }
        expect(overspent(uses, burst, amount / 60)).toBeLessThanOrEqual(1e-6);
      },
    ),
    { numRuns: runs(400) },
  );
});

test("holds whose lows are lost give nothing back, and those that are opened after it all that they paid", async () => {
  await server.flush();
  const remaining = async (mode: Mode, cost: number, holdId: string, timeUs: number) =>
    (await ask([{ limit: SLOW, mode, cost, holdId }], timeUs)).remaining;
  const laterUs = START_US + 900 * SECOND_US;
  await remaining(Mode.pay, 600, "a", START_US);
  expect(await remaining(Mode.pay, 500, "b", laterUs)).toBe(500);
  expect(await server.command("DEL", `${KEY}|lows`)).toBe(1);
  expect(await remaining(Mode.pay, 200, "c", laterUs)).toBe(300);
  expect(await remaining(Mode.settle, 0, "a", laterUs)).toBe(300);
  expect(await remaining(Mode.settle, 0, "b", laterUs)).toBe(300);
  expect(await remaining(Mode.settle, 50, "c", laterUs)).toBe(450);
});

const PLACES = { algorithm: Algorithm.tokenBucket, amount: 0, burst: 500, isConcurrent: true, holdSeconds: 60 };

test("a hold whose member of the set is lost counts as none", async () => {
  await server.flush();
  const limit = makeLimit(PLACES);
  const askOne = (mode: Mode, holdId: string) =>
    ask([{ limit, mode, cost: mode === Mode.settle ? 0 : 1, holdId }], START_US);
  await askOne(Mode.pay, "a");
  await askOne(Mode.pay, "b");
  const [member = ""] = (await server.command("ZRANGE", `${KEY}|holds`, 0, 0)) as string[];
  expect(member).toMatch(/\|a$/);
  await server.command("ZREM", `${KEY}|holds`, member);
  expect((await askOne(Mode.settle, "a")).found).toBe(HoldFound.none);
  expect((await askOne(Mode.peek, "")).remaining).toBe(499);
  expect((await askOne(Mode.settle, "b")).found).toBe(1);
  expect((await askOne(Mode.peek, "")).remaining).toBe(500);
});

test("ids of any bytes are told apart, also from holds without one, when all are opened at the same moment", async () => {
  await server.flush();
  const limit = makeLimit(PLACES);
  const ids = ["a\0b", "a\0c", "a", "+", "++", "|", ""];
  const paid = [...ids, ...ids].map((holdId) => ({ limit, mode: Mode.pay, holdId }));
  await ask(paid, START_US);
  const peek = async () => (await ask([{ limit, mode: Mode.peek }], START_US)).remaining;
  expect(await peek()).toBe(500 - paid.length);
  for (const [i, holdId] of ids.slice(0, -1).entries()) {
    expect((await ask([{ limit, mode: Mode.settle, cost: 0, holdId }], START_US)).found).toBe(1);
    expect(await peek()).toBe(500 - paid.length + i + 1);
  }
});

test("one call ends 32 holds in all its buckets together, later calls the rest", async () => {
  await server.flush();
  const keys = ["x", "y", "z"];
  for (const key of keys) {
    const paid = Array.from({ length: 25 }, (_, i) => ({ limit: SLOW, mode: Mode.pay, holdId: `${i}`, key }));
    await ask(paid, START_US);
  }
  const left: number[] = [];
  const afterUs = START_US + 3_601 * SECOND_US;
  for (let calls = 0; calls < 3; calls++) {
    await ask(
      keys.map((key) => ({ limit: SLOW, mode: Mode.peek, key })),
      afterUs,
    );
    const sizes = await Promise.all(keys.map((key) => server.command("ZCARD", `${key}|holds`)));
    left.push(sizes.reduce<number>((sum, size) => sum + Number(size), 0));
  }
  expect(left).toEqual([43, 11, 0]);
});

test("places whose holds have ended are free at once, and no call removes more than 32 of them", async () => {
  await server.flush();
  const limit = makeLimit(PLACES);
  await ask(
    Array.from({ length: 50 }, (_, i) => ({ limit, mode: Mode.pay, holdId: `${i}` })),
    START_US,
  );
  const left: number[] = [];
  for (let calls = 0; calls < 2; calls++) {
    expect((await ask([{ limit, mode: Mode.peek }], START_US + 61 * SECOND_US)).remaining).toBe(500);
    left.push(Number(await server.command("ZCARD", `${KEY}|holds`)));
  }
  expect(left).toEqual([18, 0]);
});
