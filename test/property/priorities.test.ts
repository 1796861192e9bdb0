// What is kept for calls of high priority: no flood of others uses it, all together pass no more than the limit, and who is
// refused for it hears the truth of what is left and when it passes.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ALGORITHM_NAMES, Algorithm, type Limit, WRITTEN_ALGORITHMS } from "../../src/engine/domain/limit.ts";
import { Mode, Outcome, type Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { ReferenceStore } from "./reference-store.ts";

/** What a rule file says of the shared limit, but for its priority. */
const words = fc
  .record({
    algorithm: fc.constantFrom(...WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm])),
    requests_per_unit: fc.integer({ min: 2, max: 60 }),
    window: fc.constantFrom("1s", "7s", "60s"),
    more: fc.integer({ min: 0, max: 40 }),
  })
  .map(({ more, ...limit }) =>
    limit.algorithm === "token_bucket" ? { ...limit, burst: limit.requests_per_unit + more } : limit,
  );
const percent = fc.integer({ min: 1, max: 99 });

const calls = fc.array(
  fc.record({
    isHigh: fc.boolean(),
    hits: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 20 })),
    /** Low priority floods: so many calls of them, one after another. */
    flood: fc.integer({ min: 0, max: 3 }),
    us: fc.oneof(fc.constantFrom(0, 1), fc.integer({ min: 0, max: 400_000 }), fc.integer({ min: 0, max: 9_000_000 })),
  }),
  { minLength: 1, maxLength: 25 },
);

/** A service whose limit, of a rule or of the whole domain, keeps a part for `class=paid` and `class=staff`. */
class Shared {
  readonly rig: LimiterRig;
  readonly limit: Limit;
  readonly #isGlobal: boolean;

  constructor(limit: object, percent: number, isGlobal: boolean) {
    const shared = { ...limit, priority: { entry: "class", high: `${percent}%`, values: ["paid", "staff"] } };
    const rules = isGlobal
      ? { domain: "edge", global_limit: { ...shared, count: "hits" } }
      : { domain: "edge", descriptors: [{ key: "app", rate_limit: shared }] };
    this.rig = new LimiterRig(JSON.stringify(rules), {
      openStore: (clock) => new MemoryStore({ clock, bucketsMax: 16 }),
    });
    const domain = this.rig.limiter.rules?.domains.get("edge");
    this.limit = (domain?.globalLimit?.limit ?? domain?.root.rules[0]?.limits[0]) as Limit;
    this.#isGlobal = isGlobal;
  }

  get clock(): ManualClock {
    return this.rig.clock;
  }

  /** The take of a call; `paid` if it passed. */
  ask(isHigh: boolean, hits: number): Take {
    // Of the whole domain any descriptor says the priority, wherever it stands.
    const said = isHigh ? { class: hits % 2 === 0 ? "paid" : "staff" } : hits % 2 === 0 ? { class: "free" } : {};
    const descriptors = this.#isGlobal
      ? [{ entries: { app: "a" } }, { entries: { user: "u", ...said } }]
      : [{ entries: { ...said, app: "a" }, hits }];
    const call = this.rig.begin(descriptors, hits, "edge");
    this.rig.limiter.decide(call, Number.POSITIVE_INFINITY);
    return call.group.takes[0] as Take;
  }
}

/** One take on a limit in a store of its own. */
function take(store: ReferenceStore, limit: Limit, mode: Mode, cost: number): Take {
  const group = new TakeGroup();
  fillGroup(group, [{ limit, mode, cost }], "", false);
  store.take(group);
  return group.takes[0] as Take;
}

function partOf(limit: Limit, room: number): Limit {
  const amount = limit.algorithm === Algorithm.tokenBucket ? limit.amount : room;
  return { ...limit, priority: undefined, amount, burst: room };
}

describe("priority", () => {
  // Promise(tiers): A flood of other calls never uses the part kept for high priority.
  test("no flood refuses a call of high priority that stays within its part: a limit of the part alone, at the whole rate", () => {
    const seen = { high: 0, refusedLow: 0 };
    fc.assert(
      fc.property(words, percent, fc.boolean(), calls, (limit, percent, isGlobal, calls) => {
        const shared = new Shared(limit, percent, isGlobal);
        const part = partOf(shared.limit, shared.limit.priority?.low.reserve ?? 0);
        const alone = new ReferenceStore(shared.clock);
        for (const { isHigh, hits, flood, us } of calls) {
          shared.clock.setUs(shared.clock.nowUs() + us);
          for (let i = 0; i < flood; i++) if (!shared.ask(false, hits).paid) seen.refusedLow++;
          // A caller of high priority that keeps to its part.
          if (!isHigh || !take(alone, part, Mode.pay, hits).paid) continue;
          seen.high++;
          expect(shared.ask(true, hits)).toMatchObject({ outcome: Outcome.room, paid: true });
        }
      }),
      { numRuns: runs(500) },
    );
    expect(seen.high).toBeGreaterThan(runs(500));
    expect(seen.refusedLow).toBeGreaterThan(runs(500));
  });

  // Promise(tiers): Both priorities together stay within the limit, and high priority may use all of it.
  // Promise(tiers): Low-priority callers are told how much they may use, and when.
  test("high ones pass whenever the limit has room; low ones pass and hear what a call does that asks for what is kept as well", () => {
    const seen = { over: 0, never: 0 };
    fc.assert(
      fc.property(words, percent, fc.boolean(), calls, (limit, percent, isGlobal, calls) => {
        const shared = new Shared(limit, percent, isGlobal);
        const quota = shared.limit.burst;
        const reserve = shared.limit.priority?.low.reserve ?? 0;
        const whole = partOf(shared.limit, quota);
        const alone = new ReferenceStore(shared.clock);
        for (const { isHigh, hits, us } of calls) {
          shared.clock.setUs(shared.clock.nowUs() + us);
          const hasRoom = take(alone, whole, Mode.peek, hits).outcome === Outcome.room;
          const asked = shared.ask(isHigh, hits);
          if (isHigh) expect(asked.paid).toBe(hasRoom);
          else if (asked.paid) expect(hasRoom).toBe(true);
          if (asked.paid) take(alone, whole, Mode.pay, hits);
          // Of what the bucket holds low ones may use what is not kept; a cost has to leave as much.
          const left = take(alone, whole, Mode.peek, hits + reserve);
          if (isHigh) continue;
          expect(asked.remaining).toBe(Math.max(0, left.remaining - reserve));
          expect(asked.resetUs).toBe(left.resetUs);
          if (asked.paid) continue;
          expect(asked).toMatchObject({ outcome: left.outcome, waitUs: left.waitUs });
          expect(asked.outcome === Outcome.never).toBe(hits + reserve > quota);
          seen[asked.outcome === Outcome.never ? "never" : "over"]++;
        }
      }),
      { numRuns: runs(500) },
    );
    expect(seen.over).toBeGreaterThan(runs(60));
    expect(seen.never).toBeGreaterThan(runs(60));
  });
});
