// A call as a JSON object, from the decision log or written by hand: the body of POST /json, and the time. Further fields, such
// as the decision, are ignored.

import { isRecord } from "../../../engine/base/is-record.ts";
import { AMOUNT_MAX } from "../../../engine/base/units.ts";
import { UNIT_NAMES } from "../../../engine/domain/limit.ts";
import { oneByteOf, oneByteValueOf } from "../../../engine/domain/request.ts";
import type { AskedDescriptor, RecordedQuestion } from "../question.ts";
import { NoCall } from "./mapping.ts";
import { timeOfCall } from "./time-of-call.ts";

/** Names of the units in proto3 JSON, by wire number. */
const UNITS: readonly string[] = UNIT_NAMES.map((name) => name.toUpperCase());

/** The wire's uint64, as a number. The decision log writes what callers sent. */
const HITS_MAX = 2 ** 64;

type Json = Readonly<Record<string, unknown>>;

/** True for an object that looks like such a call. */
export function looksWritten(object: Json): boolean {
  return typeof object.domain === "string" && Array.isArray(object.descriptors) && Object.hasOwn(object, "at");
}

/** Reads the call, or says why it is none. */
export function readWrittenCall(object: Json): RecordedQuestion | NoCall {
  const atUs = timeOfCall(object.at);
  if (atUs === undefined) return new NoCall(`expected a time in 'at', found ${JSON.stringify(object.at) ?? "nothing"}`);
  if (!looksWritten(object)) return new NoCall("expected 'domain' and a list of 'descriptors'");
  const descriptors = (object.descriptors as readonly unknown[]).map(readDescriptor);
  const bad = descriptors.find((descriptor) => descriptor instanceof NoCall);
  if (bad !== undefined) return bad as NoCall;
  if (!areHits(either(object, "hits_addend", "hitsAddend"))) return NO_HITS;
  return {
    atUs,
    question: {
      domain: oneByteOf(object.domain as string),
      descriptors: descriptors as AskedDescriptor[],
      hitsAddend: Math.min(hitsOf(either(object, "hits_addend", "hitsAddend")) ?? 0, AMOUNT_MAX),
    },
  };
}

function readDescriptor(value: unknown): AskedDescriptor | NoCall {
  if (!isRecord(value) || !Array.isArray(value.entries)) return new NoCall("expected 'entries' in each descriptor");
  const entries: [string, string][] = [];
  for (const entry of value.entries as readonly unknown[]) {
    if (!isRecord(entry) || typeof entry.key !== "string") return new NoCall("expected a 'key' in each entry");
    if (typeof (entry.value ?? "") !== "string")
      return new NoCall(`expected text as 'value', got ${typeof entry.value}`);
    const text = typeof entry.value === "string" ? entry.value : "";
    const valueBase64 = typeof entry.value_base64 === "string" ? { valueBase64: entry.value_base64 } : {};
    entries.push([oneByteOf(entry.key), oneByteValueOf({ key: entry.key, value: text, ...valueBase64 })]);
  }
  if (!areHits(either(value, "hits_addend", "hitsAddend"))) return NO_HITS;
  return {
    entries,
    hits: hitsOf(either(value, "hits_addend", "hitsAddend")),
    isRefund: either(value, "is_negative_hits", "isNegativeHits") === true,
    override: overrideOf(value.limit),
  };
}

function overrideOf(value: unknown): AskedDescriptor["override"] {
  if (!isRecord(value)) return undefined;
  const amount = Math.min(hitsOf(either(value, "requests_per_unit", "requestsPerUnit")) ?? 0, AMOUNT_MAX);
  const { unit } = value;
  return { amount, unit: typeof unit === "number" ? unit : Math.max(0, UNITS.indexOf(String(unit))) };
}

function hitsOf(value: unknown): number | undefined {
  const hits = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof hits === "number" && Number.isInteger(hits) && hits >= 0 && hits <= HITS_MAX ? hits : undefined;
}

/** Whether the value is a number of hits, or absent. */
function areHits(value: unknown): boolean {
  return (value ?? undefined) === undefined || hitsOf(value) !== undefined;
}

const NO_HITS = new NoCall("expected a whole number of at least 0 as 'hits_addend'");

function either(object: Json, one: string, other: string): unknown {
  return object[one] ?? object[other];
}
