// Reserve and Settle do what calls of ShouldRateLimit do whose entries say the same, on rules of all kinds, whatever callers
// reserve, repeat, report or leave alone.

import fc from "fast-check";
import { expect, test } from "vitest";
import { LimitRequest } from "../../src/engine/domain/request.ts";
import { decodeRequest } from "../../src/grpc/rls/codec.ts";
import { DecisionLog } from "../../src/operate/telemetry/decision-log.ts";
import { readWrittenCall } from "../../src/tools/simulate/sources/written-call.ts";
import { SECOND_US } from "../contract/store-harness.ts";
import { BudgetsRig, type ReservedReply } from "../support/budgets.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { plainOf } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";

const TTL_SECONDS = 60;

interface RuleShape {
  readonly algorithm: string;
  readonly estimate: { readonly default: number; readonly spare: number; readonly isBounded: boolean } | undefined;
  readonly concurrent: number | undefined;
  readonly isShadow: boolean;
  readonly globalLimit: number | undefined;
}

const shape: fc.Arbitrary<RuleShape> = fc.record({
  algorithm: fc.constantFrom("token_bucket", "fixed_window"),
  estimate: fc.option(
    fc.record({
      default: fc.integer({ min: 1, max: 40 }),
      spare: fc.integer({ min: 0, max: 60 }),
      isBounded: fc.boolean(),
    }),
    { nil: undefined },
  ),
  concurrent: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  isShadow: fc.boolean(),
  globalLimit: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
});

/** How settlements are marked by value; undefined: by the entry alone. */
const mark = fc.constantFrom(
  undefined,
  { entry: "settle", value: "end" },
  // Numbers that are estimates, too.
  ...["0", "1", "99", "end"].map((value) => ({ entry: "max_tokens", value })),
);

function rulesOf(
  { algorithm, estimate, concurrent, isShadow, globalLimit }: RuleShape,
  marked?: { readonly entry: string; readonly value: string },
): string {
  const settle = marked === undefined ? "" : `, settle: { entry: ${marked.entry}, value: "${marked.value}" }`;
  const max = estimate?.isBounded === true ? `, max: ${estimate.default + estimate.spare}` : "";
  const entry = estimate === undefined ? "" : `, estimate: max_tokens, default: ${estimate.default}${max}`;
  return `
domain: edge
${globalLimit === undefined ? "" : `global_limit: { requests_per_unit: ${globalLimit}, unit: hour, algorithm: fixed_window }`}
descriptors:
  - key: tenant
    shadow_mode: ${isShadow}
    rate_limit: { algorithm: ${algorithm}, requests_per_unit: 100, unit: hour }
    hold: { id: request_id, ttl: ${TTL_SECONDS}s${entry}${settle} }
    ${concurrent === undefined ? "" : `concurrent: ${concurrent}`}
`;
}

interface Step {
  readonly kind: "reserve" | "settle";
  readonly id: string;
  readonly number: number;
  readonly afterUs: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom("reserve", "settle"),
  id: fc.constantFrom("r1", "r2", "r3", "ü".repeat(70), `${"ü".repeat(69)}x`),
  number: fc.oneof(
    fc.constantFrom(0, 1, 99, 100, 101, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER),
    fc.integer({ min: 0, max: 60 }),
  ),
  afterUs: fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 20 * SECOND_US }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 3 * TTL_SECONDS * SECOND_US }) },
  ),
});

/** The question as entries that the rule names say it. */
function byEntries(rig: LimiterRig, { kind, id, number }: Step, { estimate }: RuleShape) {
  const entries = { tenant: "a", request_id: id };
  if (kind === "settle") return rig.ask([{ entries: { ...entries, settle: "" }, hits: number }]);
  if (estimate !== undefined) return rig.ask([{ entries: { ...entries, max_tokens: String(number) } }]);
  return rig.ask([{ entries, hits: Math.max(1, number) }]);
}

/** The reply that the fields have to get, of a rig that is asked by entries. */
function replyByEntries(rig: LimiterRig, step: Step, rule: RuleShape): object {
  const before = settlementsOf(rig);
  const { over, statuses, governing } = byEntries(rig, step, rule);
  const remaining = statuses[0]?.remaining;
  if (step.kind === "settle") {
    const after = settlementsOf(rig);
    const again = after.again > before.again ? "ALREADY_SETTLED" : "UNKNOWN";
    return { found: after.settled > before.settled ? "SETTLED" : again, remaining, degraded: null };
  }
  const retryAfter = over ? statuses[0]?.reset : undefined;
  return { code: over ? "OVER_LIMIT" : "OK", remaining, retryAfter, rule: governing, degraded: null };
}

// What was paid shows in what remains; entries have no word for it.
function withoutPayment({ reserved: _reserved, reason: _reason, ...reply }: ReservedReply): object {
  return reply;
}

/** What settlements have found so far, on all limits. */
function settlementsOf(rig: LimiterRig): { settled: number; again: number } {
  let settled = 0;
  let again = 0;
  for (const stats of rig.statsBook.stats.values()) {
    settled += stats.settlements;
    again += stats.settledAgain;
  }
  return { settled, again };
}

// Promise(holds): `Reserve` and `Settle` do what the same values in entries do; either settles what the other reserved.
test("fields say what entries say, step by step, on rules of all kinds, also in turn about one id", () => {
  const either = fc.tuple(step, fc.boolean());
  fc.assert(
    fc.property(shape, fc.array(either, { minLength: 1, maxLength: 30 }), (rule, steps) => {
      const [rig, other] = [new LimiterRig(rulesOf(rule)), new LimiterRig(rulesOf(rule))];
      const budgets = new BudgetsRig(rig);
      const got: unknown[] = [];
      const expected: unknown[] = [];
      for (const [each, byFields] of steps) {
        for (const { clock } of [rig, other]) clock.advanceUs(each.afterUs);
        const asked = { entries: { tenant: "a" }, id: each.id, number: each.number };
        expected.push(replyByEntries(other, each, rule));
        if (!byFields) got.push(replyByEntries(rig, each, rule));
        else got.push(each.kind === "settle" ? budgets.settle(asked) : withoutPayment(budgets.reserve(asked)));
      }
      expect(got).toEqual(expected);
      for (const { clock } of [rig, other]) clock.advanceUs(2 * TTL_SECONDS * SECOND_US);
      const left = [rig, other].map((each) => each.hit({ tenant: "a" }, 0).statuses);
      expect(left[0]).toEqual(left[1]);
      expect([...rig.statsBook.stats]).toEqual([...other.statsBook.stats]);
    }),
    { numRuns: runs(150) },
  );
});

// Promise(simulations): A decision log of all calls is a recording, reservations and settlements included: a simulation decides the same.
test("the decision log writes them as entries that a simulation asks the same by", () => {
  fc.assert(
    fc.property(shape, mark, fc.array(step, { minLength: 1, maxLength: 20 }), (rule, marked, steps) => {
      const [rig, other] = [new LimiterRig(rulesOf(rule, marked)), new LimiterRig(rulesOf(rule, marked))];
      const lines: string[] = [];
      const write = (line: string) => lines.push(line) > 0;
      const log = new DecisionLog({ kind: "all", linesPerSecond: 1e9, clock: rig.clock, write });
      const budgets = new BudgetsRig(rig, log);
      const got: unknown[] = [];
      const replayed: unknown[] = [];
      const request = new LimitRequest();
      for (const { kind, id, number, afterUs } of steps) {
        for (const { clock } of [rig, other]) clock.advanceUs(afterUs);
        // Entries that the rule names mean nothing next to fields, and must not come first in the line.
        const entries = {
          ...{ tenant: "a", request_id: "mine", [marked?.entry ?? "settle"]: "1" },
          ...(rule.estimate === undefined ? {} : { max_tokens: "3" }),
        };
        const reply =
          kind === "settle"
            ? { code: "OK", ...budgets.settle({ entries, id, number }) }
            : budgets.reserve({ entries, id, number });
        got.push([reply.code, reply.remaining]);
        const { message } = readWrittenCall(JSON.parse(lines.at(-1) ?? "") as Record<string, unknown>);
        decodeRequest(message, request);
        const { descriptors: asked, hitsAddend } = plainOf(request);
        const descriptors = asked.map(({ entries: pairs, hits }) => ({
          entries: Object.fromEntries(pairs),
          ...(hits === undefined ? {} : { hits }),
        }));
        const { over, statuses } = other.ask(descriptors, hitsAddend);
        replayed.push([over ? "OVER_LIMIT" : "OK", statuses[0]?.remaining]);
      }
      expect([lines.length, replayed]).toEqual([steps.length, got]);
    }),
    { numRuns: runs(200) },
  );
});
