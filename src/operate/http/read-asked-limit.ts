// Reads limits at run time from PUT and DELETE /limits, from files of them, and from cases.

import { isRecord } from "../../base/is-record.ts";
import { AMOUNT_MAX, missingDay } from "../../base/units.ts";
import { Unit } from "../../engine/domain/limit.ts";
import { DOMAIN_BYTES_MAX, ENTRIES_MAX } from "../../engine/domain/request.ts";
import {
  type AskedLimit,
  RUNTIME_NAME_BYTES_MAX,
  RUNTIME_TEXT_MAX,
  type RuntimeChange,
} from "../../engine/runtime/runtime-limit.ts";
import { asEntry, asList, asRecord, asText, asUnit, asWhole, refused } from "./read-questions.ts";

/** The longest end: ten years. */
export const RUNTIME_UNTIL_SECONDS_MAX = 10 * 365 * 86_400;

const UNSET_KEYS = ["domain", "entries", "note", "seen_us"];
const AMOUNT_KEYS = ["limit", "requests_per_unit", "unit", "burst"];
const OTHER_KEYS = ["amounts", "use", "block", "shadow", "exempt", "global_limit", "until", "until_seconds"];
const SET_KEYS = [...UNSET_KEYS, ...AMOUNT_KEYS, ...OTHER_KEYS];

/**
 * Reads one limit at run time; `unsets`: what unsets it. `at` names it in errors. Throws RequestError, which names the
 * field.
 */
export function readAskedLimit(value: unknown, at: string, unsets: boolean): AskedLimit {
  const fields = asRecord(value, at, unsets ? UNSET_KEYS : SET_KEYS);
  const { domain, entries, note = "", seen_us: seenUs } = fields;
  const caller = {
    domain: asText(domain, `${at}.domain`, DOMAIN_BYTES_MAX),
    entries: asList(entries, `${at}.entries`, ENTRIES_MAX).map((entry, i) =>
      asEntry(asWritten(entry), `${at}.entries[${i}]`),
    ),
  };
  const change: RuntimeChange = unsets ? { kind: "none" } : readChange(fields, at);
  return {
    caller,
    change,
    until: readUntil(fields, at),
    note: readShort(note, `${at}.note`),
    seenUs: seenUs === undefined ? undefined : asWhole(seenUs, `${at}.seen_us`, Number.MAX_SAFE_INTEGER),
  };
}

function readChange(fields: Record<string, unknown>, at: string): RuntimeChange {
  const { use, block, exempt, shadow = false, global_limit: global = false } = fields;
  const kinds = [use !== undefined, block === true, exempt === true, hasAmounts(fields)].filter((is) => is).length;
  for (const [name, flag] of Object.entries({ block, exempt }))
    if (flag !== undefined && typeof flag !== "boolean") throw refused(`true or false as ${at}.${name}`);
  if (kinds !== 1) throw refused(`one of requests_per_unit (or amounts), use, block: true and exempt: true in ${at}`);
  if (typeof shadow !== "boolean" || (shadow && block !== true)) throw refused(`shadow only with block in ${at}`);
  if (typeof global !== "boolean" || (global && exempt !== true))
    throw refused(`global_limit only with exempt in ${at}`);
  const amount = AMOUNT_KEYS.find((name) => fields[name] !== undefined);
  const { amounts } = fields;
  if (amount !== undefined && (amounts !== undefined || !hasAmounts(fields)))
    throw refused(`no ${amount} with use, block, exempt or amounts in ${at}`);
  if (block === true) return { kind: "block", shadow };
  if (exempt === true) return { kind: "exempt", global };
  if (use !== undefined) return { kind: "use", name: readName(use, `${at}.use`) };
  if (amounts === undefined) return { kind: "amounts", amounts: [readAmount(fields, at)] };
  const list = asList(amounts, `${at}.amounts`, 8).map((amount, i) =>
    readAmount(asRecord(amount, `${at}.amounts[${i}]`, AMOUNT_KEYS), `${at}.amounts[${i}]`),
  );
  if (list.length === 0) throw refused(`at least one of ${at}.amounts`);
  return { kind: "amounts", amounts: list };
}

function hasAmounts({ requests_per_unit: requests, amounts }: Record<string, unknown>): boolean {
  return requests !== undefined || amounts !== undefined;
}

function readAmount({ limit = "", requests_per_unit: requests, unit, burst }: Record<string, unknown>, at: string) {
  return {
    limit: readName(limit, `${at}.limit`),
    requests: asWhole(requests, `${at}.requests_per_unit`, AMOUNT_MAX),
    unit: unit === undefined ? Unit.unknown : asUnit(unit, `${at}.unit`),
    burst: burst === undefined ? undefined : asWhole(burst, `${at}.burst`, AMOUNT_MAX, 1),
  };
}

function readUntil({ until, until_seconds: seconds }: Record<string, unknown>, at: string): AskedLimit["until"] {
  if (until !== undefined && seconds !== undefined) throw refused(`either until or until_seconds in ${at}`);
  if (seconds !== undefined) return { seconds: asWhole(seconds, `${at}.until_seconds`, RUNTIME_UNTIL_SECONDS_MAX, 1) };
  if (until === undefined) return undefined;
  const ms = untilMs(until);
  if (ms === undefined) throw refused(`a time such as 2026-12-24T18:00:00Z as ${at}.until`);
  const day = missingDay(String(until));
  if (day !== undefined) throw refused(`a day that exists as ${at}.until, got ${day}`);
  return { atUs: ms * 1_000 };
}

/** An entry of a list, which shows a value that is no text next to its bytes, as PUT takes it. */
function asWritten(entry: unknown): unknown {
  if (!isRecord(entry) || entry.value_base64 === undefined || typeof entry.value !== "string") return entry;
  const { value, ...bytes } = entry;
  const isSame = Buffer.from(String(entry.value_base64), "base64").toString() === value;
  return isSame ? bytes : entry;
}

/** One-byte. */
function readName(value: unknown, at: string): string {
  const text = asText(value, at, RUNTIME_NAME_BYTES_MAX);
  return Buffer.from(text).toString("latin1");
}

/** A time with its zone, in milliseconds; undefined for anything else. */
export function untilMs(text: unknown): number | undefined {
  if (typeof text !== "string" || !/^\d{4}-\d\d-\d\dT.*(?:Z|[+-]\d\d:\d\d)$/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

function readShort(value: unknown, at: string): string {
  if (typeof value === "string" && value.length <= RUNTIME_TEXT_MAX) return value;
  throw refused(`text of at most ${RUNTIME_TEXT_MAX} characters as ${at}`);
}
