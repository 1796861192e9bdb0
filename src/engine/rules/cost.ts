// Computes the cost of a descriptor: hits times the value of the rule's cost entry, in units of the rule.

import { COST_ABOVE_ALL, divideDown, divideUp } from "../base/units.ts";
import type { Descriptor } from "../domain/request.ts";
import type { CostEntry } from "./rule-set.ts";

/**
 * The cost of `hits` hits, 1 to COST_ABOVE_ALL. 0 hits (a peek) count as 1. Without a cost entry a hit costs 1. The entry's value is
 * limited to `max`; a value that is absent, zero, negative or no number counts as `default`. Parts (`per`) are rounded up to units: no
 * call is free, and no limit lets more parts pass than it allows.
 */
export function costOf(hits: number, cost: CostEntry | undefined, descriptor: Descriptor): number {
  const askedHits = hits === 0 ? 1 : hits;
  return unitsUp(cost === undefined ? askedHits : askedHits * weightOf(cost, descriptor), cost);
}

/** The cost that a refund of `hits` hits gives back. Parts are rounded down, so that no more is given back than was paid. */
export function refundOf(hits: number, cost: CostEntry | undefined, descriptor: Descriptor): number {
  if (cost === undefined) return Math.min(hits, COST_ABOVE_ALL);
  return Math.min(divideDown(hits * weightOf(cost, descriptor), cost.per), COST_ABOVE_ALL);
}

/**
 * Converts parts to units of the rule, rounded up, at most COST_ABOVE_ALL. Exact, because parts of 2^53 and more are above
 * COST_ABOVE_ALL units for every allowed `per`.
 */
export function unitsUp(parts: number, cost: CostEntry | undefined): number {
  if (cost === undefined || cost.per === 1) return Math.min(parts, COST_ABOVE_ALL);
  return Math.min(divideUp(parts, cost.per), COST_ABOVE_ALL);
}

function weightOf(cost: CostEntry, descriptor: Descriptor): number {
  if (cost.entry === undefined) return cost.default;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] !== cost.entry) continue;
    const weight = parseWeight(descriptor.values[i] as string, cost.max);
    return weight === 0 ? cost.default : weight;
  }
  return cost.default;
}

/** The integer part of a decimal number, at most `most`. 0 for any other text (a sign, an exponent, a blank, no digit). */
export function parseWeight(text: string, most: number): number {
  let whole = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) break;
    whole = Math.min(whole * 10 + digit, most);
  }
  if (at === text.length) return whole;
  if (at === 0 || text.charCodeAt(at) !== 0x2e || at + 1 === text.length) return 0;
  for (let i = at + 1; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return 0;
  }
  return whole;
}
