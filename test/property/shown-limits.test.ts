// What callers are shown of any limit, in every dialect: never more left than the limit, and no time where no wait helps.

import fc from "fast-check";
import { expect, test } from "vitest";
import { LOG_PAYMENTS_MAX, quotaOf } from "../../src/engine/domain/limit.ts";
import { Outcome } from "../../src/engine/domain/take.ts";
import { addHeaders } from "../../src/grpc/rls/headers.ts";
import { addMetadata } from "../../src/grpc/rls/metadata.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";

const NAMES = { limitHeader: "R-Limit", remainingHeader: "R-Remaining", resetHeader: "R-Reset" };
const UNITS = ["second", "minute", "hour", "day", "week", "month", "year"];

const amounts = fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 9_999 }));
const limits = fc.oneof(
  fc
    .tuple(amounts, fc.constantFrom(...UNITS), fc.constantFrom("token_bucket", "sliding_window", "fixed_window"))
    .map(([amount, unit, algorithm]) => `{ requests_per_unit: ${amount}, unit: ${unit}, algorithm: ${algorithm} }`),
  fc
    .tuple(fc.integer({ min: 0, max: LOG_PAYMENTS_MAX }), fc.constantFrom(...UNITS))
    .map(([amount, unit]) => `{ requests_per_unit: ${amount}, unit: ${unit}, algorithm: sliding_log }`),
  fc
    .tuple(fc.integer({ min: 1, max: 999_999 }), fc.integer({ min: 1, max: 50 }))
    .map(([rate, bursts]) => `{ tokens_per_second: ${rate / 1_000}, burst: ${Math.ceil(rate / 1_000) * bursts} }`),
);
const costs = fc.array(fc.integer({ min: 1, max: 12_000 }), { minLength: 1, maxLength: 4 });

// Promise(answers): Remaining is never above the limit shown; a cost that can never pass is told no wait.
test("remaining never exceeds the limit shown with it, and a cost that can never pass gets no time", () => {
  let never = 0;
  fc.assert(
    fc.property(limits, costs, (limit, costs) => {
      const rig = new LimiterRig(`domain: edge\ndescriptors:\n  - { key: k, rate_limit: ${limit} }\n`);
      for (const hits of [1, ...costs]) {
        const call = rig.begin([{ entries: { k: "v" }, hits }], 0, "edge");
        rig.limiter.decide(call, Number.POSITIVE_INFINITY);
        addHeaders(call, { dialects: ["ratelimit", "x-ratelimit", "structured"], ...NAMES });
        addMetadata(call, "full");
        const [status] = call.decision.statuses;
        const headers = new Map(
          call.decision.headers.slice(0, call.decision.headerCount).map(({ key, value }) => [key, value]),
        );
        if (status?.limit === undefined) throw new Error("expected a limit");
        expect(status.remaining).toBeLessThanOrEqual(quotaOf(status.limit));
        expect(Number(headers.get("R-Remaining"))).toBeLessThanOrEqual(Number(headers.get("R-Limit")));
        expect(Number(headers.get("X-RateLimit-Remaining"))).toBeLessThanOrEqual(
          Number(headers.get("X-RateLimit-Limit")),
        );
        const quota = Number(/;q=(\d+)/.exec(headers.get("RateLimit-Policy") ?? "")?.[1]);
        expect(Number(/;r=(\d+)/.exec(headers.get("RateLimit") ?? "")?.[1])).toBeLessThanOrEqual(quota);
        const hasTime = call.governing?.outcome !== Outcome.never;
        if (!hasTime) never++;
        expect(status.hasReset).toBe(hasTime);
        expect([headers.has("R-Reset"), headers.has("X-RateLimit-Reset")]).toEqual([hasTime, hasTime]);
        expect(/;t=/.test(headers.get("RateLimit") ?? "")).toBe(hasTime);
        expect(headers.has("Retry-After")).toBe(hasTime && call.decision.overLimit);
        expect(Object.hasOwn(call.decision.metadata ?? {}, "reset_seconds")).toBe(hasTime);
      }
    }),
    { numRuns: runs(300) },
  );
  expect(never).toBeGreaterThan(0);
});
