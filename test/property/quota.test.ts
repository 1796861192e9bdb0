// What Envoys decide by themselves stays within the limit that they share with callers that ask, whatever happens when.

import fc from "fast-check";
import { expect, test } from "vitest";
import { makeLimit } from "../support/builders.ts";
import { type Change, QuotaWorld, type Schedule } from "../support/quota-world.ts";
import { runs, runsMs } from "../support/runs.ts";

const SECONDS = 40;
const ENVOYS = 5;

/** Each message takes up to 50 ms: longer than that, and a stream is one that does not read. */
const change: fc.Arbitrary<Change> = fc.record({
  atMs: fc.nat(SECONDS * 1_000),
  envoy: fc.nat(ENVOYS - 1),
  does: fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ kind: fc.constant("demand" as const), perSecond: fc.constantFrom(0, 1, 20, 90, 400) }),
    },
    fc.record({ kind: fc.constant("cut" as const) }),
    fc.record({ kind: fc.constant("dies" as const) }),
    fc.record({ kind: fc.constant("pauses" as const), ms: fc.integer({ min: 20, max: 12_000 }) }),
    fc.record({ kind: fc.constant("loses-reports" as const), count: fc.integer({ min: 1, max: 3 }) }),
  ),
});
/** A network that is cut, or a machine that is lost, with all Envoys at once. */
const changeOfAll: fc.Arbitrary<readonly Change[]> = fc
  .record({ atMs: fc.nat(SECONDS * 1_000), kind: fc.constantFrom("cut" as const, "dies" as const) })
  .map(({ atMs, kind }) => Array.from({ length: ENVOYS }, (_, envoy) => ({ atMs, envoy, does: { kind } })));
const changes = fc.oneof({ weight: 12, arbitrary: change.map((one) => [one]) }, { weight: 1, arbitrary: changeOfAll });
const schedule: fc.Arbitrary<Schedule> = fc.record({
  seconds: fc.constant(SECONDS),
  envoys: fc.constant(ENVOYS),
  changes: fc.array(changes, { minLength: 3, maxLength: 25 }).map((all) => all.flat()),
  asked: fc.array(fc.constantFrom(0, 0, 30, 150, 600, 5_000), { minLength: SECONDS, maxLength: SECONDS }),
  delaysMs: fc.array(fc.nat(50), { minLength: 1, maxLength: 7 }),
});
const limit = fc
  .record({
    amount: fc.constantFrom(5, 40, 200, 1_000),
    burst: fc.constantFrom(8, 40, 100, 200, 1_000),
    windowSeconds: fc.constantFrom(1, 1, 7),
  })
  .map((numbers) => makeLimit(numbers));

// Promise(quota): Envoys and callers that ask together get at most 1.25 x burst + 1 + rate x t of a handed-out limit.
test(
  "1.25 x burst + 1 + rate x t bounds what passes, for any schedule",
  () => {
    fc.assert(
      fc.property(limit, schedule, (of, plan) => {
        expect(new QuotaWorld(of, plan).run().worstBurst()).toBeLessThanOrEqual(of.burst * 1.25 + 1 + 1e-6);
      }),
      { numRuns: runs(150) },
    );
  },
  runsMs(300_000),
);
