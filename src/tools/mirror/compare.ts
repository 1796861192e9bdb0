// Finds the differences between two answers to one call. Pure; differences.ts counts them.

import { plainStruct } from "../../grpc/transport/plain-struct.ts";
import type { AnswerHeader, AnswerLimit, AnswerStatus, TargetAnswer } from "./answer.ts";

/** The fields that are compared, as reports, metrics and `--ignore` name them. */
export const DIFFERENCE_FIELDS = [
  "grpc_code",
  "overall_code",
  "status_count",
  "status_code",
  "limit",
  "remaining",
  "duration",
  "headers",
  "metadata",
  "body",
] as const;
export type DifferenceField = (typeof DIFFERENCE_FIELDS)[number];

/** The fields that `--ignore` may exclude. */
export const IGNORABLE_FIELDS = ["metadata", "headers", "remaining", "duration"] as const;
type IgnorableField = (typeof IGNORABLE_FIELDS)[number];

export interface CompareOptions {
  readonly ignore: readonly IgnorableField[];
  /** Largest difference of `limit_remaining` that counts as equal. */
  readonly remainingTolerance: number;
  /** Largest difference of `duration_until_reset` that counts as equal, in milliseconds. */
  readonly durationTolerance: number;
}

/**
 * One difference between two answers. Values are those of the answers, undefined if an answer has none; of bodies, and if only
 * one answer has metadata, `true`.
 */
export interface Difference {
  readonly field: DifferenceField;
  /** Index of the descriptor; -1 for the answer as a whole. */
  readonly descriptor: number;
  /** Side and name of the header, or path in the metadata; empty for other fields. */
  readonly path: string;
  readonly answering: unknown;
  readonly compared: unknown;
}

/** Most header names, or differing metadata paths, that are reported of one answer. */
const PATHS_MAX = 20;
const WHOLE_CALL = -1;

/**
 * All differences between the answers; empty if they are equal. Differences that follow from others are left out: if only one is an
 * error, nothing else is compared, and if limits differ, neither remaining nor reset is.
 */
export function compareAnswers(answering: TargetAnswer, compared: TargetAnswer, options: CompareOptions): Difference[] {
  const found: Difference[] = [];
  const add: Add = (field, descriptor, a, b, path = "") =>
    found.push({ field, descriptor, path, answering: a, compared: b });
  if (answering.grpcCode !== compared.grpcCode) {
    add("grpc_code", WHOLE_CALL, answering.grpcCode, compared.grpcCode);
    return found;
  }
  const [code, otherCode] = [answering.overall_code, compared.overall_code];
  if (code !== otherCode) add("overall_code", WHOLE_CALL, code, otherCode);
  if (answering.statuses.length !== compared.statuses.length) {
    add("status_count", WHOLE_CALL, answering.statuses.length, compared.statuses.length);
  } else {
    answering.statuses.forEach((status, i) => {
      compareStatuses(status, compared.statuses[i] as AnswerStatus, i, options, add);
    });
  }
  if (!options.ignore.includes("headers")) {
    compareHeaders(answering.response_headers_to_add, compared.response_headers_to_add, "response", options, add);
    compareHeaders(answering.request_headers_to_add, compared.request_headers_to_add, "request", options, add);
  }
  if (!options.ignore.includes("metadata"))
    compareMetadata(answering.dynamic_metadata, compared.dynamic_metadata, options, add);
  if (!answering.raw_body.equals(compared.raw_body)) {
    add("body", WHOLE_CALL, answering.raw_body.length > 0 || undefined, compared.raw_body.length > 0 || undefined);
  }
  return found;
}

type Add = (field: DifferenceField, descriptor: number, answering: unknown, compared: unknown, path?: string) => void;

function compareStatuses(
  a: AnswerStatus,
  b: AnswerStatus,
  descriptor: number,
  options: CompareOptions,
  add: Add,
): void {
  if (a.code !== b.code) add("status_code", descriptor, a.code, b.code);
  const [limit, otherLimit] = [limitText(a.current_limit), limitText(b.current_limit)];
  if (limit !== otherLimit) {
    add("limit", descriptor, limit, otherLimit);
    return;
  }
  const [left, otherLeft] = [a.limit_remaining, b.limit_remaining];
  if (!isNear("remaining", left, otherLeft, options)) add("remaining", descriptor, left, otherLeft);
  const [reset, otherReset] = [secondsOf(a.duration_until_reset), secondsOf(b.duration_until_reset)];
  if (!isNear("duration", reset, otherReset, options)) add("duration", descriptor, reset, otherReset);
}

/** The limit as text, such as `per-user 10/MINUTE`; "no limit" for null. */
export function limitText(limit: AnswerLimit | null | undefined): string {
  if (limit === null || limit === undefined) return "no limit";
  return `${limit.name === "" ? "" : `${limit.name} `}${limit.requests_per_unit}/${limit.unit}`;
}

function secondsOf(duration: AnswerStatus["duration_until_reset"]): number | undefined {
  return duration === null ? undefined : Number(duration.seconds) + duration.nanos / 1e9;
}

function isNear(
  what: "remaining" | "duration",
  a: number | undefined,
  b: number | undefined,
  options: CompareOptions,
): boolean {
  if (options.ignore.includes(what)) return true;
  if (a === undefined || b === undefined) return a === b;
  const tolerance = what === "remaining" ? options.remainingTolerance : options.durationTolerance / 1_000;
  return Math.abs(a - b) <= tolerance;
}

function compareHeaders(
  a: readonly AnswerHeader[],
  b: readonly AnswerHeader[],
  side: string,
  options: CompareOptions,
  add: Add,
): void {
  const left = byName(a);
  const right = byName(b);
  for (const name of [...new Set([...left.keys(), ...right.keys()])].slice(0, PATHS_MAX)) {
    const one = left.get(name);
    const other = right.get(name);
    if (isSameLeaf(name, one, other, options) || isSameStructured(one, other, options)) continue;
    add("headers", WHOLE_CALL, one, other, `${side} ${name}`);
  }
}

// The structured header contains remaining and reset: `"name";r=87;t=1`.
const STRUCTURED = /^(".*");r=(\d{1,15});t=(\d{1,15})$/;

function isSameStructured(a: string | undefined, b: string | undefined, options: CompareOptions): boolean {
  const left = STRUCTURED.exec(a ?? "");
  const right = STRUCTURED.exec(b ?? "");
  if (left === null || right === null || left[1] !== right[1]) return false;
  const isNearAt = (what: "remaining" | "duration", i: number) =>
    isNear(what, Number(left[i]), Number(right[i]), options);
  return isNearAt("remaining", 2) && isNearAt("duration", 3);
}

// Header names are case-insensitive, and one header may be sent in several parts.
function byName(headers: readonly AnswerHeader[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const { key, value } of headers) {
    const name = key.toLowerCase();
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return values;
}

type Metadata = TargetAnswer["dynamic_metadata"];

function compareMetadata(a: Metadata, b: Metadata, options: CompareOptions, add: Add): void {
  if (a === null || b === null) {
    if (a !== b) add("metadata", WHOLE_CALL, a !== null || undefined, b !== null || undefined);
    return;
  }
  const left = leavesOf(plainStruct(a));
  const right = leavesOf(plainStruct(b));
  let count = 0;
  for (const [place, { path }] of new Map([...left, ...right])) {
    const one = left.get(place)?.value;
    const other = right.get(place)?.value;
    if (isSameLeaf(path, one, other, options)) continue;
    add("metadata", WHOLE_CALL, one, other, path);
    if (++count === PATHS_MAX) return;
  }
}

interface Leaf {
  /** For people: a key with a dot reads like two keys. */
  readonly path: string;
  readonly value: unknown;
}

// All values without members, by a place that tells lists from objects and keys from paths. Empty objects and lists are leaves too.
function leavesOf(root: unknown): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>();
  const visit = (value: unknown, path: string, place: string): void => {
    if (value === undefined) return;
    if (typeof value !== "object" || value === null) {
      leaves.set(place, { path, value });
      return;
    }
    const inside = `${place}${Array.isArray(value) ? "[" : "{"}`;
    const inner = Object.entries(value);
    for (const [key, child] of inner) visit(child, path === "" ? key : `${path}.${key}`, inside + JSON.stringify(key));
    if (inner.length === 0) leaves.set(inside, { path, value: JSON.stringify(value) });
  };
  visit(root, "", "");
  return leaves;
}

// Headers and metadata repeat remaining and reset under other names; the tolerances apply to them too.
function isSameLeaf(name: string, a: unknown, b: unknown, options: CompareOptions): boolean {
  if (Object.is(a, b)) return true;
  const what = /remaining$/i.test(name)
    ? "remaining"
    : /(?:reset|reset_seconds|retry-after|retry_after|wait)$/i.test(name)
      ? "duration"
      : undefined;
  const left = numberOf(a);
  const right = numberOf(b);
  return what !== undefined && left !== undefined && right !== undefined && isNear(what, left, right, options);
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^\d{1,15}(?:\.\d+)?$/.test(value) ? Number(value) : undefined;
}
