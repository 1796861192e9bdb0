// Keys that hold something else than the state they should: deleted, treated as empty, counted, and nobody else's business.

import fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm } from "../../src/engine/domain/limit.ts";
import { Mode, Outcome, Verdict } from "../../src/engine/domain/take.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { numbersOf, runOne, runScript, START_US } from "./script-rig.ts";

const EACH = ALGORITHMS.map((algorithm) => ({ name: ALGORITHM_NAMES[algorithm], algorithm }));

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
});
afterEach(() => server.flush());
afterAll(() => server.stop());

const RUBBISH: readonly { what: string; put: (key: string) => Promise<unknown> }[] = [
  { what: "a hash", put: (key) => server.command("HSET", key, "tokens", "3") },
  { what: "text", put: (key) => server.command("SET", key, "hello world and more") },
  { what: "empty text", put: (key) => server.command("SET", key, "") },
  { what: "bytes", put: (key) => server.command("SET", key, Buffer.from([0, 255, 10, 13, 32, 49])) },
  { what: "text as long as a token bucket", put: (key) => server.command("SET", key, "1000000 17672256") },
  { what: "text as long as a window", put: (key) => server.command("SET", key, "1767225600000000 30 1000") },
  { what: "a list of text", put: (key) => server.command("RPUSH", key, "one", "two") },
  { what: "numbers without a payment", put: (key) => server.command("SET", key, numbersOf(3)) },
  { what: "a payment of nothing", put: (key) => server.command("SET", key, numbersOf(3, START_US, 3)) },
  { what: "a payment of less than nothing", put: (key) => server.command("SET", key, numbersOf(3, START_US, 1)) },
  { what: "a payment of part of a hit", put: (key) => server.command("SET", key, numbersOf(0, START_US, 1.5)) },
  { what: "a payment without a time", put: (key) => server.command("SET", key, numbersOf(0, Number.NaN, 1)) },
];

const CASES = EACH.flatMap(({ name, algorithm }) => RUBBISH.map(({ what, put }) => ({ name, algorithm, what, put })));

test.each(CASES)(
  "$name on $what: a new bucket, counted; a peek deletes it, a payment writes it over",
  async ({ algorithm, put }) => {
    const ask = (mode: Mode, cost: number) =>
      runScript(server, { keys: ["k"], limits: [{ algorithm, amount: 10 }], groups: [{ takes: [{ mode, cost }] }] });
    await put("k");
    const peeked = await ask(Mode.peek, 1);
    expect(peeked.damaged).toBe(1);
    expect(peeked.groups[0]?.answers[0]).toMatchObject({ outcome: Outcome.room, remaining: 10, reset: 0 });
    expect(await server.command("EXISTS", "k")).toBe(0);
    await put("k");
    const { damaged, groups } = await ask(Mode.pay, 4);
    expect(damaged).toBe(1);
    expect(groups[0]?.answers[0]).toMatchObject({ outcome: Outcome.room, isPaid: true, remaining: 6 });
    const again = await ask(Mode.pay, 4);
    expect(again.damaged).toBe(0);
    expect(again.groups[0]?.answers[0]).toMatchObject({ remaining: 2 });
    expect(Number(await server.command("PTTL", "k"))).toBeGreaterThan(0);
  },
);

const STATES = [
  { name: "token_bucket", algorithm: Algorithm.tokenBucket, sound: [4_000_000, START_US] },
  { name: "fixed_window", algorithm: Algorithm.fixedWindow, sound: [START_US, 4] },
  { name: "sliding_window", algorithm: Algorithm.slidingWindow, sound: [START_US, 4, 0] },
  { name: "calendar_window", algorithm: Algorithm.calendarWindow, sound: [START_US, 4, 1] },
];
const UNSOUND = [-1, 0.5, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY];

test.each(STATES)("$name with one number that it never has: a new bucket", async ({ algorithm, sound }) => {
  const ask = async (numbers: readonly number[]) => {
    await server.command("SET", "k", numbersOf(...numbers));
    const groups = [{ takes: [{ cost: 1 }] }];
    const { damaged, groups: answered } = await runScript(server, {
      keys: ["k"],
      limits: [{ algorithm, amount: 10 }],
      groups,
    });
    return { damaged, remaining: answered[0]?.answers[0]?.remaining };
  };
  expect(await ask(sound)).toEqual({ damaged: 0, remaining: 5 });
  for (const at of sound.keys()) {
    for (const number of UNSOUND) expect(await ask(sound.with(at, number))).toEqual({ damaged: 1, remaining: 9 });
  }
});

test("a log with anything between its ends is answered in whole numbers, and sound again a window later", async () => {
  const damage = fc.oneof(fc.double(), fc.constantFrom(Number.NaN, -1, 0.5, 2 ** 60, Number.POSITIVE_INFINITY));
  const take = fc.record({ cost: fc.integer({ min: 1, max: 90 }), mode: fc.constantFrom(0, 1, 2, 3) });
  const limits = [{ algorithm: Algorithm.slidingLog, amount: 60, seconds: 60 }];
  const at = fc.integer({ min: 1, max: 120 });
  await fc.assert(
    fc.asyncProperty(damage, at, fc.array(take, { maxLength: 4 }), async (number, at, takes) => {
      const numbers = [0, ...Array.from({ length: 60 }, (_, i) => [START_US + i, i + 1]).flat()];
      await server.command("SET", "log", numbersOf(...numbers.with(at, number)));
      const givenBack = { mode: Mode.giveBack, cost: 2, descriptor: START_US + 30 };
      const groups = [givenBack, ...takes].map((one) => ({ takes: [one] }));
      await runScript(server, { keys: ["log"], limits, groups, timeUs: START_US + 100 });
      const later = { keys: ["log"], limits, groups: [{ takes: [{ cost: 50 }] }], timeUs: START_US + 99_000_000 };
      expect(await runOne(server, later)).toMatchObject({ outcome: Outcome.room, remaining: 10 });
      await server.flush();
    }),
    { numRuns: runs(100), examples: [[2 ** 52, 107, [{ cost: 6, mode: Mode.refund }]]] },
  );
});

test("a damaged bucket of a refused call is counted once", async () => {
  await server.command("SET", "bad", "rubbish");
  const limits = [
    { algorithm: Algorithm.tokenBucket, amount: 10 },
    { algorithm: Algorithm.tokenBucket, amount: 1 },
  ];
  const takes = [{ key: 1 }, { key: 2, limit: 2, cost: 2 }];
  const { damaged, groups } = await runScript(server, { keys: ["bad", "k"], limits, groups: [{ takes }] });
  expect(groups[0]?.verdict).toBe(Verdict.refused);
  expect(damaged).toBe(1);
});

test("a state of a missing key is a new bucket and no damage", async () => {
  const limits = EACH.map(({ algorithm }) => ({ algorithm, amount: 10 }));
  const takes = EACH.map((_, index) => ({ key: index + 1, limit: index + 1 }));
  const { damaged } = await runScript(server, { keys: ["a", "b", "c", "d", "e"], limits, groups: [{ takes }] });
  expect(damaged).toBe(0);
});

test("a refund on a missing key leaves it missing", async () => {
  const limits = EACH.map(({ algorithm }) => ({ algorithm, amount: 10 }));
  const takes = EACH.map((_, index) => ({ key: index + 1, limit: index + 1, mode: Mode.refund, cost: 5 }));
  await runScript(server, { keys: ["a", "b", "c", "d", "e"], limits, groups: [{ takes }] });
  expect(await server.command("DBSIZE")).toBe(0);
});
