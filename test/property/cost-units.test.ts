// Rules whose callers count in parts of a unit (`per`): what passes is never more than the limit says, in parts; each call is
// rounded up by less than a unit; and a refund, which is rounded down, gives back no more than was paid.

import fc from "fast-check";
import { expect, test } from "vitest";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import { HoldAsk } from "../../src/engine/domain/request.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";

const pers = fc.oneof(fc.constantFrom(1, 2, 1_000, 999_999, 1_000_000), fc.integer({ min: 1, max: 1_000_000 }));
const limits = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(1_000_000, AMOUNT_MAX));

/** Parts that a call may cost: around whole units, within one, and as many as a limit has or more, up to the largest `max`. */
function partsOf(per: number, limit: number): fc.Arbitrary<number> {
  return fc.oneof(
    fc
      .tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: -1, max: 1 }))
      .map(([units, more]) => Math.max(1, units * per + more)),
    fc.integer({ min: 1, max: 3 * per }),
    fc.integer({ min: -2, max: 2 }).map((more) => Math.min(Math.max(1, limit * per + more), AMOUNT_MAX * per)),
  );
}

const settings = fc.record({ per: pers, limit: limits });

function units(parts: bigint, per: number): bigint {
  return (parts + BigInt(per) - 1n) / BigInt(per);
}

/** What the limit of `tenant` has left. */
function left(rig: LimiterRig): bigint {
  return BigInt(rig.hit({ tenant: "a" }, 0).statuses[0]?.remaining ?? -1);
}

function rules(limit: number, rule: object): string {
  const rate_limit = { requests_per_unit: limit, unit: "year", algorithm: "fixed_window" };
  return JSON.stringify({ domain: "edge", descriptors: [{ key: "tenant", rate_limit, ...rule }] });
}

const paid = settings.chain(({ per, limit }) =>
  fc.record({
    per: fc.constant(per),
    limit: fc.constant(limit),
    says: fc.constantFrom("by an entry", "by hits", "by both"),
    calls: fc.array(fc.record({ parts: partsOf(per, limit), hits: fc.integer({ min: 1, max: 3 }) }), {
      minLength: 1,
      maxLength: 60,
    }),
  }),
);

// Promise(holds): Limits in parts of a unit never overgrant, and charge each call less than one unit too much.
test("no more parts pass than the limit says, and each call is rounded up by less than a unit", () => {
  fc.assert(
    fc.property(paid, ({ per, limit, says, calls }) => {
      const cost = says === "by hits" ? { per } : { entry: "price", per };
      const rig = new LimiterRig(rules(limit, { cost }));
      let charged = 0n;
      let passed = 0n;
      let calledUp = 0n;
      for (const { parts, hits } of calls) {
        const [price, count] = says === "by hits" ? [1, parts] : [parts, says === "by both" ? hits : 1];
        const entries = says === "by hits" ? { tenant: "a" } : { tenant: "a", price: String(price) };
        const asked = BigInt(price) * BigInt(count);
        const { over } = rig.hit(entries, count);
        // To the unit: nothing is refused that would have had room.
        expect(over).toBe(charged + units(asked, per) > BigInt(limit));
        if (over) continue;
        charged += units(asked, per);
        passed += asked;
        calledUp++;
      }
      expect(left(rig)).toBe(BigInt(limit) - charged);
      expect(passed <= BigInt(limit) * BigInt(per)).toBe(true);
      expect(charged * BigInt(per) - passed <= calledUp * BigInt(per - 1)).toBe(true);
    }),
    { numRuns: runs(150) },
  );
});

const held = settings.chain(({ per, limit }) =>
  fc.record({
    per: fc.constant(per),
    limit: fc.constant(limit),
    says: fc.constantFrom("by entries", "by hits", "by fields"),
    calls: fc.array(
      fc.record({
        estimate: partsOf(per, limit),
        /** In parts of a thousand of the estimate. */
        usedShare: fc.oneof(fc.constantFrom(0, 1_000), fc.integer({ min: 0, max: 1_000 })),
        ends: fc.boolean(),
      }),
      { minLength: 1, maxLength: 40 },
    ),
  }),
);

// Promise(holds): Limits in parts of a unit never overgrant, and charge each call less than one unit too much.
test("what is held and settled in parts never passes the limit, whichever way it is said", () => {
  fc.assert(
    fc.property(held, ({ per, limit, says, calls }) => {
      const estimates = says === "by hits" ? {} : { estimate: "price" };
      const rig = new LimiterRig(rules(limit, { hold: { id: "id", ttl: "1h", per, ...estimates } }));
      let charged = 0n;
      let used = 0n;
      for (const [i, { estimate, usedShare, ends }] of calls.entries()) {
        const id = `r${i}`;
        const over = says === "by fields" ? field(rig, HoldAsk.reserve, id, estimate) : reserve(id, estimate);
        expect(over).toBe(charged + units(BigInt(estimate), per) > BigInt(limit));
        if (over) continue;
        const cost = Number((BigInt(estimate) * BigInt(usedShare)) / 1_000n);
        if (ends && says === "by fields") field(rig, HoldAsk.settle, id, cost);
        else if (ends) rig.hit({ tenant: "a", id, settle: "used" }, cost);
        used += BigInt(ends ? cost : estimate);
        charged += units(BigInt(ends ? cost : estimate), per);
        // What is charged covers what was used, and what is open.
        expect(left(rig)).toBe(BigInt(limit) - charged);
        expect(used <= charged * BigInt(per)).toBe(true);
      }

      function reserve(id: string, parts: number): boolean {
        const entries = { tenant: "a", id, ...(says === "by hits" ? {} : { price: String(parts) }) };
        return rig.hit(entries, says === "by hits" ? parts : undefined).over;
      }
    }),
    { numRuns: runs(150) },
  );
});

/** Asks as callers of headgate.v1.Budgets do. True if it was over. */
function field(rig: LimiterRig, ask: HoldAsk, id: string, parts: number): boolean {
  const call = rig.begin([{ entries: { tenant: "a" } }], 0, "edge");
  call.request.holdAsk = ask;
  call.request.holdId = id;
  call.request.holdAmount = parts;
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  return call.decision.overLimit;
}

const refunded = settings.chain(({ per, limit }) =>
  fc.record({
    per: fc.constant(per),
    limit: fc.constant(limit),
    calls: fc.array(fc.tuple(partsOf(per, limit), fc.array(fc.integer({ min: 1, max: 999 }), { maxLength: 3 })), {
      minLength: 1,
      maxLength: 20,
    }),
  }),
);

test("refunds in parts never give back more than was paid", () => {
  fc.assert(
    fc.property(refunded, ({ per, limit, calls }) => {
      const rig = new LimiterRig(rules(limit, { cost: { per } }));
      let spent = 0n;
      for (const [parts, shares] of calls) {
        if (rig.hit({ tenant: "a" }, parts).over) continue;
        spent += BigInt(parts);
        let rest = BigInt(parts);
        for (const share of shares) {
          const back = (rest * BigInt(share)) / 1_000n;
          rest -= back;
          spent -= back;
          rig.ask([{ entries: { tenant: "a" }, hits: Number(back), refund: true }]);
        }
        expect((BigInt(limit) - left(rig)) * BigInt(per) >= spent).toBe(true);
      }
    }),
    { numRuns: runs(100) },
  );
});
