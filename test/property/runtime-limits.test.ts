// Limits at run time against an oracle: rules that say the same for the caller's exact value. Whatever is set, changed and unset in the middle of
// a history, every call is answered as those rules would, because only amounts change and buckets stay.

import fc from "fast-check";
import { expect, test } from "vitest";
import { LimitCall, NO_FINISHER } from "../../src/engine/limiter/call.ts";
import { LocalFallback } from "../../src/engine/limiter/failure-policy.ts";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import { RuntimeLimits } from "../../src/engine/limiter/runtime-limits.ts";
import { keep, keyText, type RuntimeChange, valueText } from "../../src/engine/runtime/runtime-limit.ts";
import { RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { addDescriptor, CountingStatsBook, RecordingObserver } from "../support/limiter-rig.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

const START_US = 1_767_225_600_000_000;
const CALLERS = ["acme", "other", "third"];
/** The limits of the rule by name: what a file says of each but its amount. */
const LIMITS = {
  bucket: "unit: minute, algorithm: token_bucket",
  sliding: "unit: minute",
  fixed: "unit: hour, algorithm: fixed_window",
  log: "unit: minute, algorithm: sliding_log",
} as const;
type Name = keyof typeof LIMITS;
const NAMES = Object.keys(LIMITS) as Name[];

const change = fc.oneof(
  fc.record({
    kind: fc.constant("amounts" as const),
    amounts: fc.uniqueArray(
      fc.record({ limit: fc.constantFrom(...NAMES), requests: fc.integer({ min: 0, max: 12 }) }),
      { minLength: 1, maxLength: 3, selector: ({ limit }) => limit },
    ),
  }),
  fc.record({ kind: fc.constant("block" as const), shadow: fc.boolean() }),
  fc.record({ kind: fc.constant("exempt" as const), global: fc.boolean() }),
  fc.constant({ kind: "none" as const }),
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      what: fc.constant("set" as const),
      caller: fc.constantFrom(...CALLERS),
      change,
      seconds: fc.option(fc.integer({ min: 1, max: 90 })),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      what: fc.constant("call" as const),
      caller: fc.constantFrom(...CALLERS),
      hits: fc.integer({ min: 0, max: 4 }),
      isRefund: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ what: fc.constant("wait" as const), seconds: fc.integer({ min: 1, max: 60 }) }) },
  { weight: 1, arbitrary: fc.record({ what: fc.constant("reload" as const) }) },
);

/** The file in which callers have the limits that were set for them. */
function yamlFor(amounts: Readonly<Record<Name, number>>, own: ReadonlyMap<string, Change>, kind: string): string {
  const limitsOf = (changed?: Change) => {
    const listed = changed?.kind === "amounts" ? changed.amounts : [];
    return NAMES.map((name) => {
      const requests = listed.find(({ limit }) => limit === name)?.requests ?? amounts[name];
      // As a rule without them has: a burst of the amount, and a debt that does not shrink.
      return `{ name: ${name}, requests_per_unit: ${requests}, ${LIMITS[name]}${name === "bucket" ? `, debt_max: 1000` : ""} }`;
    }).join(", ");
  };
  const rule = (value: string, changed?: Change) =>
    changed?.kind === "exempt"
      ? `  - { key: tenant${value}, rate_limit: { unlimited: true } }\n`
      : `  - { key: tenant${value}${kind}, rate_limits: [${limitsOf(changed)}] }\n`;
  const exact = [...own].filter(([, { kind }]) => kind === "amounts" || kind === "exempt");
  return `domain: edge\nglobal_limit: { requests_per_unit: 40, unit: hour, algorithm: fixed_window }\ndescriptors:\n${exact.map(([caller, changed]) => rule(`, value: ${caller}`, changed)).join("")}${rule("")}`;
}

class Side {
  readonly table = new RuntimeTable();
  readonly #limiter: Limiter;
  /** Of the last call. */
  wasShadowed = false;

  constructor(clock: ManualClock, usesTable: boolean) {
    const store = new MemoryStore({ clock });
    this.#limiter = new Limiter({
      store,
      clock,
      shadowMode: false,
      quotaMode: false,
      onStoreFailure: 0,
      retryAfterJitter: 0,
      statsBook: new CountingStatsBook(),
      observer: new RecordingObserver(),
      fallback: new LocalFallback(
        () => new MemoryStore({ clock }),
        () => 1,
      ),
      nearLimitRatio: 0.8,
      runtime: usesTable ? new RuntimeLimits(this.table, clock) : undefined,
    });
  }

  use(yaml: string): void {
    this.#limiter.useRules(rulesFromYaml(yaml));
  }

  ask(caller: string, hits: number, isRefund: boolean) {
    const call = new LimitCall(NO_FINISHER);
    call.request.domain = "edge";
    addDescriptor(call.request, { entries: { tenant: caller }, hits, refund: isRefund });
    expect(this.#limiter.decide(call, Number.POSITIVE_INFINITY)).toBe(true);
    const { overLimit, statuses, statusCount } = call.decision;
    this.wasShadowed = call.wasShadowed;
    return {
      overLimit,
      statuses: statuses.slice(0, statusCount).map((status) => ({
        over: status.overLimit,
        remaining: status.remaining,
        amount: status.limit?.amount,
        shown: status.limit?.shownAmount,
        reset: status.hasReset ? status.resetSeconds : undefined,
      })),
    };
  }
}

test("a caller with limits at run time is treated as by rules for its exact value", () => {
  const amount = fc.integer({ min: 0, max: 8 });
  fc.assert(
    fc.property(
      fc.record({ bucket: amount, sliding: amount, fixed: amount, log: amount }),
      fc.constantFrom("", ", shadow_mode: true"),
      fc.array(step, { maxLength: 60 }),
      (amounts, kind, steps) => {
        const clock = new ManualClock(START_US);
        const [real, oracle] = [new Side(clock, true), new Side(clock, false)];
        const own = new Map<string, { readonly change: Change; readonly untilUs: number }>();
        const inForce = () =>
          new Map(
            [...own]
              .filter(([, { untilUs }]) => untilUs === 0 || clock.nowUs() < untilUs)
              .map(([caller, { change }]) => [caller, change]),
          );
        real.use(yamlFor(amounts, new Map(), kind));
        let at = 0;
        for (const each of steps) {
          at++;
          if (each.what === "wait") clock.setUs(clock.nowUs() + each.seconds * 1_000_000);
          else if (each.what === "reload") real.use(yamlFor(amounts, new Map(), kind));
          else if (each.what === "set") {
            const untilUs = each.seconds === null ? 0 : clock.nowUs() + each.seconds * 1_000_000;
            own.set(each.caller, { change: each.change, untilUs });
            const changed =
              each.change.kind === "amounts"
                ? {
                    kind: "amounts",
                    amounts: each.change.amounts.map((one) => ({ ...one, unit: 0, burst: undefined })),
                  }
                : each.change;
            const value = valueText({ change: changed as RuntimeChange, untilUs, note: "", who: "t" });
            real.table.put(keep(keyText({ domain: "edge", entries: [["tenant", each.caller]] }), value, at));
          } else {
            const set = inForce();
            oracle.use(yamlFor(amounts, set, kind));
            const own = set.get(each.caller);
            const answer = real.ask(each.caller, each.hits, each.isRefund);
            const isAsking = !each.isRefund;
            if (own?.kind === "block" && !own.shadow && isAsking) {
              expect(answer.overLimit).toBe(true);
              expect(answer.statuses[0]).toMatchObject({ over: true, remaining: 0 });
              continue;
            }
            if (own?.kind === "block" && isAsking && each.hits > 0 && !answer.overLimit)
              expect(real.wasShadowed).toBe(true);
            // What an exempt caller gives back, it had paid to the rule.
            if (own?.kind === "exempt" && each.isRefund) oracle.use(yamlFor(amounts, new Map(), kind));
            // It pays nothing at all if it is exempt from the global limit, too.
            else if (own?.kind === "exempt" && own.global) {
              expect(answer.overLimit).toBe(false);
              continue;
            }
            expect(answer).toEqual(oracle.ask(each.caller, each.hits, each.isRefund));
          }
        }
      },
    ),
    { numRuns: runs(200) },
  );
});
