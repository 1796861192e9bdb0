// However many limits rules and callers name: no call and no batch asks for more than Redis settles in two milliseconds.
// What a take takes there is measured by bench/store/full-logs.mjs; here it is counted, in limits that are neither logs nor held.

import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { GROUP_WEIGHT_MAX, HOLD_WEIGHT, LOG_WEIGHT, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { LIMITS_PER_RULE_MAX } from "../../src/engine/rules/schema.ts";
import { ReplyReader } from "../../src/stores/batching/reply.ts";
import { RedisBatch } from "../../src/stores/redis/redis-batch.ts";
import { makeLimit } from "../support/builders.ts";
import { type AskedDescriptor, LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";
import { giveBacksOf, TestIntake } from "../support/test-intake.ts";

const weightOf = (limits: readonly Limit[]): number =>
  limits.reduce((sum, { algorithm, holdSeconds }) => {
    if (holdSeconds > 0) return sum + HOLD_WEIGHT;
    return sum + (algorithm === Algorithm.slidingLog ? LOG_WEIGHT : 1);
  }, 0);
const limitsOf = (group: TakeGroup): Limit[] => group.takes.slice(0, group.size).map(({ limit }) => limit);

const limitsOfRule = fc.oneof(limitsWithLogs(), limitsWithHolds());
const rules = fc.record({
  byKey: fc.array(limitsOfRule, { minLength: 1, maxLength: 4 }),
  globalLimit: fc.constantFrom(undefined, "sliding_log", "token_bucket"),
});

function limitsWithLogs(): fc.Arbitrary<object> {
  return fc
    .tuple(fc.nat({ max: LIMITS_PER_RULE_MAX }), fc.nat({ max: LIMITS_PER_RULE_MAX }))
    .map(([count, logs]) => limitsNamed(count, (i) => (i < logs ? "sliding_log" : "fixed_window")));
}

function limitsWithHolds(): fc.Arbitrary<object> {
  return fc.tuple(fc.integer({ min: 1, max: LIMITS_PER_RULE_MAX }), fc.boolean()).map(([count, isConcurrent]) => ({
    hold: { id: "request_id", ttl: "120s" },
    ...(isConcurrent ? { concurrent: 10 } : {}),
    ...limitsNamed(count, (i) => (i % 2 === 0 ? "token_bucket" : "fixed_window")),
  }));
}

function limitsNamed(count: number, algorithmOf: (i: number) => string): object {
  if (count === 0) return {};
  const rate_limits = Array.from({ length: count }, (_, i) => ({
    name: `n${i}`,
    requests_per_unit: 9,
    unit: "hour",
    algorithm: algorithmOf(i),
  }));
  return { rate_limits };
}

// Promise(turns): No call or batch, give-backs included, keeps Redis busy for more than two milliseconds.
test("no call weighs more than GROUP_WEIGHT_MAX, and each descriptor alone is decided", () => {
  const descriptors = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 256 });
  fc.assert(
    fc.property(rules, descriptors, ({ byKey, globalLimit: algorithm }, keys) => {
      const rig = new LimiterRig(
        JSON.stringify({
          domain: "edge",
          ...(algorithm === undefined ? {} : { global_limit: { requests_per_unit: 99, unit: "hour", algorithm } }),
          descriptors: byKey.map((limits, i) => ({ key: `k${i}`, ...limits })),
        }),
      );
      const weigh = (asked: readonly AskedDescriptor[]): number | string => {
        const call = rig.begin(asked, 1, "edge");
        try {
          rig.limiter.decide(call, Number.POSITIVE_INFINITY);
          return weightOf(limitsOf(call.group));
        } catch (error) {
          return String((error as { code?: unknown }).code);
        }
      };
      const single = (key: number) => weigh([{ entries: { [`k${key % byKey.length}`]: "v" } }]);
      const singles = keys.map(single);
      for (const weight of singles) expect(weight).toBeLessThanOrEqual(GROUP_WEIGHT_MAX);
      const ofGlobal = algorithm === undefined ? 0 : algorithm === "sliding_log" ? LOG_WEIGHT : 1;
      const expected = singles.reduce<number>((sum, weight) => sum + Number(weight) - ofGlobal, ofGlobal);
      const weight = weigh(keys.map((key, i) => ({ entries: { [`k${key % byKey.length}`]: `v${i}` } })));
      expect(weight).toBe(expected > GROUP_WEIGHT_MAX ? "REQUEST_LIMITS_TOO_MANY" : expected);
    }),
    { numRuns: runs(150) },
  );
});

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

// Promise(turns): No call or batch, give-backs included, keeps Redis busy for more than two milliseconds.
test("no batch weighs more than GROUP_WEIGHT_MAX with its give-backs, and all of these travel", async () => {
  const log = makeLimit({ algorithm: Algorithm.slidingLog });
  const held = makeLimit({ holdSeconds: 60 });
  const bucket = makeLimit();
  const event = fc.record({
    receipts: fc.array(fc.constantFrom(log, held, bucket), { maxLength: 20 }),
    logs: fc.nat({ max: 4 }),
    holds: fc.nat({ max: 32 }),
    others: fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 257 })),
    endsTurn: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (events) => {
      const sent: RedisBatch[] = [];
      const intake = new TestIntake<RedisBatch>({
        options: { deadlineMs: 15 },
        newBatch: (queue) => new RedisBatch(queue),
        send: (intake) => {
          for (const batch of intake.ready()) {
            sent.push(batch);
            const answers = batch.groups.flatMap(({ size }) => [Verdict.allowed, ...Array(size * 6).fill(5)]);
            intake.answers.answer(batch, new ReplyReader([0, 0, ...answers]));
          }
        },
      });
      const clock = new SystemClock();
      let receipts = 0;
      for (const { receipts: paid, logs, holds, others, endsTurn } of events) {
        for (const limit of paid) {
          const sinceUs = clock.nowUs();
          const bucketKey = `r${receipts++}`;
          intake.giveBacks.add({ bucketKey, limit, cost: 1, paidAtUs: 5, holdId: "", sinceUs, queue: 0 });
        }
        const group = new TakeGroup();
        const size = logs + holds + Math.min(others, GROUP_WEIGHT_MAX - logs * LOG_WEIGHT - holds * HOLD_WEIGHT);
        for (let i = 0; i < size; i++) {
          const take = group.add(i < logs ? log : i < logs + holds ? held : bucket);
          take.bucketKey = `k${i}`;
          take.cost = 1;
        }
        intake.take(group, { answered: () => undefined });
        if (endsTurn) await vi.runAllTimersAsync();
      }
      await vi.runAllTimersAsync();
      for (const batch of sent) {
        const weight = weightOf(batch.groups.flatMap(({ group }) => limitsOf(group)));
        expect(weight).toBeLessThanOrEqual(GROUP_WEIGHT_MAX);
      }
      expect(sent.flatMap(giveBacksOf)).toHaveLength(receipts);
      intake.end();
    }),
    { numRuns: runs(100) },
  );
});
