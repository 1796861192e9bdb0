// `hand_out`: a rule whose bucket may be handed out to Envoys, which then decide by themselves (src/quota). Reads the
// section, and reports everything that a handed-out rule can't have.

import { ALGORITHM_NAMES, Algorithm } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { type DomainDraft, type LimitDraft, limitsOfDraft, type RuleDraft } from "./draft.ts";
import type { Fields } from "./fields.ts";
import { parseWindow } from "./limit-shape.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import { refuseSync } from "./read-limit.ts";
import type { DomainRules, HandOut } from "./rule-set.ts";

/** After this time without a request an Envoy's part goes back. */
const IDLE_SECONDS_DEFAULT = 60;
const IDLE_SECONDS_MIN = 15;
const FLOOR_PERCENT_DEFAULT = 1;
const FLOOR_PERCENT_MAX = 10;

/** Envoys together hold this part of the burst as tokens, at least one each; and as much is paid ahead for them. */
export const HELD_PART = 8;

/**
 * The most that can be handed out, in bursts a second: what is paid ahead, an eighth of the burst, must last for a
 * tenth of a second.
 */
export const BURSTS_PER_SECOND_MAX = 1.25;

/** Fewer Envoys than this get a warning. */
const ENVOYS_USUAL = 8;

/** Reads `hand_out`; undefined if the rule has none. Mistakes are reported. */
export function readHandOut(fields: Fields): HandOut | undefined {
  const section = fields.section("hand_out", "hand out");
  if (section === undefined) return undefined;
  return { idleSeconds: readIdle(section), floorPercent: readFloor(section) };
}

function readIdle(fields: Fields): number {
  const value = fields.given("idle")?.value;
  if (value === undefined) return IDLE_SECONDS_DEFAULT;
  const seconds = value.kind === "scalar" ? parseWindow(value.text) : undefined;
  if (seconds !== undefined && seconds >= IDLE_SECONDS_MIN) return seconds;
  const message = `hand_out: idle: expected at least ${IDLE_SECONDS_MIN}s, such as 60s or 5m: Envoys report every 5 s`;
  return fields.log.wrong(value, message) ?? IDLE_SECONDS_DEFAULT;
}

function readFloor(fields: Fields): number {
  const value = fields.given("floor")?.value;
  if (value === undefined) return FLOOR_PERCENT_DEFAULT;
  const parts = value.kind === "scalar" ? /^([0-9]{1,2})%$/.exec(value.text) : null;
  const percent = Number(parts?.[1] ?? Number.NaN);
  if (percent <= FLOOR_PERCENT_MAX) return percent;
  const message = `hand_out: floor: expected a whole percentage of the limit from 0% to ${FLOOR_PERCENT_MAX}%`;
  return fields.log.wrong(value, message) ?? FLOOR_PERCENT_DEFAULT;
}

/** Settings of a rule that exclude `hand_out`, with the reason as the end of a sentence. */
const EXCLUDES: Readonly<Record<string, string>> = {
  cost: "Envoy counts requests, not costs",
  hold: "Envoy neither reserves nor settles",
  concurrent: "Envoy does not say when a request ends",
  post_paid: "Envoy decides before it reports",
  charge_given_hits: "Envoy sends no hits",
  shadow_mode: "Envoy refuses what a bucket has no token for",
  quota_mode: "each of Envoy's buckets decides alone",
  tier: "all requests of a bucket have the same limit",
};

/** Reports what the rule itself has that can't be handed out. */
export function checkHandOut(draft: RuleDraft, fields: Fields): void {
  if (draft.handOut === undefined) return;
  const { log } = fields;
  for (const [name, reason] of Object.entries(EXCLUDES)) {
    const says = `'${name}' can't be combined with 'hand_out': ${reason}`;
    if (fields.get(name) !== undefined) fields.refuse(name, says, "Remove one of the two.");
  }
  if (fields.given("post_paid") === undefined && draft.isPostPaid)
    log.error(fields.keyAt("hand_out"), "'hand_out' can't be combined with the defaults' 'post_paid'");
  const limits = limitsOfDraft(draft).flatMap((each) => each.limits);
  const [first, second] = limits;
  if (second !== undefined) {
    const message = "'hand_out' needs a rule with one limit: what Envoys hold is paid from one bucket";
    log.error(second.at, message, "Keep the others in a rule that Envoy asks about.");
  } else if (first !== undefined) checkLimit(first, log);
}

function checkLimit(limit: LimitDraft, log: ProblemLog): void {
  const { at, algorithm, burst } = limit;
  if (algorithm !== Algorithm.tokenBucket) {
    const message = `'hand_out' needs a token_bucket, but this limit is a ${ALGORITHM_NAMES[algorithm]}: what Envoys hold at the end of a window would pass in the next`;
    log.error(at, message, "Write 'tokens_per_second' and 'burst'.");
    return;
  }
  if (limit.guarantee !== undefined)
    log.error(limit.guarantee.at, "'guarantee' can't be combined with 'hand_out': Envoy's buckets name no callers");
  if (limit.priority !== undefined)
    log.error(limit.priority.at, "'priority' can't be combined with 'hand_out': Envoy's requests are all alike");
  refuseSync(limit, "with 'hand_out', which pays in advance itself", log);
  const envoys = Math.floor(burst / HELD_PART);
  if (envoys === 0) {
    const message = `'hand_out' needs a burst of at least ${HELD_PART}, got ${burst}: Envoys together hold an eighth of it, a token each`;
    log.error(at, message, "Raise 'burst', or let Envoy ask.");
    return;
  }
  if (envoys < ENVOYS_USUAL) {
    const message = `hand_out: a burst of ${burst} suffices for ${envoys} ${envoys === 1 ? "Envoy" : "Envoys"}; further ones are denied`;
    log.warn(at, message, `Raise 'burst' to ${HELD_PART} for each Envoy.`);
  }
}

/**
 * The handed-out rules of a domain: the keys of their entries in the order of the rules, by the id that `keySetOf`
 * makes of the same keys in any order. Reports what the domain has that can't be handed out.
 */
export function handedOutRules(draft: DomainDraft, isCompatible: boolean, log: ProblemLog): DomainRules["handedOut"] {
  const found = new Map<string, { readonly keys: readonly string[]; readonly at: RuleDraft["at"] }>();
  const walk = (rules: readonly RuleDraft[], above: readonly string[]): void => {
    for (const rule of rules) {
      const keys = [...above, rule.key];
      if (rule.handOut !== undefined) note(rule, keys);
      walk(rule.children, keys);
    }
  };
  const note = ({ at }: RuleDraft, keys: readonly string[]) => {
    const [globalLimit] = draft.globalLimits;
    if (isCompatible) log.error(at, "'hand_out' can't be used with COMPATIBILITY_MODE");
    if (globalLimit !== undefined) {
      const message = `'hand_out' can't be used in a domain with a global_limit (${formatPlace(globalLimit.limit.at)}), which requests that Envoy decides would not pay`;
      log.error(at, message, "Put the rule into a domain of its own.");
    }
    if (new Set(keys).size < keys.length)
      log.error(at, "'hand_out' needs different keys on the path of its rule: Envoy's bucket ids have each key once");
    const set = keySetOf(keys);
    const first = found.get(set);
    if (first === undefined) found.set(set, { keys, at });
    else if (first.keys.join("\0") !== keys.join("\0")) {
      const message = `the handed-out rule at ${formatPlace(first.at)} has the same keys in another order (${first.keys.map(textOf).join(", ")}), and Envoy's bucket ids have no order`;
      log.error(at, message, "Use the same order.");
    }
  };
  walk(draft.rules, []);
  return new Map([...found].map(([set, { keys }]) => [set, keys]));
}

/** The same text for the same keys in any order. */
export function keySetOf(keys: readonly string[]): string {
  return [...keys].sort().join("\0");
}
