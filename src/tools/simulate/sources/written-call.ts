// A call as a JSON object, from the decision log or written by hand: the body of POST /json, and the time. Further
// fields, such as the decision, are ignored.

import { isRecord } from "../../../base/is-record.ts";
import { AMOUNT_MAX } from "../../../base/units.ts";
import { UNIT_NAMES } from "../../../engine/domain/limit.ts";
import type { RecordedCall } from "../../mirror/read-recording.ts";
import { askedEntry, type CallDescriptor, messageOf } from "../question.ts";
import { NoCall } from "./mapping.ts";
import { timeOfCall } from "./time-of-call.ts";

/** Names of the units in proto3 JSON, by wire number. */
const UNITS: readonly string[] = UNIT_NAMES.map((name) => name.toUpperCase());

/** The largest uint64 that is a number. The decision log writes what callers sent. */
const HITS_MAX = 2 ** 64 - 2_048;

type Json = Readonly<Record<string, unknown>>;

/** True for an object that looks like such a call. */
export function looksWritten(object: Json): boolean {
  return typeof object.domain === "string" && Array.isArray(object.descriptors) && Object.hasOwn(object, "at");
}

/** Reads the call. Throws NoCall if it is not one. */
export function readWrittenCall(object: Json): RecordedCall {
  const { at, domain, descriptors } = object;
  const atUs = timeOfCall(at);
  if (atUs === undefined) throw new NoCall(`expected a time in 'at', found ${JSON.stringify(at) ?? "nothing"}`);
  if (!looksWritten(object)) throw new NoCall("expected 'domain' and a list of 'descriptors'");
  const message = messageOf({
    domain: domain as string,
    descriptors: (descriptors as readonly unknown[]).map(readDescriptor),
    hitsAddend: Math.min(hitsIn(object) ?? 0, AMOUNT_MAX),
  });
  return { atUs, message };
}

function readDescriptor(value: unknown): CallDescriptor {
  if (!isRecord(value) || !Array.isArray(value.entries)) throw new NoCall("expected 'entries' in each descriptor");
  return {
    entries: value.entries.map(readEntry),
    hits: hitsIn(value),
    isRefund: either(value, "is_negative_hits", "isNegativeHits") === true,
    override: overrideOf(value.limit),
  };
}

function readEntry(entry: unknown): CallDescriptor["entries"][number] {
  if (!isRecord(entry) || typeof entry.key !== "string") throw new NoCall("expected a 'key' in each entry");
  const { key, value_base64: base64 } = entry;
  const value = entry.value ?? "";
  if (typeof value !== "string") throw new NoCall(`expected text as 'value', got ${typeof value}`);
  return askedEntry({ key, value, ...(typeof base64 === "string" && { valueBase64: base64 }) });
}

function overrideOf(value: unknown): CallDescriptor["override"] {
  if (!isRecord(value)) return undefined;
  const amount = Math.min(hitsOf(either(value, "requests_per_unit", "requestsPerUnit")) ?? 0, AMOUNT_MAX);
  const { unit } = value;
  const units = hitsOf(either(value, "unit_multiplier", "unitMultiplier"));
  return {
    amount,
    unit: Math.max(0, typeof unit === "number" ? Math.trunc(unit) : UNITS.indexOf(String(unit))),
    ...(units === undefined ? {} : { units: Math.min(units, AMOUNT_MAX) }),
    ...(typeof value.algorithm === "string" && { algorithm: value.algorithm }),
  };
}

function hitsOf(value: unknown): number | undefined {
  const hits = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof hits === "number" && Number.isInteger(hits) && hits >= 0 ? Math.min(hits, HITS_MAX) : undefined;
}

/** The hits of a call or a descriptor; undefined if it has none of its own. */
function hitsIn(object: Json): number | undefined {
  const given = either(object, "hits_addend", "hitsAddend") ?? undefined;
  const hits = hitsOf(given);
  if (given !== undefined && hits === undefined) {
    throw new NoCall("expected a whole number of at least 0 as 'hits_addend'");
  }
  return hits;
}

function either(object: Json, one: string, other: string): unknown {
  return object[one] ?? object[other];
}
