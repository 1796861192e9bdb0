// What a process publishes for the others that share its store. Anyone who can write to the store can put anything
// there, so a report is checked whole; one wrong field rejects it.

import { isRecord, readRecord } from "../../base/is-record.ts";
import type { ProcessState } from "../../operate/http/join-conditions.ts";
import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type { TopWindow } from "../../operate/telemetry/top/top-keys.ts";

/** Reports of another form are ignored. */
export const REPORT_FORM = 1;

/** The report. */
export interface ProcessReport extends ProcessState {
  readonly form: typeof REPORT_FORM;
  readonly name: string;
  readonly version: string;
  /** Null if it counts none: TOP_KEYS is 0. */
  readonly top: Readonly<Record<TopWindow, TopSummary>> | null;
}

/** Empty if the text is not a valid report of this form. */
export function readReport(text: string): ProcessReport[] {
  const report: unknown = readRecord(text);
  return isReport(report) ? [report as ProcessReport] : [];
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string";
const isNumber: Check = Number.isSafeInteger;
const isOneOf =
  (...values: readonly unknown[]): Check =>
  (value) =>
    values.includes(value);
const isEither =
  (...checks: readonly Check[]): Check =>
  (value) =>
    checks.some((check) => check(value));
const isOptional = (check: Check) => isEither(isOneOf(undefined), check);
const isNullable = (check: Check) => isEither(isOneOf(null), check);
const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const isObject =
  (fields: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isRecord(value) && Object.entries(fields).every(([name, check]) => check(value[name]));

const isBetween = isObject({ least: isNumber, most: isNumber });
const isRow = isObject({
  domain: isText,
  rule: isText,
  limit: isText,
  text: isObject({
    key: isText,
    entries: isOptional(isListOf(isObject({ key: isText, value: isText }))),
    isBlocked: isOptional(isOneOf(true)),
  }),
  asked: isBetween,
  refused: isBetween,
  refusedSinceUs: isNullable(isNumber),
  lastRefusedUs: isNullable(isNumber),
  trend: isOptional(isListOf(isNumber)),
});
const isSummary = isObject({
  fromUs: isNumber,
  rows: isListOf(isRow),
  restAsked: isNumber,
  restRefused: isNumber,
  asked: isNumber,
  refused: isNumber,
});
const isCondition = isObject({
  id: isText,
  severity: isOneOf("critical", "warning"),
  says: isText,
  count: isOptional(isNumber),
  causedBy: isOptional(isText),
  advice: isText,
  see: isText,
  details: isOptional(isListOf(isText)),
  calls: isOptional(
    isListOf(isObject({ cause: isText, last_hour: isNumber, last_day: isNumber, first_at: isText, last_at: isText })),
  ),
  sinceUs: isNumber,
});
const isReport = isObject({
  form: isOneOf(REPORT_FORM),
  name: isText,
  version: isText,
  conditions: isListOf(isCondition),
  rules: isObject({ hash: isNullable(isText), loadedAtUs: isOptional(isNumber) }),
  top: isNullable(isObject({ minute: isSummary, hour: isSummary })),
});
