// The cost of a descriptor: hits times the value of the rule's cost entry, in units of the rule; and how a rule file
// writes it, for a hit (`cost`) or for a call (the estimate of `hold`).

import { AMOUNT_MAX, COST_ABOVE_ALL, divideDown, divideUp } from "../../base/units.ts";
import { type Descriptor, textOf } from "../domain/request.ts";
import { limitsOfDraft, type RuleDraft } from "./draft.ts";
import type { Fields } from "./fields.ts";
import type { CostEntry } from "./rule-set.ts";
import { COST_PER_MAX } from "./schema.ts";

/**
 * The cost of `hits` hits, 1 to COST_ABOVE_ALL. 0 hits (a peek) count as 1. Without a cost entry a hit costs 1. The
 * entry's value is limited to `max`; a value that is absent, zero, negative or no number counts as `default`. Parts
 * (`per`) are rounded up to units: no call is free, and no limit lets more parts pass than it allows.
 */
export function costOf(hits: number, cost: CostEntry | undefined, descriptor: Descriptor): number {
  const askedHits = hits === 0 ? 1 : hits;
  return unitsUp(cost === undefined ? askedHits : askedHits * weightOf(cost, descriptor), cost);
}

/**
 * The cost that a refund of `hits` hits gives back. Parts are rounded down, so that no more is given back than was
 * paid.
 */
export function refundOf(hits: number, cost: CostEntry | undefined, descriptor: Descriptor): number {
  if (cost === undefined) return Math.min(hits, COST_ABOVE_ALL);
  return Math.min(divideDown(hits * weightOf(cost, descriptor), cost.per), COST_ABOVE_ALL);
}

/**
 * Converts parts to units of the rule, rounded up, at most COST_ABOVE_ALL. Exact, because parts of 2^53 and more are
 * above COST_ABOVE_ALL units for every allowed `per`.
 */
export function unitsUp(parts: number, cost: CostEntry | undefined): number {
  if (cost === undefined || cost.per === 1) return Math.min(parts, COST_ABOVE_ALL);
  return Math.min(divideUp(parts, cost.per), COST_ABOVE_ALL);
}

function weightOf(cost: CostEntry, descriptor: Descriptor): number {
  if (cost.entry === undefined) return cost.default;
  return parseWeight(descriptor.value(cost.entry) ?? "", cost.max) || cost.default;
}

/** A decimal number with a fraction, a sign or an exponent. Most are digits alone, which need no pattern. */
const DECIMAL = /^\+?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/** A decimal number, rounded up to a whole one, at most `most`. 0 for any other text, and for a negative number. */
export function parseWeight(text: string, most: number): number {
  let whole = 0;
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return DECIMAL.test(text) ? Math.min(Math.ceil(Number(text)), most) : 0;
    whole = Math.min(whole * 10 + digit, most);
  }
  return whole;
}

/** The key that names the entry in each section. */
const ENTRY_KEYS = { cost: "entry", hold: "estimate" } as const;

/** The cost entry of a `cost` or `hold` section; undefined if it has none, so that a hit costs 1. */
export function readCostEntry(section: "cost" | "hold", fields: Fields): CostEntry | undefined {
  const entryKey = ENTRY_KEYS[section];
  const entry = fields.text(entryKey) ?? "";
  const per = fields.whole("per", 1, COST_PER_MAX) ?? 1;
  const max = fields.whole("max", 1, AMOUNT_MAX * per) ?? AMOUNT_MAX * per;
  const byDefault = fields.whole("default", 1, AMOUNT_MAX * per) ?? 1;
  const stray = fields.firstGiven(["default", "max"]);
  if (entry === "" && stray !== undefined) {
    if (fields.hasRefused) return undefined;
    fields.log.error(stray.keyAt, `${section}: '${stray.name}' needs '${entryKey}', which is missing`);
  } else if (byDefault > max) {
    fields.log.error(fields.valueAt("default"), `${section}: default ${byDefault} is above max ${max}`);
  }
  if (entry !== "") return { entry, default: byDefault, max, per };
  return fields.given("per") === undefined ? undefined : { entry: undefined, default: 1, max: AMOUNT_MAX * per, per };
}

/** Warns of a `default` above a limit of the rule: calls without the entry would never pass. */
export function warnNoRoom(draft: RuleDraft, fields: Fields): void {
  const section = draft.hold === undefined ? "cost" : "hold";
  const cost = draft.hold === undefined ? draft.cost : draft.hold.estimate;
  // What is paid afterwards is never refused for its size.
  if (cost?.entry === undefined || draft.isPostPaid) return;
  const units = unitsUp(cost.default, cost);
  for (const { burst, name, isConcurrent } of limitsOfDraft(draft).flatMap(({ limits }) => limits)) {
    // A limit of 0 is there to refuse all calls.
    if (isConcurrent || burst === 0 || units <= burst) continue;
    const limit = name === "" ? "the limit" : `limit '${textOf(name)}'`;
    const message = `${section}: a call without '${textOf(cost.entry)}' costs ${units}, but ${limit} allows at most ${burst}, so it is always refused`;
    fields.log.warn(fields.keyAt(section), message, "Lower 'default', or raise the limit.");
  }
}
