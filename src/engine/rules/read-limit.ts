// Reads one limit: its keys choose the algorithm, and its numbers become whole amounts per window.

import { AMOUNT_MAX } from "../../base/units.ts";
import {
  ALGORITHM_NAMES,
  Algorithm,
  LOG_PAYMENTS_MAX,
  ON_STORE_FAILURE_NAMES,
  type OnStoreFailure,
  RETRY_AFTER_JITTER_MAX,
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
import { type Field, Fields } from "./fields.ts";
import { checkGuarantee, readGuarantee } from "./guarantee.ts";
import {
  parseWindow,
  type Rate,
  rateOfDecimal,
  tokensPerSecondUp,
  unitOfWindow,
  wholeRateNear,
} from "./limit-shape.ts";
import { warnUnsafe } from "./names.ts";
import { readPriority, warnNoReserve } from "./priority.ts";
import type { ProblemLog } from "./problems.ts";
import { DEBT_BURSTS_DEFAULT, OWN_LIMIT_KEYS, RATE_KEYS, REPLACES_MAX } from "./schema.ts";
import type { ScalarNode } from "./source.ts";
import { suggestionFor } from "./suggest.ts";

const UNIT_WORDS: readonly string[] = UNIT_NAMES.slice(1);

/** Reads a limit that is not unlimited; undefined if its rate has mistakes. */
export function readLimit(fields: Fields): LimitDraft | undefined {
  const { algorithm, rate, isByShape } = readShape(fields);
  const name = readName(fields);
  const onStoreFailure = readOnStoreFailure(fields);
  const retryAfterJitter = fields.number("retry_after_jitter", 0, RETRY_AFTER_JITTER_MAX);
  const replaces = readReplaces(fields, name);
  const { burst, debtMax } = readBucket(fields, algorithm, rate);
  const sync = (fields.word("sync", SYNC_NAMES) ?? Sync.exact) as Sync;
  const priority = readPriority(fields);
  const guarantee = readGuarantee(fields, (own, field) => readTokenRate(own, field, undefined));
  if (rate === undefined) return undefined;
  const draft: LimitDraft = {
    ...rate,
    at: fields.at,
    name,
    nameAt: fields.valueAt("name"),
    algorithm,
    isPlain: isByShape && fields.given("window") === undefined && sync === Sync.exact && priority === undefined,
    isConcurrent: false,
    burst,
    debtMax,
    debtMaxAt: fields.given("debt_max")?.keyAt,
    retryAfterJitter,
    onStoreFailure,
    sync,
    syncAt: fields.keyAt("sync"),
    replaces,
    priority,
    guarantee,
  };
  if (priority !== undefined) {
    refuseSync(draft, "with 'priority': all processes must know what is left", fields.log);
    warnNoReserve(priority, burst, fields.log);
  }
  if (guarantee !== undefined) {
    refuseSync(draft, "with 'guarantee': all processes must know what is left", fields.log);
    checkGuarantee(draft, guarantee, fields.log);
  }
  return draft;
}

/** The algorithm and the rate. `isByShape`: the limit names no algorithm and has no rate in tokens per second. */
function readShape(fields: Fields) {
  const { log } = fields;
  const names = WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm]);
  const chosen = WRITTEN_ALGORITHMS[fields.word("algorithm", names) ?? -1];
  const rateField = fields.firstGiven(RATE_KEYS);
  const rate = rateField === undefined ? readWindowRate(fields) : readTokenRate(fields, rateField, chosen);
  const byShape = rateField === undefined ? Algorithm.slidingWindow : Algorithm.tokenBucket;
  const algorithm = rate?.calendar === undefined ? (chosen ?? byShape) : Algorithm.calendarWindow;
  if (rate?.calendar !== undefined && chosen !== undefined && chosen !== Algorithm.fixedWindow) {
    const message = `algorithm: a calendar window is always a fixed_window, got '${ALGORITHM_NAMES[chosen]}'`;
    log.error(fields.valueAt("algorithm"), message, "Remove 'algorithm'.");
  }
  if (algorithm === Algorithm.slidingLog && rate !== undefined && rate.amount > LOG_PAYMENTS_MAX) {
    const message = `a sliding_log keeps the time of each hit: expected at most ${LOG_PAYMENTS_MAX} hits, got ${rate.amount}`;
    log.error(fields.valueAt("requests_per_unit"), message, "Use algorithm: sliding_window.");
  }
  return { algorithm, rate, isByShape: chosen === undefined && rateField === undefined };
}

/** The limit's name; empty if it has none. */
function readName(fields: Fields): string {
  const name = fields.text("name") ?? "";
  warnUnsafe(name, fields.valueAt("name"), fields.log);
  return name;
}

/** The failure policy of a limit or a rule; undefined if it has none. */
export function readOnStoreFailure(fields: Fields): OnStoreFailure | undefined {
  return fields.word("on_store_failure", ON_STORE_FAILURE_NAMES) as OnStoreFailure | undefined;
}

/** Reports a `sync` where limits must be exact. `why` ends the sentence. */
export function refuseSync({ sync, syncAt }: Pick<LimitDraft, "sync" | "syncAt">, why: string, log: ProblemLog): void {
  if (sync !== Sync.exact) log.error(syncAt, `sync: ${SYNC_NAMES[sync]} can't be used ${why}`, "Remove 'sync'.");
}

/** The names of the limits that a limit replaces. `ownName` may not be among them. */
function readReplaces(fields: Fields, ownName: string): PlacedName[] {
  const { log } = fields;
  const names: PlacedName[] = [];
  const mappings = fields.mappings("replaces");
  if (mappings.length > REPLACES_MAX) {
    log.error(fields.at, `replaces: expected at most ${REPLACES_MAX} names, got ${mappings.length}`);
    return names;
  }
  for (const mapping of mappings) {
    const name = new Fields("replaces item", [mapping], log).text("name") ?? "";
    if (name === "") log.error(mapping.at, "replaces: an item needs the 'name' of another limit");
    else if (name === ownName) log.error(mapping.at, `replaces: '${textOf(name)}' is the limit's own name`);
    else names.push({ name, at: mapping.at });
  }
  return names;
}

/** Reads an unlimited rule. Its `unit` may be any text but a unit; `requests` is 0 without `requests_per_unit`. */
export function readUnlimited(fields: Fields) {
  const { log } = fields;
  const name = readName(fields);
  const replaces = readReplaces(fields, name);
  const unit = fields.text("unit") ?? "";
  const requests = fields.whole("requests_per_unit", 0);
  if (UNIT_WORDS.includes(unit.toLowerCase())) {
    log.error(fields.valueAt("unit"), "an unlimited rule can't have 'unit'", "Remove 'unit' or 'unlimited'.");
  } else if (unit !== "") {
    log.warn(fields.valueAt("unit"), `unit '${textOf(unit)}' is ignored: the rule is unlimited`);
  }
  if (requests !== undefined)
    log.warn(fields.keyAt("requests_per_unit"), "requests_per_unit is ignored: the rule is unlimited");
  for (const name of OWN_LIMIT_KEYS)
    fields.refuse(name, `an unlimited rule can't have '${name}'`, `Remove '${name}' or 'unlimited'.`);
  return { name, replaces, requests: requests ?? 0 };
}

function readTokenRate(fields: Fields, field: Field, algorithm: Algorithm | undefined): Rate | undefined {
  const { log } = fields;
  for (const other of ["requests_per_unit", "unit", "window", "rps"]) {
    const message = `'${other}' can't be combined with '${field.name}', which is already a rate`;
    if (other !== field.name) fields.refuse(other, message, "Keep one of the two.");
  }
  if (algorithm !== undefined && algorithm !== Algorithm.tokenBucket) {
    const name = ALGORITHM_NAMES[algorithm];
    const message = `'${field.name}' is the rate of a token bucket, but the algorithm is ${name}`;
    log.error(field.keyAt, message, `Give ${name} its requests_per_unit and unit.`);
  }
  const node = field.value;
  const isNumber = node.kind === "scalar" && (node.value.type === "integer" || node.value.type === "float");
  const rate = isNumber ? rateOfDecimal(decimalText(node)) : "expected a number above 0, such as 10 or 0.5";
  if (typeof rate !== "string") return rate;
  const near = isNumber && node.value.type === "float" ? wholeRateNear(node.value.number) : undefined;
  const hint =
    near && `Write requests_per_unit: ${near.amount}, unit: ${UNIT_NAMES[near.unit]}, algorithm: token_bucket.`;
  return log.wrong(node, `${field.name}: ${rate}`, hint);
}

// YAML numbers such as 0x10 and 010 are converted by value; plain decimals keep their text, which is exact.
function decimalText({ text, value }: ScalarNode): string {
  const isPlainDecimal = /^[-+]?(0|[1-9_][0-9_]*)?(\.[0-9_]*)?([eE][-+]?[0-9]+)?$/.test(text);
  return isPlainDecimal || value.type !== "integer" ? text : String(value.number);
}

function readWindowRate(fields: Fields): Rate | undefined {
  const { log } = fields;
  const amount = fields.whole("requests_per_unit", 0) ?? 0;
  if (fields.given("requests_per_unit") === undefined && !fields.hasRefused) {
    log.warn(fields.at, "requests_per_unit is missing and defaults to 0: every hit is refused");
  }
  const window = fields.given("window");
  if (window === undefined) {
    const unit = readUnit(fields);
    return unit === undefined ? undefined : rateOf(amount, UNIT_SECONDS[unit], unit);
  }
  fields.refuse("unit", "'unit' can't be combined with 'window'", "Keep one of the two.");
  if (window.value.kind === "mapping") {
    const calendar = readCalendar(window.value, log);
    if (calendar === undefined) return undefined;
    const { unit, seconds } = USUAL_WINDOWS[calendar.unit];
    return { ...rateOf(amount, seconds, unit), calendar };
  }
  const seconds = readWindow(window, fields);
  return seconds === undefined ? undefined : rateOf(amount, seconds, unitOfWindow(seconds));
}

function rateOf(amount: number, windowSeconds: number, unit: Unit): Rate {
  return { amount, windowSeconds, unit, keySeconds: windowSeconds };
}

function readUnit(fields: Fields): Unit | undefined {
  const field = fields.get("unit");
  const text = fields.text("unit") ?? "";
  const index = UNIT_WORDS.indexOf(text.toLowerCase());
  if (index >= 0) return (index + 1) as Unit;
  const expected = `expected one of ${UNIT_WORDS.join(", ")}`;
  if (field !== undefined && text !== "") {
    fields.log.wrong(field.value, `unit: ${expected}`, suggestionFor(textOf(text), UNIT_WORDS));
  } else if (field === undefined ? !fields.hasRefused : field.value.kind === "scalar") {
    const hint = "Add 'unit', or 'window: 30s', or use tokens_per_second.";
    fields.log.error(fields.valueAt("unit"), `unit is missing: ${expected}`, hint);
  }
  return undefined;
}

function readWindow({ value }: Field, { log }: Fields): number | undefined {
  const seconds = value.kind === "scalar" ? parseWindow(value.text) : undefined;
  if (seconds !== undefined) return seconds;
  const isNumber = value.kind === "scalar" && value.value.type === "integer";
  const message =
    "window: expected a whole number of s, m, h or d up to a year, such as 30s, 5m, 12h or 7d, or a mapping with 'calendar'";
  return log.wrong(value, message, isNumber ? "Add the unit's letter." : undefined);
}

function readBucket(
  fields: Fields,
  algorithm: Algorithm,
  rate: Rate | undefined,
): Pick<LimitDraft, "burst" | "debtMax"> {
  const amount = rate?.amount ?? 0;
  const writtenBurst = fields.whole("burst", 1);
  const writtenDebt = fields.whole("debt_max", 1);
  if (algorithm !== Algorithm.tokenBucket) {
    refuseBucketKeys(fields, algorithm);
    return { burst: amount, debtMax: debtDefault(amount) };
  }
  if (rate !== undefined && writtenBurst !== undefined) checkBurst(fields, writtenBurst, rate);
  const burst = writtenBurst ?? burstDefault(fields, rate);
  const debtMax = writtenDebt ?? debtDefault(burst);
  if (debtMax < burst) {
    const message = `debt_max: expected at least the burst of ${burst}, got ${debtMax}`;
    fields.log.error(fields.valueAt("debt_max"), message);
  }
  return { burst, debtMax };
}

function refuseBucketKeys(fields: Fields, algorithm: Algorithm): void {
  const isOfCalendar = algorithm === Algorithm.calendarWindow;
  const hint = isOfCalendar ? "Remove it." : "Add 'algorithm: token_bucket', or use tokens_per_second.";
  const says = `is for a token_bucket, but this limit is a ${ALGORITHM_NAMES[algorithm]}`;
  for (const name of ["burst", "debt_max"]) fields.refuse(name, `'${name}' ${says}`, hint);
}

function checkBurst(fields: Fields, burst: number, rate: Rate): void {
  const at = fields.valueAt("burst");
  if (rate.amount === 0) {
    const message = "burst: a bucket of 0 per unit never refills";
    fields.log.error(at, message, "Remove 'burst' to refuse every hit.");
  } else if (burst * rate.windowSeconds < rate.amount) {
    const message = `burst: expected at least the rate of ${tokensPerSecondUp(rate)} tokens per second, got ${burst}`;
    fields.log.error(at, message);
  }
}

function burstDefault(fields: Fields, rate: Rate | undefined): number {
  if (fields.firstGiven(RATE_KEYS) === undefined) return rate?.amount ?? 0;
  return rate === undefined ? 1 : tokensPerSecondUp(rate);
}

function debtDefault(burst: number): number {
  return Math.min(burst * DEBT_BURSTS_DEFAULT, AMOUNT_MAX);
}
