// Holds: how payments wait for their settlement. Reads the id of a hold from a descriptor, and whether it settles the hold; and `hold` and
// `concurrent` of a rule.

import { createHash } from "node:crypto";
import {
  ALGORITHM_NAMES,
  ALGORITHM_TRAITS,
  Algorithm,
  HOLDS_PER_BUCKET_MAX,
  SYNC_NAMES,
  Sync,
  Unit,
} from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import { readCostEntry } from "./cost.ts";
import { type LimitDraft, limitsOfDraft, type RuleDraft } from "./draft.ts";
import { type Fields, readFields, readSection, readText, readWhole } from "./fields.ts";
import { parseWindow } from "./limit-shape.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import type { DomainRules, HoldEntries } from "./rule-set.ts";
import { HOLD_SECONDS_MAX } from "./schema.ts";

/** Longer ids are replaced by `#` and their SHA-256, so that holds stay small whatever callers send. */
const ID_BYTES_MAX = 64;

/** The id of the descriptor's hold, one-byte; empty if it names none. */
export function holdIdOf(descriptor: Descriptor, { idEntry }: HoldEntries): string {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] !== idEntry) continue;
    return keptId(descriptor.values[i] as string);
  }
  return "";
}

/** The id as the store keeps it. One-byte. An id that begins with `#` is replaced too, so that it can't equal another one's hash. */
export function keptId(id: string): string {
  return id.length <= ID_BYTES_MAX && !id.startsWith("#")
    ? id
    : `#${createHash("sha256").update(id, "latin1").digest("base64url")}`;
}

/** Whether the descriptor settles a hold. */
export function isSettlement(descriptor: Descriptor, settleEntries: DomainRules["settleEntries"]): boolean {
  if (settleEntries.size === 0) return false;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (marksSettlement(descriptor.keys[i] as string, descriptor.values[i] as string, settleEntries)) return true;
  }
  return false;
}

/** Whether the entry makes its descriptor a settlement. */
export function marksSettlement(key: string, value: string, settleEntries: DomainRules["settleEntries"]): boolean {
  const values = settleEntries.get(key);
  return values !== undefined && (values.size === 0 || values.has(value));
}

/** Key of the entry that marks a settlement, unless the rule names another. */
const SETTLE_ENTRY_DEFAULT = "settle";

/** The settings of a rule about holds. */
interface HoldDraft {
  /** Undefined: payments are final. */
  readonly hold: HoldEntries | undefined;
  /** The limit of `concurrent`; undefined if there is none. */
  readonly concurrent: LimitDraft | undefined;
}

/** Reads both keys. Mistakes are reported; a key with mistakes is left out. */
export function readHold(fields: Fields, log: ProblemLog): HoldDraft {
  const hold = readEntries(fields, log);
  const concurrent = readWhole(fields, "concurrent", { min: 1, max: HOLDS_PER_BUCKET_MAX }, log);
  const field = fields.given("concurrent");
  if (field !== undefined && fields.given("hold") === undefined) {
    const hint = "Add 'hold: { id: request_id, ttl: 120s }'.";
    log.error(field.keyAt, "'concurrent' counts holds, and the rule has no 'hold'", hint);
  }
  if (hold === undefined || concurrent === undefined || field === undefined) return { hold, concurrent: undefined };
  return { hold, concurrent: concurrentLimit(concurrent, hold.seconds, field.value.at) };
}

function readEntries(fields: Fields, log: ProblemLog): HoldEntries | undefined {
  const section = readSection(fields.get("hold"), log);
  if (section === undefined) return undefined;
  const hold = readFields("hold", section, log);
  const idEntry = readText(hold, "id", log) ?? "";
  const settle = readSettle(hold, log);
  const estimate = readCostEntry("hold", hold, log);
  const seconds = readTtl(hold, log);
  if (idEntry === "" && !hold.hasRefused)
    log.error(hold.at, "hold: 'id' is missing; it names the entry that tells one hold from another");
  if (settle.entry === "") log.error(hold.get("settle")?.value.at ?? hold.at, "hold: 'settle' is empty");
  const names = [idEntry, settle.entry, ...(estimate?.entry === undefined ? [] : [estimate.entry])];
  // An entry that marks settlements by its value may carry the estimate in other calls.
  const isEstimateToo = settle.value !== undefined && settle.entry === estimate?.entry;
  if (new Set(names).size < names.length - (isEstimateToo ? 1 : 0))
    log.error(hold.at, "hold: 'id', 'estimate' and 'settle' must name different entries");
  if (seconds === undefined) return undefined;
  return { idEntry, settleEntry: settle.entry, settleValue: settle.value, estimate, seconds };
}

interface SettleMark {
  readonly entry: string;
  /** Undefined: any value. */
  readonly value: string | undefined;
}

function readSettle(hold: Fields, log: ProblemLog): SettleMark {
  const field = hold.given("settle");
  if (field?.value.kind !== "mapping")
    return { entry: readText(hold, "settle", log) ?? SETTLE_ENTRY_DEFAULT, value: undefined };
  const settle = readFields("settle", [field.value], log);
  const entry = readText(settle, "entry", log) ?? "";
  const value = readText(settle, "value", log);
  if (value === undefined && !settle.hasRefused)
    log.error(settle.at, "settle: 'value' is missing; it is what the entry says at the settlement");
  return { entry, value };
}

function readTtl(hold: Fields, log: ProblemLog): number | undefined {
  const field = hold.given("ttl");
  if (field === undefined) {
    if (!hold.hasRefused)
      log.error(hold.at, "hold: 'ttl' is missing", "Give it longer than any request takes: 'ttl: 120s'.");
    return undefined;
  }
  const seconds = field.value.kind === "scalar" ? parseWindow(field.value.text) : undefined;
  if (seconds !== undefined && seconds <= HOLD_SECONDS_MAX) return seconds;
  const expected = "a whole number of s, m or h up to a day, such as 30s, 5m or 1h";
  log.error(field.value.at, `hold: ttl: expected ${expected}, got ${describeSource(field.value)}`);
  return undefined;
}

// A token bucket with a token per place and without refill: a hold takes one token, and its end gives it back.
function concurrentLimit(places: number, seconds: number, at: LimitDraft["at"]): LimitDraft {
  return {
    at,
    name: "",
    nameAt: at,
    algorithm: Algorithm.tokenBucket,
    isPlain: false,
    isConcurrent: true,
    amount: 0,
    burst: places,
    windowSeconds: seconds,
    keySeconds: seconds,
    calendar: undefined,
    debtMax: places,
    debtMaxAt: undefined,
    unit: Unit.unknown,
    retryAfterJitter: undefined,
    onStoreFailure: undefined,
    sync: Sync.exact,
    syncAt: at,
    replaces: [],
    priority: undefined,
  };
}

/** Reports settings that a rule with `hold` can't have. */
export function checkHold(draft: RuleDraft, fields: Fields, log: ProblemLog): void {
  if (draft.hold === undefined) return;
  const refuse = (name: string, why: string, hint: string) => {
    const field = fields.given(name);
    if (field !== undefined) log.error(field.keyAt, `'${name}' can't stand beside 'hold', ${why}`, hint);
  };
  refuse(
    "cost",
    "whose 'estimate' says what a payment costs",
    "Write 'estimate', 'default', 'max' and 'per' into 'hold'.",
  );
  if (draft.isPostPaid) refuse("post_paid", "which is paid before and settled after", "Keep one of the two.");
  for (const { at, algorithm, isConcurrent, sync, syncAt } of limitsOfDraft(draft).flatMap(({ limits }) => limits)) {
    if (isConcurrent) continue;
    if (!ALGORITHM_TRAITS[algorithm].mayHold) {
      const name = ALGORITHM_NAMES[algorithm];
      const text = `a limit beside 'hold' is a token_bucket or a fixed_window, but this is a ${name}`;
      log.error(at, text, "Add 'algorithm: token_bucket'.");
    }
    if (sync !== Sync.exact) {
      const text = `sync: ${SYNC_NAMES[sync]} can't stand beside 'hold': what is held must be known to all processes`;
      log.error(syncAt, text, "Leave 'sync' out.");
    }
  }
}
