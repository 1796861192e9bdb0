// Reads one limit: its keys choose the algorithm, and its numbers become whole amounts per window.

import { AMOUNT_MAX } from "../base/units.ts";
import {
  ALGORITHM_NAMES,
  Algorithm,
  LOG_PAYMENTS_MAX,
  ON_STORE_FAILURE_NAMES,
  type OnStoreFailure,
  SYNC_NAMES,
  Sync,
  UNIT_NAMES,
  UNIT_SECONDS,
  type Unit,
  WRITTEN_ALGORITHMS,
} from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import { readCalendar, USUAL_WINDOWS } from "./calendar.ts";
import type { LimitDraft, PlacedName } from "./draft.ts";
import {
  type Field,
  type Fields,
  readFields,
  readMappings,
  readNumber,
  readText,
  readWhole,
  readWord,
} from "./fields.ts";
import { parseWindow, type Rate, rateOfDecimal, tokensPerSecondUp, unitOfWindow } from "./limit-shape.ts";
import { checkPriority, readPriority } from "./priority.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { DEBT_BURSTS_DEFAULT, OWN_LIMIT_KEYS, RATE_KEYS, REPLACES_MAX, RETRY_AFTER_JITTER_MAX } from "./schema.ts";
import type { MappingNode, Place } from "./source.ts";
import { suggest } from "./suggest.ts";

const UNIT_WORDS = UNIT_NAMES.slice(1);
const BUCKET_KEYS = ["burst", "debt_max"];

/** The algorithm and the rate. `isByShape`: the limit names no algorithm and has no rate in tokens per second. */
function readShape(fields: Fields, log: ProblemLog) {
  const chosen = readAlgorithm(fields, log);
  const rateField = fields.firstGiven(RATE_KEYS);
  const rate = rateField === undefined ? readWindowRate(fields, log) : readTokenRate(fields, rateField, chosen, log);
  const byShape = rateField === undefined ? Algorithm.slidingWindow : Algorithm.tokenBucket;
  const algorithm = rate?.calendar === undefined ? (chosen ?? byShape) : Algorithm.calendarWindow;
  if (rate?.calendar !== undefined && chosen !== undefined && chosen !== Algorithm.fixedWindow) {
    const message = `algorithm: a window of a calendar is counted as a fixed_window, got '${ALGORITHM_NAMES[chosen]}'`;
    log.error(fields.get("algorithm")?.value.at ?? fields.at, message, "Leave 'algorithm' out.");
  }
  if (algorithm === Algorithm.slidingLog && rate !== undefined && rate.amount > LOG_PAYMENTS_MAX) {
    const message = `a sliding_log keeps the time of each hit and holds at most ${LOG_PAYMENTS_MAX}, got ${rate.amount}`;
    log.error(fields.get("requests_per_unit")?.value.at ?? fields.at, message, "Use algorithm: sliding_window.");
  }
  return { algorithm, rate, isByShape: chosen === undefined && rateField === undefined };
}

/** The algorithm that the limit names; undefined if it names none, or an unknown one. */
function readAlgorithm(fields: Fields, log: ProblemLog): Algorithm | undefined {
  const names = WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm]);
  const index = readWord(fields, "algorithm", names, log);
  return index === undefined ? undefined : WRITTEN_ALGORITHMS[index];
}

/** Reads a limit that is not unlimited; undefined if its rate has mistakes. */
export function readLimit(fields: Fields, log: ProblemLog): LimitDraft | undefined {
  const { algorithm, rate, isByShape } = readShape(fields, log);
  const name = readText(fields, "name", log) ?? "";
  const onStoreFailure = readOnStoreFailure(fields, log);
  const retryAfterJitter = readNumber(fields, "retry_after_jitter", { min: 0, max: RETRY_AFTER_JITTER_MAX }, log);
  const replaces = readReplaces(fields, name, log);
  const bucket = readBucket(fields, algorithm, rate, log);
  const sync = (readWord(fields, "sync", SYNC_NAMES, log) ?? Sync.exact) as Sync;
  const syncAt = fields.get("sync")?.keyAt ?? fields.at;
  const priority = readPriority(fields, log);
  if (rate === undefined) return undefined;
  checkPriority(priority, { quota: bucket.burst, sync, syncAt }, log);
  return {
    at: fields.at,
    name,
    nameAt: fields.get("name")?.value.at ?? fields.at,
    algorithm,
    isPlain: isByShape && fields.given("window") === undefined && sync === Sync.exact && priority === undefined,
    isConcurrent: false,
    amount: rate.amount,
    burst: bucket.burst,
    windowSeconds: rate.windowSeconds,
    keySeconds: rate.keySeconds,
    calendar: rate.calendar,
    debtMax: bucket.debtMax,
    debtMaxAt: fields.given("debt_max")?.keyAt,
    unit: rate.unit,
    retryAfterJitter,
    onStoreFailure,
    sync,
    syncAt,
    replaces,
    priority,
  };
}

/** The failure policy of a limit or a rule; undefined if it has none. */
export function readOnStoreFailure(fields: Fields, log: ProblemLog): OnStoreFailure | undefined {
  return readWord(fields, "on_store_failure", ON_STORE_FAILURE_NAMES, log) as OnStoreFailure | undefined;
}

/** The names of the limits that a limit replaces. `ownName` may not be among them. */
export function readReplaces(fields: Fields, ownName: string, log: ProblemLog): PlacedName[] {
  const names: PlacedName[] = [];
  const mappings = readMappings(fields.get("replaces"), log);
  if (mappings.length > REPLACES_MAX) {
    log.error(fields.at, `replaces: expected at most ${REPLACES_MAX} names, got ${mappings.length}`);
    return names;
  }
  for (const mapping of mappings) {
    const name = readText(readFields("replaces item", [mapping], log), "name", log) ?? "";
    if (name === "") log.error(mapping.at, "replaces: an item needs the 'name' of another limit");
    else if (name === ownName) log.error(mapping.at, `replaces: '${textOf(name)}' is the limit's own name`);
    else names.push({ name, at: mapping.at });
  }
  return names;
}

/** Checks an unlimited rule. Its `unit` may be any text but a unit. Returns its `requests_per_unit`; 0 if it has none. */
export function readUnlimited(fields: Fields, log: ProblemLog): number {
  const unit = readText(fields, "unit", log);
  const requests = readWhole(fields, "requests_per_unit", { min: 0 }, log);
  const unitAt = fields.get("unit")?.value.at ?? fields.at;
  if (unit !== undefined && UNIT_WORDS.includes(unit.toLowerCase() as (typeof UNIT_WORDS)[number])) {
    log.error(unitAt, "an unlimited rule takes no unit", "Remove 'unit', or 'unlimited'.");
  } else if (unit !== undefined && unit !== "") {
    log.warn(unitAt, `unit '${textOf(unit)}' is ignored: the rule is unlimited`);
  }
  if (requests !== undefined) {
    const at = fields.get("requests_per_unit")?.keyAt ?? fields.at;
    log.warn(at, "requests_per_unit is ignored: the rule is unlimited");
  }
  for (const name of OWN_LIMIT_KEYS) {
    const field = fields.given(name);
    if (field !== undefined) log.error(field.keyAt, `an unlimited rule takes no ${name}`, "Remove it, or 'unlimited'.");
  }
  return requests ?? 0;
}

function readTokenRate(
  fields: Fields,
  field: Field,
  algorithm: Algorithm | undefined,
  log: ProblemLog,
): Rate | undefined {
  for (const other of ["requests_per_unit", "unit", "window", "rps"]) {
    const extra = fields.given(other);
    if (extra === undefined || other === field.name) continue;
    log.error(
      extra.keyAt,
      `'${other}' can't stand beside '${field.name}', which is a rate by itself`,
      "Keep one of the two.",
    );
  }
  if (algorithm !== undefined && algorithm !== Algorithm.tokenBucket) {
    const name = ALGORITHM_NAMES[algorithm];
    log.error(
      field.keyAt,
      `'${field.name}' is the rate of a token bucket, but algorithm is ${name}`,
      `Give ${name} its requests_per_unit and unit.`,
    );
  }
  const node = field.value;
  const isNumber = node.kind === "scalar" && (node.value.type === "integer" || node.value.type === "float");
  const rate = isNumber ? rateOfDecimal(decimalText(node)) : "expected a number above 0, such as 10 or 0.5";
  if (typeof rate !== "string") return rate;
  log.error(node.at, `${field.name}: ${rate}, got ${describeSource(node)}`);
  return undefined;
}

// YAML numbers such as 0x10 and 010 are converted by value; plain decimals keep their text, which is exact.
function decimalText(node: { text: string; value: { type: string; number?: number } }): string {
  const isPlainDecimal = /^[-+]?(0|[1-9_][0-9_]*)?(\.[0-9_]*)?([eE][-+]?[0-9]+)?$/.test(node.text);
  return isPlainDecimal || node.value.type === "float" ? node.text : String(node.value.number);
}

function readWindowRate(fields: Fields, log: ProblemLog): Rate | undefined {
  const amount = readWhole(fields, "requests_per_unit", { min: 0 }, log);
  if (fields.given("requests_per_unit") === undefined && !fields.hasRefused) {
    log.warn(fields.at, "requests_per_unit is missing, which counts as 0: every hit is refused");
  }
  const window = fields.given("window");
  const unit = fields.given("unit");
  if (window !== undefined) {
    if (unit !== undefined) log.error(unit.keyAt, "'unit' can't stand beside 'window'", "Keep one of the two.");
    if (window.value.kind === "mapping") return readCalendarRate(amount ?? 0, window.value, log);
    const windowSeconds = readWindow(window, log);
    if (windowSeconds === undefined) return undefined;
    return { amount: amount ?? 0, windowSeconds, unit: unitOfWindow(windowSeconds), keySeconds: windowSeconds };
  }
  const known = readUnit(fields, log);
  if (known === undefined) return undefined;
  const windowSeconds = UNIT_SECONDS[known];
  return { amount: amount ?? 0, windowSeconds, unit: known, keySeconds: windowSeconds };
}

function readCalendarRate(amount: number, window: MappingNode, log: ProblemLog): Rate | undefined {
  const calendar = readCalendar(window, log);
  if (calendar === undefined) return undefined;
  const { unit, seconds } = USUAL_WINDOWS[calendar.unit];
  return { amount, windowSeconds: seconds, unit, keySeconds: seconds, calendar };
}

function readUnit(fields: Fields, log: ProblemLog): Unit | undefined {
  const field = fields.get("unit");
  const text = readText(fields, "unit", log) ?? "";
  const index = UNIT_WORDS.indexOf(text.toLowerCase() as (typeof UNIT_WORDS)[number]);
  if (index >= 0) return (index + 1) as Unit;
  const expected = `expected one of ${UNIT_WORDS.join(", ")}`;
  if (field === undefined || text === "") {
    const hint = "Add 'unit', or 'window: 30s', or use tokens_per_second.";
    const isMissing = field === undefined ? !fields.hasRefused : field.value.kind === "scalar";
    if (isMissing) {
      log.error(field?.value.at ?? fields.at, `unit is missing: ${expected}`, hint);
    }
  } else {
    log.error(
      field.value.at,
      `unit: ${expected}, got ${describeSource(field.value)}`,
      suggest(textOf(text), UNIT_WORDS),
    );
  }
  return undefined;
}

function readWindow(field: Field, log: ProblemLog): number | undefined {
  const seconds = field.value.kind === "scalar" ? parseWindow(field.value.text) : undefined;
  if (seconds !== undefined) return seconds;
  const isNumber = field.value.kind === "scalar" && field.value.value.type === "integer";
  log.error(
    field.value.at,
    `window: expected a whole number of s, m, h or d up to a year, such as 30s, 5m, 12h or 7d, or a calendar's, got ${describeSource(field.value)}`,
    isNumber ? "Add the letter of the unit." : undefined,
  );
  return undefined;
}

function readBucket(
  fields: Fields,
  algorithm: Algorithm,
  rate: Rate | undefined,
  log: ProblemLog,
): { burst: number; debtMax: number } {
  const amount = rate?.amount ?? 0;
  const writtenBurst = readWhole(fields, "burst", { min: 1 }, log);
  const writtenDebt = readWhole(fields, "debt_max", { min: 1 }, log);
  if (algorithm !== Algorithm.tokenBucket) {
    refuseBucketKeys(fields, algorithm, log);
    return { burst: amount, debtMax: debtDefault(amount) };
  }
  if (rate !== undefined && writtenBurst !== undefined) checkBurst(fields, writtenBurst, rate, log);
  const burst = writtenBurst ?? burstDefault(fields, rate);
  const debtMax = writtenDebt ?? debtDefault(burst);
  if (debtMax < burst) {
    log.error(placeOf(fields, "debt_max"), `debt_max: expected at least the burst of ${burst}, got ${debtMax}`);
  }
  return { burst, debtMax };
}

function refuseBucketKeys(fields: Fields, algorithm: Algorithm, log: ProblemLog): void {
  for (const name of BUCKET_KEYS) {
    const field = fields.given(name);
    if (field === undefined) continue;
    const text = `'${name}' belongs to a token bucket, but this limit is a ${ALGORITHM_NAMES[algorithm]}`;
    const isOfCalendar = algorithm === Algorithm.calendarWindow;
    log.error(
      field.keyAt,
      text,
      isOfCalendar ? "Leave it out." : "Add 'algorithm: token_bucket', or use tokens_per_second.",
    );
  }
}

function checkBurst(fields: Fields, burst: number, rate: Rate, log: ProblemLog): void {
  const at = placeOf(fields, "burst");
  if (rate.amount === 0) {
    log.error(at, "burst: a bucket of 0 per unit never refills", "Leave 'burst' out to refuse every hit.");
  } else if (burst * rate.windowSeconds < rate.amount) {
    log.error(at, `burst: expected at least the rate of ${tokensPerSecondUp(rate)} tokens per second, got ${burst}`);
  }
}

function burstDefault(fields: Fields, rate: Rate | undefined): number {
  if (fields.firstGiven(RATE_KEYS) === undefined) return rate?.amount ?? 0;
  return rate === undefined ? 1 : tokensPerSecondUp(rate);
}

function placeOf(fields: Fields, name: string): Place {
  return fields.get(name)?.value.at ?? fields.at;
}

function debtDefault(burst: number): number {
  return Math.min(burst * DEBT_BURSTS_DEFAULT, AMOUNT_MAX);
}
