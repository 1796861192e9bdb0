// Limits that calls bring along (overrides), leased as the rule says that they stand in for: amounts and units change from call
// to call while leases of the old ones are held, and who brings a small amount is never let in by what a large one has left.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { type Limit, OnStoreFailure, Unit } from "../../src/engine/domain/limit.ts";
import type { Take } from "../../src/engine/domain/take.ts";
import { LimitCall, NO_FINISHER } from "../../src/engine/limiter/call.ts";
import { TakeFiller } from "../../src/engine/limiter/fill.ts";
import { addDescriptor, CountingStatsBook } from "../support/limiter-rig.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";
import { calling, changing, weathers } from "../support/schedules.ts";
import { Fleet, leftOf, mostInAlignedWindow, SETTLE_US, type Step } from "../support/simulated-fleet.ts";

/** Until then nobody leases. */
const known: Step = { does: "waits", us: SETTLE_US };

interface Brought {
  readonly amount: number;
  readonly unit: number;
}

const RULES = "{ key: tenant, rate_limit: { requests_per_unit: 7, unit: hour, sync: lease } }";

/** The limits that the service makes of what calls bring where the rule says `lease`. */
function limitsOf(brought: readonly Brought[]): Limit[] {
  const clock = new ManualClock();
  const modes = { shadowMode: false, quotaMode: false, onStoreFailure: OnStoreFailure.allow, retryAfterJitter: 0 };
  const filler = new TakeFiller({ ...modes, clock, statsBook: new CountingStatsBook() });
  const rules = rulesFromYaml(`domain: edge\ndescriptors: [${RULES}]`).domains.get("edge");
  if (rules === undefined) throw new Error("the domain is missing");
  return brought.map((override) => {
    const call = new LimitCall(NO_FINISHER);
    addDescriptor(call.request, { entries: { tenant: "acme" }, override });
    filler.fill(call, rules);
    return (call.group.takes[0] as Take).limit;
  });
}

const amount = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 300 }) },
  fc.constantFrom(0, 1, 4, 1_000_000, AMOUNT_MAX),
);
const unit = fc.oneof({ weight: 4, arbitrary: fc.constant(Unit.second) }, fc.constantFrom(Unit.minute, Unit.year));
/** What calls bring from some moment on: always the same, or now this and now that. Then others. */
const choices = fc.array(fc.array(fc.record({ amount, unit }), { minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 4,
});
const processes = fc.integer({ min: 1, max: 4 });

/** Plays the steps with another choice of limits for each part of them. */
function play(chosen: readonly (readonly Limit[])[], steps: readonly Step[], fleet: Fleet): Fleet {
  const length = Math.ceil(steps.length / chosen.length);
  const parts = chosen.map((limits, i): Step[] => [
    { does: "brings", limits },
    ...steps.slice(i * length, (i + 1) * length),
  ]);
  return fleet.play([known, ...parts.flat()]);
}

/** Of calls that brought no more than an amount, so much and a quarter may pass in a window, whatever others brought. */
function checkEachAmount({ grants }: Fleet): void {
  const limits = new Map(grants.map(({ limit }) => [`${limit.windowSeconds} ${limit.amount}`, limit]));
  for (const { amount, windowSeconds } of limits.values()) {
    const within = grants.filter(({ limit }) => limit.windowSeconds === windowSeconds && limit.amount <= amount);
    const most = mostInAlignedWindow(within, (within[0] as (typeof grants)[number]).limit);
    expect(most).toBeLessThanOrEqual(1.25 * amount);
  }
}

describe("limits that calls bring along, leased,", () => {
  // Promise(hot): Limits that calls bring are leased within the bound of each amount.
  test("let pass 1.25 x an amount in each aligned window, of all calls that brought no more than that, whatever processes come and go", () => {
    const seen = { granted: 0, inMemory: 0 };
    const schedules = fc.oneof(
      { weight: 4, arbitrary: calling(6) },
      { weight: 1, arbitrary: changing(["losesRegister"]) },
    );
    fc.assert(
      fc.property(choices, processes, weathers, schedules, (brought, count, weather, steps) => {
        const chosen = brought.map(limitsOf);
        const fleet = play(chosen, steps, new Fleet(chosen[0]?.[0] as Limit, count, weather));
        seen.granted += fleet.grants.length;
        seen.inMemory += fleet.grantedInMemory;
        checkEachAmount(fleet);
      }),
      { numRuns: runs(75) },
    );
    expect(seen.inMemory).toBeGreaterThan(seen.granted / 20);
  });

  // Promise(hot): A lease of one limit does not hold back calls that bring another.
  test("hold back nothing in their own process: who brings less next finds what was not spent", () => {
    const calm = { seed: 1, delayUsMax: 0, lossOneIn: 0, deadlineUs: 15_000, skewUs: 0 };
    const large = fc.integer({ min: 100, max: AMOUNT_MAX });
    // Of a limit of 3 there is nothing to lease.
    const few = (min: number, max: number) => fc.oneof(fc.constant(min), fc.integer({ min, max }));
    fc.assert(
      fc.property(large, few(2, 40), few(1, 20), (amount, spent, more) => {
        const [first, next] = limitsOf([
          { amount, unit: Unit.year },
          { amount: Math.min(amount, spent + more), unit: Unit.year },
        ]) as [Limit, Limit];
        const calls = (times: number): Step => ({ does: "calls", process: 0, times, cost: 1 });
        const waits: Step = { does: "waits", us: 1_000 };
        const steps: Step[] = Array.from({ length: spent }, () => [calls(1), waits]).flat();
        const fleet = new Fleet(first, 1, calm);
        fleet.play([known, ...steps, { does: "brings", limits: [next] }, calls(1), waits]);
        expect(fleet.grants).toHaveLength(spent + 1);
      }),
      { numRuns: runs(50) },
    );
  });

  test("leave the bucket as if only what was granted had been paid, whatever amounts were leased", () => {
    const perYear = fc.integer({ min: 1_000, max: 2_000_000 }).map((amount) => ({ amount, unit: Unit.year }));
    const chosenPerYear = fc.array(fc.array(perYear, { minLength: 1, maxLength: 2 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(chosenPerYear, processes, weathers, calling(6), (brought, count, weather, steps) => {
        const chosen = brought.map(limitsOf);
        const fleet = new Fleet(chosen[0]?.[0] as Limit, count, { ...weather, lossOneIn: 0, skewUs: 0 });
        play(chosen, steps, fleet);
        const spent = fleet.grants.reduce((sum, { cost }) => sum + cost, 0);
        const [largest] = limitsOf([{ amount: AMOUNT_MAX, unit: Unit.year }]) as [Limit];
        expect(leftOf(fleet, largest)).toBe(AMOUNT_MAX - spent);
      }),
      { numRuns: runs(20) },
    );
  });
});
