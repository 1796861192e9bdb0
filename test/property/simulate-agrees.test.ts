// A simulation decides as a server decides the same recording on the recording's clock: call for call, byte for byte.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { reportOf } from "../../src/tools/simulate/report.ts";
import { drawnCalls, drawnLimits, drawnRules } from "../support/recorded-calls.ts";
import { PLAIN_SETTINGS, servedAnswers, simulatedAnswers } from "../support/recorded-service.ts";
import { runs } from "../support/runs.ts";

const settings = fc.record({
  shadowMode: fc.boolean(),
  quotaMode: fc.boolean(),
  compatible: fc.boolean(),
  stopsAtOver: fc.boolean(),
});

describe("a simulation", () => {
  // Promise(simulations): A simulation answers as the service with memory does, byte for byte, unless a call settles that it refuses.
  test("answers every call as the service with its store in memory does", async () => {
    await fc.assert(
      fc.asyncProperty(drawnRules, drawnCalls(150), settings, async (rules, calls, drawn) => {
        const options = { rules, settings: { ...PLAIN_SETTINGS, ...drawn } };
        const served = await servedAnswers(calls, options);
        expect(simulatedAnswers(calls, options).answers).toEqual(served);
      }),
      { numRuns: runs(30) },
    );
  });

  // Promise(simulations): With limits at run time a simulation answers as the service does after they were set.
  test("answers every call as the service does after the same limits at run time were set", async () => {
    await fc.assert(
      fc.asyncProperty(drawnRules, drawnCalls(150), drawnLimits, settings, async (rules, calls, limits, drawn) => {
        const options = { rules, limits, settings: { ...PLAIN_SETTINGS, ...drawn } };
        const served = await servedAnswers(calls, options);
        const { answers, simulation } = simulatedAnswers(calls, options);
        expect(answers).toEqual(served);
        // All limits together count what was decided, and none more calls than there are.
        const { calls: counted, runtime_limits: runtime } = reportOf(simulation);
        expect(counted.allowed + counted.refused).toBe(calls.length);
        for (const met of runtime?.met ?? []) expect(met.calls).toBeLessThanOrEqual(calls.length);
      }),
      { numRuns: runs(60) },
    );
  });

  test("counts each call once, and refusals of limits as answers show them", () => {
    fc.assert(
      fc.property(drawnRules, drawnCalls(100), (rules, calls) => {
        const { simulation } = simulatedAnswers(calls, { rules });
        const { calls: counted, limits, refusals } = reportOf(simulation);
        expect(counted.allowed + counted.refused).toBe(calls.length);
        expect(counted.read).toBe(calls.length);
        for (const limit of limits) {
          expect(limit.allowed + limit.refused).toBe(limit.asked);
          expect(limit.callers_refused).toBeLessThanOrEqual(limit.callers);
          expect(limit.refused > 0).toBe(limit.first_refusal !== null);
          expect(limit.refused > 0).toBe(limit.longest_refusal !== null);
        }
        for (const { limits: told } of refusals) {
          expect(told.some((limit) => !limit.had_room)).toBe(true);
        }
      }),
      { numRuns: runs(30) },
    );
  });
});

// One limit and no overrides, so that nobody is refused by another limit.
const limits = fc.oneof(
  fc.record({ tokens_per_second: fc.constantFrom(0.1, 1, 2.7, 30), burst: fc.constant(40) }),
  fc.record({
    requests_per_unit: fc.constant(5),
    window: fc.constantFrom("1s", "7s", "1m"),
    algorithm: fc.constantFrom("sliding_window", "fixed_window", "sliding_log", "token_bucket"),
  }),
);
const rulesOf = (limit: object) =>
  JSON.stringify({ domain: "edge", descriptors: [{ key: "user", rate_limit: limit }] });
const sized = (limit: object, size: number) =>
  "burst" in limit ? { ...limit, burst: size } : { ...limit, requests_per_unit: size };

// Promise(simulations): The smallest burst, budget or number of places that a simulation reports refuses nobody, and one less somebody.
test("the smallest burst refuses nobody, and one less refuses somebody", () => {
  fc.assert(
    fc.property(limits, drawnCalls(80, false), (limit, calls) => {
      // The amount of a bucket is its rate too: only its burst can be asked about.
      fc.pre(!("algorithm" in limit && limit.algorithm === "token_bucket"));
      const reportFor = (one: object) =>
        reportOf(simulatedAnswers(calls, { rules: rulesOf(one) }).simulation).limits[0];
      const smallest = reportFor(limit)?.smallest_burst ?? undefined;
      fc.pre(smallest !== undefined);
      const rate = "tokens_per_second" in limit ? Math.ceil(limit.tokens_per_second) : 1;
      if (smallest >= rate) expect(reportFor(sized(limit, smallest))?.refused).toBe(0);
      if (smallest > rate) expect(reportFor(sized(limit, smallest - 1))?.refused).toBeGreaterThan(0);
    }),
    { numRuns: runs(40) },
  );
});
