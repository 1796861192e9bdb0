// Holds: how payments wait for their settlement. Reads the id of a hold from a descriptor, and `hold` and `concurrent`
// of a rule.

import { createHash } from "../../base/host.ts";
import { ALGORITHM_NAMES, ALGORITHM_TRAITS, Algorithm, HOLDS_PER_BUCKET_MAX, Sync, Unit } from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import { readCostEntry } from "./cost.ts";
import { type LimitDraft, limitsOfDraft, type RuleDraft } from "./draft.ts";
import { Fields } from "./fields.ts";
import { parseWindow } from "./limit-shape.ts";
import { refuseSync } from "./read-limit.ts";
import type { HoldEntries } from "./rule-set.ts";
import { HOLD_SECONDS_MAX } from "./schema.ts";

/** Longer ids are replaced by `#` and their SHA-256, so that holds stay small whatever callers send. */
const ID_BYTES_MAX = 64;

/** The id of the descriptor's hold, one-byte; empty if it names none. */
export function holdIdOf(descriptor: Descriptor, { idEntry }: HoldEntries): string {
  return keptId(descriptor.value(idEntry) ?? "");
}

/**
 * The id as the store keeps it. One-byte. An id that begins with `#` is replaced too, so that it can't equal the hash
 * of another.
 */
export function keptId(id: string): string {
  return id.length <= ID_BYTES_MAX && !id.startsWith("#")
    ? id
    : `#${createHash("sha256").update(id, "latin1").digest("base64url")}`;
}

/** Key of the entry that marks a settlement, unless the rule names another. */
const SETTLE_ENTRY_DEFAULT = "settle";

/**
 * Reads `hold`, and `concurrent` as a limit. Mistakes are reported; a key with mistakes is left out. Without `hold`,
 * payments are final.
 */
export function readHold(fields: Fields) {
  const hold = readEntries(fields.section("hold", "hold"));
  const concurrent = fields.whole("concurrent", 1, HOLDS_PER_BUCKET_MAX);
  if (fields.given("hold") === undefined) {
    const hint = "Add 'hold: { id: request_id, ttl: 120s }'.";
    fields.refuse("concurrent", "'concurrent' counts holds, and the rule has no 'hold'", hint);
  }
  if (hold === undefined || concurrent === undefined) return { hold, concurrent: undefined };
  return { hold, concurrent: concurrentLimit(concurrent, hold.seconds, fields.valueAt("concurrent")) };
}

function readEntries(hold: Fields | undefined): HoldEntries | undefined {
  if (hold === undefined) return undefined;
  const idEntry = hold.text("id") ?? "";
  const { settleEntry, settleValue } = readSettle(hold);
  const estimate = readCostEntry("hold", hold);
  const seconds = readTtl(hold);
  if (idEntry === "") hold.missing("hold: 'id' is missing; it names the entry that identifies a hold");
  if (settleEntry === "") hold.log.error(hold.valueAt("settle"), "hold: 'settle' is empty");
  const names = [idEntry, settleEntry, ...(estimate?.entry === undefined ? [] : [estimate.entry])];
  // An entry that marks settlements by its value may carry the estimate in other calls.
  const isEstimateToo = settleValue !== undefined && settleEntry === estimate?.entry;
  if (new Set(names).size < names.length - (isEstimateToo ? 1 : 0))
    hold.log.error(hold.at, "hold: 'id', 'estimate' and 'settle' must name different entries");
  return seconds === undefined ? undefined : { idEntry, settleEntry, settleValue, estimate, seconds };
}

function readSettle(hold: Fields): Pick<HoldEntries, "settleEntry" | "settleValue"> {
  const value = hold.given("settle")?.value;
  if (value?.kind !== "mapping")
    return { settleEntry: hold.text("settle") ?? SETTLE_ENTRY_DEFAULT, settleValue: undefined };
  const settle = new Fields("settle", [value], hold.log);
  const settleEntry = settle.text("entry") ?? "";
  const settleValue = settle.text("value");
  if (settleValue === undefined) settle.missing("settle: 'value' is missing; it is the entry's value in a settlement");
  return { settleEntry, settleValue };
}

function readTtl(hold: Fields): number | undefined {
  const value = hold.given("ttl")?.value;
  if (value === undefined)
    return hold.missing("hold: 'ttl' is missing", "Choose a time longer than any request takes: 'ttl: 120s'.");
  const seconds = value.kind === "scalar" ? parseWindow(value.text) : undefined;
  if (seconds !== undefined && seconds <= HOLD_SECONDS_MAX) return seconds;
  return hold.log.wrong(value, "hold: ttl: expected a whole number of s, m or h up to a day, such as 30s, 5m or 1h");
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
export function checkHold(draft: RuleDraft, fields: Fields): void {
  if (draft.hold === undefined) return;
  const { log } = fields;
  const costSays = "'cost' can't be combined with 'hold', whose 'estimate' gives the cost";
  fields.refuse("cost", costSays, "Use 'estimate', 'default', 'max' and 'per' in 'hold'.");
  const reportSays = "'post_paid' can't be combined with 'hold', which pays before a request and settles after it";
  if (draft.isPostPaid) fields.refuse("post_paid", reportSays, "Keep one of the two.");
  const givenSays = "'charge_given_hits' can't be combined with 'hold', whose settlements say what was used";
  if (draft.chargesGivenHits) fields.refuse("charge_given_hits", givenSays, "Keep one of the two.");
  for (const limit of limitsOfDraft(draft).flatMap(({ limits }) => limits)) {
    const { at, algorithm, isConcurrent } = limit;
    if (isConcurrent) continue;
    if (!ALGORITHM_TRAITS[algorithm].mayHold) {
      const name = ALGORITHM_NAMES[algorithm];
      const text = `'hold' needs a token_bucket or a fixed_window, but this limit is a ${name}`;
      log.error(at, text, "Add 'algorithm: token_bucket'.");
    }
    refuseSync(limit, "with 'hold': all processes must know what is held", log);
  }
}
