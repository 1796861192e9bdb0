// What a descriptor's hits cost: hits times the value of the rule's cost entry.

import type { Descriptor } from "../core/request.ts";
import { AMOUNT_MAX, COST_ABOVE_ALL } from "../core/units.ts";
import type { CostEntry } from "./rule-set.ts";

/**
 * The cost of `hits` hits, at most COST_ABOVE_ALL. Zero hits (a peek) ask about one. Without a cost entry a hit costs 1.
 * The entry's value counts from 1 to `max`; one that is absent, zero, negative or not a number counts as `default`.
 */
export function costOf(hits: number, cost: CostEntry | undefined, descriptor: Descriptor): number {
  const askedHits = hits === 0 ? 1 : hits;
  if (cost === undefined) return Math.min(askedHits, COST_ABOVE_ALL);
  return Math.min(askedHits * weightOf(cost, descriptor), COST_ABOVE_ALL);
}

function weightOf(cost: CostEntry, descriptor: Descriptor): number {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] !== cost.entry) continue;
    const weight = parseWeight(descriptor.values[i] as string);
    return weight === 0 ? cost.default : Math.min(weight, cost.max);
  }
  return cost.default;
}

/** The whole part of a decimal number, at most AMOUNT_MAX; 0 for anything else (a sign, an exponent, a blank, no digit). */
export function parseWeight(text: string): number {
  let whole = 0;
  let at = 0;
  for (; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) break;
    whole = Math.min(whole * 10 + digit, AMOUNT_MAX);
  }
  if (at === text.length) return whole;
  if (at === 0 || text.charCodeAt(at) !== 0x2e || at + 1 === text.length) return 0;
  for (let i = at + 1; i < text.length; i++) {
    const digit = text.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return 0;
  }
  return whole;
}
