// take_each.lua is a quicker way to what take_all.lua does: equal in replies and in what is stored, call after call.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode } from "../../src/engine/domain/take.ts";
import { bucketNumbers } from "../property/rates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { runScript, type ScriptCall, START_US, TAKE_ALL, TAKE_EACH } from "./script-rig.ts";

const KEYS = ["one", "two", "three", "four"];
/** Two clocks read one after another differ by this much at most; keys live a minute longer than the state needs. */
const LIFETIME_TOLERANCE_MS = 30_000;

let server: RedisServer;
beforeAll(async () => {
  server = await RedisServer.start();
}, 60_000);
afterAll(() => server.stop());

const LIMIT = fc
  .tuple(fc.constantFrom(...Object.values(Algorithm).filter((one) => one !== Algorithm.slidingLog)), bucketNumbers())
  .map(([algorithm, { amount, burst, windowSeconds }]) => ({ algorithm, amount, burst, seconds: windowSeconds }));

const COST = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 4_294_967_295 }));
const GROUP = fc.record({
  key: fc.integer({ min: 1, max: KEYS.length }),
  kind: fc.constantFrom(Kind.ordinary, Kind.ordinary, Kind.quota, Kind.shadow),
  mode: fc.constantFrom(Mode.pay, Mode.pay, Mode.peek),
  cost: COST,
  lateByUs: fc.constantFrom(undefined, undefined, -1, 0, 1),
  hasSpareQuota: fc.boolean(),
});
const STEP = fc.record({
  groups: fc.uniqueArray(GROUP, { minLength: 1, maxLength: KEYS.length, selector: ({ key }) => key }),
  // Also a clock that steps back, by less and by more than what is believed.
  us: fc.oneof(fc.integer({ min: 0, max: 2_000_000 }), fc.constantFrom(-1, -5_000_000, -30_000_000, 86_400_000_000)),
  /** What each key's limit is in this call: edited rules in later ones. */
  limits: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: KEYS.length, maxLength: KEYS.length }),
});
const RUBBISH = fc.constantFrom(
  "",
  "hello",
  "5",
  "-1 2",
  "3 x",
  "7 1767225600000000 0",
  "3 1767225600000000",
  "7 1767225600000000 3",
  "1767225600000000 3 5",
  "1767225600000000 3 4294967295",
  "a list",
);

test("a call of plain takes replies and stores the same by either script", async () => {
  const calls = { refused: 0, late: 0, damaged: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(LIMIT, LIMIT, LIMIT),
      fc.array(STEP, { minLength: 1, maxLength: 12 }),
      fc.option(RUBBISH, { freq: 3 }),
      async (limits, steps, rubbish) => {
        await server.flush();
        if (rubbish !== null) await Promise.all(["all:one", "each:one"].map((key) => put(key, rubbish)));
        let timeUs = START_US;
        for (const { groups, us, limits: limitOfKey } of steps) {
          timeUs += us;
          const callOn = (prefix: string): ScriptCall => ({
            keys: groups.map(({ key }) => `${prefix}${KEYS[key - 1]}`),
            limits: limits.map((limit) => ({ ...limit, debtMax: limit.burst })),
            timeUs,
            groups: groups.map(({ key: named, kind, mode, cost, lateByUs, hasSpareQuota }, index) => ({
              takes: [{ key: index + 1, limit: limitOfKey[named - 1] ?? 1, kind, mode, cost }],
              ...(lateByUs === undefined ? {} : { latestUs: timeUs - lateByUs }),
              hasSpareQuota,
            })),
          });
          const all = await runScript(server, callOn("all:"), TAKE_ALL);
          const each = await runScript(server, callOn("each:"), TAKE_EACH);
          expect(each).toEqual(all);
          for (const key of KEYS) await expectEqualKeys(`all:${key}`, `each:${key}`);
          calls.refused += all.groups.some(({ verdict }) => verdict === 2) ? 1 : 0;
          calls.late += all.groups.some(({ verdict }) => verdict === 3) ? 1 : 0;
          calls.damaged += all.damaged;
        }
      },
    ),
    { numRuns: runs(100) },
  );
  // The generator has to reach what it is for.
  for (const [what, count] of Object.entries(calls)) expect(count, what).toBeGreaterThan(0);
});

async function put(key: string, rubbish: string): Promise<void> {
  if (rubbish === "a list") await server.command("RPUSH", key, "1", `${START_US} 1`);
  else await server.command("SET", key, rubbish);
}

async function expectEqualKeys(one: string, other: string): Promise<void> {
  const [type, otherType] = await Promise.all([server.command("TYPE", one), server.command("TYPE", other)]);
  expect(otherType).toBe(type);
  if (type !== "string") return;
  const [text, otherText] = await Promise.all([server.command("GET", one), server.command("GET", other)]);
  expect(otherText).toBe(text);
  const [ms, otherMs] = await Promise.all([server.command("PTTL", one), server.command("PTTL", other)]);
  expect(Math.abs(Number(ms) - Number(otherMs))).toBeLessThan(LIFETIME_TOLERANCE_MS);
}
