// Finds the differences between two answers to one call. Pure; differences.ts counts them.

import { type AnswerHeader, type AnswerLimit, secondsOf, type TargetAnswer } from "./answer.ts";

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
 * One difference between two answers. Values are those of the answers, undefined if an answer has none. `true` stands
 * for metadata that only one answer has.
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

/** Most differing headers, and differing values of metadata, that are reported of one call. */
const PATHS_MAX = 20;
const WHOLE_CALL = -1;

/**
 * All differences between the answers; empty if they are equal. Differences that follow from others are left out: if
 * only one is an error, nothing else is compared, and if limits differ, neither remaining nor reset is.
 */
export function compareAnswers(answering: TargetAnswer, compared: TargetAnswer, options: CompareOptions): Difference[] {
  const found: Difference[] = [];
  const [left, right] = [factsOf(answering), factsOf(compared)];
  /** Places of facts that differ, or that say nothing because of one that does. */
  const differing = new Set<string>();
  for (const [place, { field, descriptor, path, unless }] of new Map([...left, ...right])) {
    if (options.ignore.some((ignored) => ignored === field)) continue;
    const [one, other] = [left.get(place)?.value, right.get(place)?.value];
    const saysNothing = differing.has(unless);
    if (!saysNothing && isSame(path === "" ? field : path, one, other, options)) continue;
    differing.add(place);
    const isFlood = path !== "" && found.filter((difference) => difference.field === field).length >= PATHS_MAX;
    if (!saysNothing && !isFlood) found.push({ field, descriptor, path, answering: one, compared: other });
  }
  return found;
}

/** One value of an answer. */
interface Fact extends Pick<Difference, "field" | "descriptor" | "path"> {
  readonly value: unknown;
  /** The place of another fact: if that differs, this one is not compared. */
  readonly unless: string;
}

/** All that is compared of an answer, by places that are the same in other answers. */
function factsOf(answer: TargetAnswer): Map<string, Fact> {
  const facts = new Map<string, Fact>();
  const add = (field: DifferenceField, value: unknown, more: Partial<Fact> = {}) => {
    const { descriptor = WHOLE_CALL, path = "", unless = error } = more;
    const place = `${field} ${descriptor} ${path}`;
    facts.set(place, { field, descriptor, path, value, unless });
    return place;
  };
  let error = "";
  error = add("grpc_code", answer.grpcCode);
  add("overall_code", answer.overall_code);
  const count = add("status_count", answer.statuses.length);
  answer.statuses.forEach((status, descriptor) => {
    add("status_code", status.code, { descriptor, unless: count });
    const limit = add("limit", limitText(status.current_limit), { descriptor, unless: count });
    add("remaining", status.limit_remaining, { descriptor, unless: limit });
    add("duration", secondsOf(status.duration_until_reset), { descriptor, unless: limit });
  });
  for (const [name, value] of byName(answer.response_headers_to_add)) {
    add("headers", value, { path: `response ${name}` });
  }
  for (const [name, value] of byName(answer.request_headers_to_add)) add("headers", value, { path: `request ${name}` });
  const { dynamic_metadata: metadata } = answer;
  const unless = add("metadata", metadata !== undefined || undefined);
  const leaves = metadata === undefined ? [] : leavesOf(metadata);
  for (const [path, value] of leaves) add("metadata", value, { path, unless });
  add("body", answer.raw_body === "" ? undefined : Buffer.from(answer.raw_body, "base64").toString("latin1"));
  return facts;
}

/** The limit as text, such as `per-user 10/MINUTE`; "no limit" for undefined. */
export function limitText(limit: AnswerLimit | undefined): string {
  if (limit === undefined) return "no limit";
  return `${limit.name === "" ? "" : `${limit.name} `}${limit.requests_per_unit}/${limit.unit}`;
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

// All values without members, by paths such as `deep."a.b".list[1]`. Empty objects and lists inside are leaves, too.
function leavesOf(root: object): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  const visitAll = (values: object, path: string): void => {
    for (const [key, value] of Object.entries(values)) {
      const name = /^[\w-]+$/.test(key) ? key : JSON.stringify(key);
      const inside = Array.isArray(values) ? `${path}[${key}]` : `${path}${path === "" ? "" : "."}${name}`;
      if (typeof value !== "object" || value === null) leaves.set(inside, value);
      else if (Object.keys(value).length === 0) leaves.set(inside, JSON.stringify(value));
      else visitAll(value, inside);
    }
  };
  visitAll(root, "");
  return leaves;
}

// The structured header contains remaining and reset: `"name";r=87;t=1`.
const STRUCTURED = /^(".*");r=(\d{1,15});t=(\d{1,15})$/;

// Headers and metadata repeat remaining and reset under other names; the tolerances apply to them too.
function isSame(name: string, a: unknown, b: unknown, options: CompareOptions): boolean {
  if (Object.is(a, b)) return true;
  const [left, right] = [STRUCTURED.exec(String(a)), STRUCTURED.exec(String(b))];
  if (left !== null && right !== null) {
    const isNearAt = (i: number, what: Tolerated) => isNear(what, Number(left[i]), Number(right[i]), options);
    return left[1] === right[1] && isNearAt(2, "remaining") && isNearAt(3, "duration");
  }
  const isDuration = /(?:duration|reset|reset_seconds|retry-after|retry_after|wait)$/i.test(name);
  const what = /remaining$/i.test(name) ? "remaining" : isDuration ? "duration" : undefined;
  return what !== undefined && isNear(what, numberOf(a), numberOf(b), options);
}

type Tolerated = "remaining" | "duration";

function isNear(what: Tolerated, a: number | undefined, b: number | undefined, options: CompareOptions): boolean {
  if (a === undefined || b === undefined) return false;
  const tolerance = what === "remaining" ? options.remainingTolerance : options.durationTolerance / 1_000;
  return options.ignore.includes(what) || Math.abs(a - b) <= tolerance;
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === "number") return value;
  return typeof value === "string" && /^\d{1,15}(?:\.\d+)?$/.test(value) ? Number(value) : undefined;
}
