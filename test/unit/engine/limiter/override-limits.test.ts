// Limits that calls bring along: made of what the call and its rule say, and kept as long as calls go on to bring them.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import {
  ALGORITHM_NAMES,
  ALGORITHM_TRAITS,
  Algorithm,
  type Limit,
  OnStoreFailure,
  Sync,
  UNIT_SECONDS,
  Unit,
} from "../../../../src/engine/domain/limit.ts";
import { Descriptor } from "../../../../src/engine/domain/request.ts";
import { OverrideLimits } from "../../../../src/engine/limiter/overrides.ts";
import type { Rule } from "../../../../src/engine/rules/rule-set.ts";
import { PlainStatsBook, rulesFromYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

const rules = rulesFromYaml(`
domain: edge
descriptors:
  - { key: a, rate_limit: { requests_per_unit: 5, unit: hour } }
  - key: b
    rate_limits:
      - { name: first, requests_per_unit: 5, unit: hour, sync: lease, on_store_failure: deny }
      - { name: second, requests_per_unit: 5, unit: second }
`).domains.get("edge");
if (rules === undefined) throw new Error("the domain is missing");
const edge = rules;
/** The rule of each key; none for the last. */
const owners: readonly (Rule | undefined)[] = [...edge.root.rules, undefined];

function open(statsBook = new PlainStatsBook()): OverrideLimits {
  return new OverrideLimits({ onStoreFailure: OnStoreFailure.local, retryAfterJitter: 0, statsBook });
}

function ask(
  limits: OverrideLimits,
  amount: number,
  unit: number,
  rule: Rule | undefined,
  units = -1,
  algorithm = "",
): Limit {
  const descriptor = new Descriptor();
  Object.assign(descriptor, { hasOverride: true, overrideAmount: amount, overrideUnit: unit, overrideUnits: units });
  descriptor.overrideAlgorithm = algorithm;
  return limits.limitOf(descriptor, edge, rule);
}

/** Amounts of all sizes, many that lie close together or far apart by the same distance. */
const amount = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  fc.tuple(fc.constantFrom(10, 1_000, 1_024, 4_096, 65_536), fc.integer({ min: 0, max: 5_000 })).map(([a, b]) => a * b),
  fc.integer({ min: 0, max: AMOUNT_MAX }),
);
const unit = fc.integer({ min: 1, max: 7 });
const owner = fc.constantFrom(...owners);

describe("limits of overrides", () => {
  test("are those of the amount, the unit and the rule, whatever was asked for before", () => {
    const limits = open();
    fc.assert(
      fc.property(fc.array(fc.tuple(amount, unit, owner), { maxLength: 50 }), (asked) => {
        for (const [amount, unit, rule] of asked) {
          const limit = ask(limits, amount, unit, rule);
          const id = `edge/${rule?.path ?? ""}#override`;
          expect(limit).toMatchObject({ amount, burst: amount, shownAmount: amount, shownUnit: unit, names: { id } });
          const isLeased = rule === owners[1];
          expect(limit.policy.sync).toBe(isLeased ? Sync.lease : Sync.exact);
          const byRule = isLeased ? OnStoreFailure.deny : OnStoreFailure.allow;
          expect(limit.policy.onStoreFailure).toBe(rule === undefined ? OnStoreFailure.local : byRule);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  // Promise(limits): A limit that a call brings along counts in a window of as many units as it says.
  test("have windows of as many units as was said, up to a year, each with a bucket of its own", () => {
    const limits = open();
    fc.assert(
      fc.property(
        amount,
        unit,
        fc.oneof(fc.integer({ min: 0, max: 70 }), fc.nat(AMOUNT_MAX)),
        owner,
        (amount, unit, units, rule) => {
          const windowSeconds = (UNIT_SECONDS[unit] ?? 0) * units;
          if (units === 0 || windowSeconds > 31_536_000) {
            expect(() => ask(limits, amount, unit, rule, units)).toThrow(
              /^the limit of a descriptor has unit_multiplier \d+; expected 1 to \d+ with unit [A-Z]+$/,
            );
            return;
          }
          const limit = ask(limits, amount, unit, rule, units);
          expect(limit).toMatchObject({ amount, windowSeconds, writtenSeconds: windowSeconds });
          expect(limit.keySuffix).toContain(`/${windowSeconds}`);
          expect(ask(limits, amount, unit, rule, units)).toBe(limit);
          expect(ask(limits, amount, unit, rule).windowSeconds).toBe(UNIT_SECONDS[unit]);
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test("count by the algorithm that was said, which holds of the rule and counters outweigh", () => {
    const limits = open();
    const names = fc.constantFrom("", "sliding_log", "sliding_window", "fixed_window", "token_bucket");
    fc.assert(
      fc.property(
        fc.nat(1_000),
        fc.constantFrom(1, 2, 3, 4, 7),
        fc.constantFrom(-1, 1, 3),
        owner,
        names,
        (amount, unit, units, rule, name) => {
          const limit = ask(limits, amount, unit, rule, units, name);
          expect(limit).toMatchObject({ amount, windowSeconds: (UNIT_SECONDS[unit] ?? 0) * Math.abs(units) });
          expect(ALGORITHM_NAMES[limit.algorithm]).toBe(name || "sliding_window");
          expect(limit.keySuffix).toContain(ALGORITHM_TRAITS[limit.algorithm].key);
          expect(ask(limits, amount, unit, rule, units, name)).toBe(limit);
          expect(ask(limits, amount, unit, rule, units).algorithm).toBe(Algorithm.slidingWindow);
        },
      ),
      { numRuns: runs(300) },
    );
    const withHold = rulesFromYaml(
      "domain: edge\ndescriptors:\n  - { key: h, hold: { id: i, ttl: 5s }, rate_limit: { tokens_per_second: 1, burst: 5 } }",
    ).domains.get("edge")?.root.rules[0];
    expect(ask(limits, 5, 1, withHold, -1, "fixed_window").algorithm).toBe(Algorithm.tokenBucket);
    expect(() => ask(limits, 1_001, 1, undefined, -1, "sliding_log")).toThrow(
      "the algorithm of a descriptor's limit has 1001 requests in a sliding_log; expected at most 1000, or sliding_window",
    );
    expect(() => ask(limits, 5, 1, undefined, -1, "leaky")).toThrow(
      "the algorithm of a descriptor's limit is 'leaky'; expected token_bucket, sliding_window, fixed_window, sliding_log",
    );
  });

  test("stay the same as long as calls go on to bring them, however many others come", () => {
    const limits = open();
    fc.assert(
      fc.property(fc.tuple(amount, amount, amount), unit, owner, fc.array(amount), (hot, unit, rule, others) => {
        const first = hot.map((amount) => ask(limits, amount, unit, rule));
        for (const other of others) {
          ask(limits, other, unit, rule);
          const again = hot.map((amount) => ask(limits, amount, unit, rule));
          expect(again.map((limit, i) => limit === first[i])).toEqual([true, true, true]);
        }
      }),
      { numRuns: runs(300) },
    );
  });

  // Takes seconds, so in full runs alone.
  test.skipIf(runs(100) < 100)("stay right however many rule sets have been in force", () => {
    const limits = open();
    const descriptor = new Descriptor();
    Object.assign(descriptor, { hasOverride: true, overrideAmount: 1, overrideUnit: Unit.minute });
    // Each has seven units; numbers above 2^21 and an amount are no longer exact together.
    for (let i = 0; i < 2 ** 21 / 7; i++) limits.limitOf(descriptor, { ...edge }, undefined);
    const amounts = Array.from({ length: 20 }, (_, amount) => amount);
    expect(amounts.map((amount) => ask(limits, amount, Unit.minute, owners[0]).amount)).toEqual(amounts);
  });

  test("a thousand plans are kept side by side, nearly all", () => {
    const limits = open();
    const plans = Array.from({ length: 1_000 }, (_, i) => (i + 1) * 1_000);
    const first = plans.map((amount) => ask(limits, amount, Unit.minute, owners[0]));
    const again = plans.map((amount) => ask(limits, amount, Unit.minute, owners[0]));
    expect(again.filter((limit, i) => limit === first[i]).length).toBeGreaterThan(980);
  });

  test("have one series for all of a domain", () => {
    const statsBook = new PlainStatsBook();
    const limits = open(statsBook);
    for (let i = 0; i < 100; i++) ask(limits, i, 1 + (i % 7), owners[i % 3]);
    expect([...statsBook.stats.keys()]).toEqual(['["edge","","(overrides)","(overrides)"]']);
  });
});
