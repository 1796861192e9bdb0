// Reads the queries and JSON bodies that the guarded pages are sent: a domain and descriptors, bounded and checked
// field by field.

import type { IncomingMessage } from "node:http";
import { RequestError } from "../../base/errors.ts";
import { isRecord } from "../../base/is-record.ts";
import { nearestName } from "../../base/near-name.ts";
import { AMOUNT_MAX } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import { UNIT_NAMES, type Unit } from "../../engine/domain/limit.ts";
import { DOMAIN_BYTES_MAX, ENTRIES_MAX, textOf, type WrittenEntry } from "../../engine/domain/request.ts";
import type { AskedBuckets, AskedDescriptor } from "../../engine/limiter/bucket-admin.ts";

/** The question of `POST /explain`, in the text that people write. */
export interface ExplainQuestion {
  readonly domain: string;
  readonly descriptors: readonly (readonly WrittenEntry[])[];
}

/** Bounds of a question. They are lower than those of calls, because an answer names many rules for each entry. */
const EXPLAINED_DESCRIPTORS_MAX = 32;
const EXPLAINED_TEXT_BYTES_MAX = 4_096;

/** The keys of each object of a question. */
const EXPLAIN_KEYS = ["domain", "descriptors"];
const BUCKETS_KEYS = [...EXPLAIN_KEYS, "global_limit"];
const DESCRIPTOR_KEYS = ["entries", "limit"];
const ENTRY_KEYS = ["key", "value", "value_base64"];
/** Of an unknown key or value an error shows this much. */
const SHOWN_LENGTH_MAX = 64;
const LIMIT_KEYS = ["requests_per_unit", "unit", "unit_multiplier", "algorithm"];

/**
 * Reads the body of `POST /explain`. Throws RequestError REQUEST_BODY, which names the field, if its shape is wrong.
 * The result
 * leaves out `limit`: which rule matches does not depend on it.
 */
export function readExplainQuestion(body: Buffer): ExplainQuestion {
  const question = asRecord(parseJson(body), "the body", EXPLAIN_KEYS);
  const { domain, descriptors } = readAsked(question);
  if (descriptors.length === 0) throw refused("at least one of descriptors");
  return { domain, descriptors: descriptors.map(({ entries }) => entries) };
}

/** Reads the body of `POST /buckets/peek` and `/buckets/reset`. Throws as `readExplainQuestion` does. */
export function readBucketQuestion(body: Buffer): AskedBuckets {
  const question = asRecord(parseJson(body), "the body", BUCKETS_KEYS);
  const { domain, descriptors } = readAsked(question);
  const globalLimit = question.global_limit ?? false;
  if (typeof globalLimit !== "boolean") throw refused("true or false as global_limit");
  if (descriptors.length === 0 && !globalLimit) throw refused("at least one of descriptors, or global_limit: true");
  return { domain, globalLimit, descriptors };
}

function readOverride(value: unknown, at: string): AskedDescriptor["override"] & object {
  const limit = asRecord(value, at, LIMIT_KEYS);
  const { requests_per_unit: amount, unit, unit_multiplier: units = 1, algorithm = "" } = limit;
  return {
    amount: asWhole(amount, `${at}.requests_per_unit`, AMOUNT_MAX),
    unit: asUnit(unit, `${at}.unit`),
    units: asWhole(units, `${at}.unit_multiplier`, AMOUNT_MAX),
    algorithm: asText(algorithm, `${at}.algorithm`, SHOWN_LENGTH_MAX),
  };
}

function readAsked(question: Record<string, unknown>): { domain: string; descriptors: readonly AskedDescriptor[] } {
  const { domain } = question;
  if (typeof domain !== "string" || domain === "" || Buffer.byteLength(domain) > DOMAIN_BYTES_MAX)
    throw refused(`text of 1 to ${DOMAIN_BYTES_MAX} bytes as domain`);
  const descriptors = asList(question.descriptors ?? [], "descriptors", EXPLAINED_DESCRIPTORS_MAX).map(
    (descriptor, i): AskedDescriptor => {
      const at = `descriptors[${i}]`;
      const { entries: given, limit } = asRecord(descriptor, at, DESCRIPTOR_KEYS);
      const entries = asList(given ?? [], `${at}.entries`, ENTRIES_MAX).map((entry, j) =>
        asEntry(entry, `${at}.entries[${j}]`),
      );
      return limit === undefined ? { entries } : { entries, override: readOverride(limit, `${at}.limit`) };
    },
  );
  return { domain, descriptors };
}

export function asEntry(entry: unknown, at: string): WrittenEntry {
  const { key: givenKey, value, value_base64: base64 } = asRecord(entry, at, ENTRY_KEYS);
  const key = asText(givenKey, `${at}.key`, EXPLAINED_TEXT_BYTES_MAX);
  if (base64 === undefined) return { key, value: asText(value ?? "", `${at}.value`, EXPLAINED_TEXT_BYTES_MAX) };
  if (value !== undefined) throw refused(`either value or value_base64 in ${at}`);
  const bytes = asBytes(base64, `${at}.value_base64`, EXPLAINED_TEXT_BYTES_MAX);
  return { key, value: textOf(bytes.toString("latin1")), valueBase64: bytes.toString("base64") };
}

// Both base64 alphabets, with or without padding: proto3 JSON accepts all of these for `bytes`.
function asBytes(value: unknown, at: string, bytesMax: number): Buffer {
  const text =
    typeof value === "string"
      ? value
          .replace(/={1,2}$/, "")
          .replaceAll("-", "+")
          .replaceAll("_", "/")
      : "?";
  const bytes = Buffer.from(text, "base64");
  if (bytes.length <= bytesMax && bytes.toString("base64").replace(/=+$/, "") === text) return bytes;
  throw refused(`base64 of at most ${bytesMax} bytes as ${at}`);
}

// Bytes that are not UTF-8 are refused, as by /json: decoded with U+FFFD they would name another caller's bucket.
export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch (cause) {
    if (cause instanceof SyntaxError) throw refused("JSON in the body");
    if (cause instanceof TypeError) throw refused("a body in UTF-8; use value_base64 for other bytes");
    throw cause;
  }
}

// An unknown key is refused: the answer would be one to another question than was asked.
export function asRecord(value: unknown, at: string, keys: readonly string[]): Record<string, unknown> {
  if (!isRecord(value)) throw refused(`an object as ${at}`);
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown === undefined) return value;
  const nearest = nearestName(unknown, keys);
  const hint = nearest === undefined ? "" : `; did you mean ${nearest}?`;
  throw refused(`${keys.join(" or ")} as keys of ${at}, got '${shown(unknown)}'${hint}`);
}

export function asList(value: unknown, at: string, lengthMax: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= lengthMax) return value;
  throw refused(`a list of at most ${lengthMax} as ${at}`);
}

export function asText(value: unknown, at: string, bytesMax: number): string {
  if (typeof value === "string" && Buffer.byteLength(value) <= bytesMax) return value;
  throw refused(`text of at most ${bytesMax} bytes as ${at}`);
}

export function asWhole(value: unknown, at: string, max: number, min = 0): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= min && value <= max) return value;
  throw refused(`a whole number from ${min} to ${max} as ${at}`);
}

export function asUnit(value: unknown, at: string): Unit {
  const word = typeof value === "string" ? value.toLowerCase() : "";
  const unit = UNIT_NAMES.indexOf(word as (typeof UNIT_NAMES)[number]);
  if (unit > 0) return unit as Unit;
  throw refused(`one of ${UNIT_NAMES.slice(1).join(", ")} as ${at}`);
}

/**
 * The query of a request. An unknown key is refused: `/buckets/reset?global_limit=true` would reset less than was asked
 * for.
 */
export function readQuery({ url = "" }: IncomingMessage, keys: readonly string[]): URLSearchParams {
  const query = new URLSearchParams(url.split("?")[1] ?? "");
  const unknown = [...query.keys()].find((key) => !keys.includes(key));
  if (unknown === undefined) return query;
  throw refused(`${keys.join(" or ") || "nothing"} in the query, got '${shown(unknown)}'`);
}

/** The value of a key of a query, which must be one of `words`; undefined without the key. */
export function wordIn<const T extends string>(
  query: URLSearchParams,
  key: string,
  words: readonly T[],
): T | undefined {
  const given = query.get(key);
  const word = words.find((one) => one === given);
  if (given === null || word !== undefined) return word;
  throw refused(`${words.join(" or ")} as ${key}, got '${shown(given)}'`);
}

/**
 * A key of a query as a whole number from 1 to `max`, which is also what it is without the key unless `other` is given.
 */
export function countIn(query: URLSearchParams, key: string, max: number, other = max, least = 1): number {
  const given = query.get(key);
  const count = given === null ? other : Number(given);
  if (Number.isInteger(count) && count >= least && count <= max) return count;
  throw refused(`a whole number from ${least} to ${max} as ${key}, got '${shown(given ?? "")}'`);
}

function shown(given: string): string {
  return visible(given.slice(0, SHOWN_LENGTH_MAX));
}

export function refused(expected: string): RequestError {
  return new RequestError("REQUEST_BODY", `expected ${expected}`);
}
