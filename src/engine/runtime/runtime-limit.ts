// Limits at run time: what an operator sets for one caller, on top of the rules (docs/runtime-limits.md). A
// RuntimeLimit is kept as two texts, a key and a value, both JSON. What comes from a store or a file is checked like
// any input.

import { isRecord } from "../../base/is-record.ts";
import { AMOUNT_MAX } from "../../base/units.ts";
import { UNIT_NAMES, type Unit } from "../domain/limit.ts";
import { DOMAIN_BYTES_MAX, ENTRIES_MAX, type WrittenEntry } from "../domain/request.ts";

/** Most bytes of a key: of its domain, and of all keys and values of its entries. */
export const RUNTIME_KEY_BYTES_MAX = 1_024;
/** Most characters of a note or a token's name. */
export const RUNTIME_TEXT_MAX = 256;
/** Most bytes of the name of a limit or tier. */
export const RUNTIME_NAME_BYTES_MAX = 1_024;
/** Most limits of one rule that a caller has other amounts of. */
export const RUNTIME_AMOUNTS_MAX = 8;
/** How long an ended or unset one is remembered, so that older data can't bring it back: 30 days, in microseconds. */
export const RUNTIME_REMEMBERED_US = 30 * 86_400 * 1_000_000;

/**
 * Whose limit it is: the entries of a descriptor in order, without those that carry costs, holds, priorities or tiers.
 */
export interface RuntimeKey {
  /** One-byte, as are keys and values. */
  readonly domain: string;
  readonly entries: readonly (readonly [key: string, value: string])[];
}

/** Other amounts of one limit of the rule. */
export interface RuntimeAmount {
  /** The limit's name, or its label in metrics; empty if the rule has only one. */
  readonly limit: string;
  readonly requests: number;
  /** Unit.unknown for `concurrent`, which has none, and to keep the limit's window. */
  readonly unit: Unit;
  /** Undefined: the burst that a rule file without one has. */
  readonly burst: number | undefined;
}

/** What differs for the caller. `none`: nothing any more; it was unset. */
export type RuntimeChange =
  | { readonly kind: "amounts"; readonly amounts: readonly RuntimeAmount[] }
  /** The limits of that tier, whatever tier the call names. */
  | { readonly kind: "use"; readonly name: string }
  | { readonly kind: "block"; readonly shadow: boolean }
  | { readonly kind: "exempt"; readonly global: boolean }
  | { readonly kind: "none" };

/** Kinds that do something. */
export const RUNTIME_KINDS = ["amounts", "use", "block", "exempt"] as const;

export interface RuntimeLimit {
  readonly change: RuntimeChange;
  /** When it ends, in microseconds of the store's clock; 0: never. */
  readonly untilUs: number;
  readonly note: string;
  /** Name of the token that set it. */
  readonly who: string;
}

/** The caller as an operator names it, in ordinary text. */
export interface AskedCaller {
  readonly domain: string;
  readonly entries: readonly WrittenEntry[];
}

/** A change as an operator asks for it. */
export interface AskedLimit {
  readonly caller: AskedCaller;
  readonly change: RuntimeChange;
  /** In the store's time; undefined: no end. */
  readonly until: { readonly seconds: number } | { readonly atUs: number } | undefined;
  readonly note: string;
  /**
   * `seen_us` of what the operator was shown, 0 for nothing: set only if it is there still. Undefined: whatever is
   * there.
   */
  readonly seenUs: number | undefined;
}

/** A RuntimeLimit as it is kept. Of two of one caller all processes and the store keep the newer. */
export interface KeptLimit {
  readonly key: string;
  readonly value: string;
  /** When it was set, in microseconds of the store's clock; greater than the time of what it replaced. */
  readonly atUs: number;
  /** A number below MARKS that differs with key, value or time. */
  readonly mark: number;
}

/** Marks have 48 bits, so that Lua and JavaScript can add them. */
export const MARKS = 2 ** 48;

export function keep(key: string, value: string, atUs: number): KeptLimit {
  return { key, value, atUs, mark: markOf(`${atUs} ${key} ${value}`) };
}

export function isNewer(one: Omit<KeptLimit, "key" | "value">, other: Omit<KeptLimit, "key" | "value">): boolean {
  return one.atUs > other.atUs || (one.atUs === other.atUs && one.mark > other.mark);
}

/** cyrb53 (github.com/bryc/code), without its highest bits. */
function markOf(text: string): number {
  let [one, other] = [0xdeadbeef, 0x41c6ce57];
  for (let i = 0; i < text.length; i++) {
    one = Math.imul(one ^ text.charCodeAt(i), 2654435761);
    other = Math.imul(other ^ text.charCodeAt(i), 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(other ^ (other >>> 13), 3266489909);
  other = Math.imul(other ^ (other >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return (other & 0xffff) * 2 ** 32 + (one >>> 0);
}

/** True if it does something at `nowUs`, in microseconds of the store's clock. */
export function isInForce({ change, untilUs }: RuntimeLimit, nowUs: number): boolean {
  return change.kind !== "none" && (untilUs === 0 || nowUs < untilUs);
}

/** True if it ended or was unset more than `us` before `nowUs`. */
export function isPast({ change, untilUs }: RuntimeLimit, atUs: number, nowUs: number, us: number): boolean {
  const endedUs = change.kind === "none" ? atUs : untilUs;
  return endedUs > 0 && nowUs - endedUs > us;
}

export function keyText({ domain, entries }: RuntimeKey): string {
  return JSON.stringify([domain, ...entries.flat()]);
}

/** Undefined if `keyText` does not write such a text, or beyond the bounds. */
export function readKey(text: string): RuntimeKey | undefined {
  const parts = parsed(text);
  if (!Array.isArray(parts) || !parts.every(isOneByte) || JSON.stringify(parts) !== text) return undefined;
  const [domain = "", ...rest] = parts;
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  if (domain === "" || domain.length > DOMAIN_BYTES_MAX || bytes > RUNTIME_KEY_BYTES_MAX) return undefined;
  if (rest.length === 0 || rest.length % 2 !== 0 || rest.length > 2 * ENTRIES_MAX) return undefined;
  const entries = rest.flatMap((key, i) => (i % 2 === 0 ? [[key, rest[i + 1] ?? ""] as const] : []));
  return { domain, entries };
}

export function valueText({ change, untilUs, note, who }: RuntimeLimit): string {
  const until = untilUs === 0 ? {} : { until_us: untilUs };
  return JSON.stringify({ ...changeFields(change), ...until, ...(note === "" ? {} : { note }), who });
}

function changeFields(change: RuntimeChange): Readonly<Record<string, unknown>> {
  if (change.kind !== "amounts") return change;
  return { kind: change.kind, amounts: change.amounts.map((amount) => ({ ...amount, unit: UNIT_NAMES[amount.unit] })) };
}

/** Undefined if `valueText` does not write such a text, or beyond the bounds. */
export function readValue(text: string): RuntimeLimit | undefined {
  const value = parsed(text);
  if (!isRecord(value)) return undefined;
  const { until_us: untilUs = 0, note = "", who } = value;
  const change = readChange(value);
  if (change === undefined || !isShort(note) || !isShort(who) || !isWhole(untilUs, Number.MAX_SAFE_INTEGER))
    return undefined;
  return { change, untilUs, note, who };
}

function readChange({ kind, amounts, name, shadow, global }: Record<string, unknown>): RuntimeChange | undefined {
  switch (kind) {
    case "none":
      return { kind };
    case "use":
      return isName(name) ? { kind, name } : undefined;
    case "block":
      return typeof shadow === "boolean" ? { kind, shadow } : undefined;
    case "exempt":
      return typeof global === "boolean" ? { kind, global } : undefined;
    case "amounts": {
      if (!Array.isArray(amounts) || amounts.length === 0 || amounts.length > RUNTIME_AMOUNTS_MAX) return undefined;
      const read = amounts.map(readAmount);
      return read.every((amount) => amount !== undefined) ? { kind, amounts: read } : undefined;
    }
    default:
      return undefined;
  }
}

function readAmount(value: unknown): RuntimeAmount | undefined {
  if (!isRecord(value)) return undefined;
  const { limit, requests, unit, burst } = value;
  const number = (UNIT_NAMES as readonly unknown[]).indexOf(unit);
  if (!isName(limit) || !isWhole(requests, AMOUNT_MAX) || number < 0) return undefined;
  if (burst !== undefined && !(isWhole(burst, AMOUNT_MAX) && burst > 0)) return undefined;
  return { limit, requests, unit: number as Unit, burst };
}

function isShort(value: unknown): value is string {
  return typeof value === "string" && value.length <= RUNTIME_TEXT_MAX;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value.length <= RUNTIME_NAME_BYTES_MAX;
}

function isWhole(value: unknown, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= max;
}

function isOneByte(value: unknown): value is string {
  return typeof value === "string" && Buffer.from(value, "latin1").toString("latin1") === value;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
