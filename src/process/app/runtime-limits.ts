// Limits at run time: joins the process's table, its store and the sync of both, and answers operators.

import { RequestError } from "../../engine/base/errors.ts";
import { type LongWork, runInTurns } from "../../engine/base/long-work.ts";
import { durationWords, isoTime, MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { UNIT_NAMES, Unit } from "../../engine/domain/limit.ts";
import { base64Unless, textOf, type WrittenEntry } from "../../engine/domain/request.ts";
import {
  type FoundCaller,
  findCaller,
  isHiddenKey,
  type PlannedLimit,
  planLimit,
  wordsAfter,
} from "../../engine/limiter/runtime-check.ts";
import { RuntimeLimits } from "../../engine/limiter/runtime-limits.ts";
import { shownEntry } from "../../engine/rules/explain.ts";
import type { RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import {
  type AskedCaller,
  type AskedLimit,
  isInForce,
  type KeptLimit,
  keyText,
  type RuntimeAmount,
  type RuntimeChange,
  type RuntimeKey,
  type RuntimeLimit,
  readKey,
  readValue,
  valueText,
} from "../../engine/runtime/runtime-limit.ts";
import { newRuntimeTable, RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type {
  LimitCounts,
  LimitsAnswer,
  LimitsQuery,
  LimitsSource,
  SetAnswer,
  SetHow,
  SetLimit,
} from "../../operate/http/limit-pages.ts";
import { confirmed, RuntimeSync, writeThrough } from "../../rule-sources/runtime/runtime-sync.ts";
import { memoryRuntimeStore } from "../../stores/memory/runtime-store.ts";
import {
  RUNTIME_WRITES_MAX,
  type RuntimeHead,
  type RuntimeStore,
  type RuntimeWritten,
} from "../../stores/runtime-store.ts";
import type { AppOptions } from "./app-options.ts";
import { INSTANCE } from "./peers.ts";
import { RuntimeCounts } from "./runtime-counts.ts";

/** How often a change that waits for its file is looked at. */
const LOOK_MS = 20;
/** Looks for the file: two seconds. */
const LOOKS_MAX = 100;

/** `shared` is the store that processes share, if there is one; `rules` are those in force. */
export function openRuntimeLimits(
  { settings, clock, logger }: Pick<AppOptions, "settings" | "clock" | "logger">,
  shared: RuntimeStore | undefined,
  rules: () => RuleSet | undefined,
  register?: ConstructorParameters<typeof RuntimeSync>[0]["register"],
) {
  const table = new RuntimeTable(newRuntimeTable(settings.runtimeLimitsMax), 1);
  const limits = new RuntimeLimits(table, clock);
  const { limitsCache, memorySnapshot, limitsUntilMaxMs } = settings;
  const besides = shared === undefined && memorySnapshot !== undefined ? `${memorySnapshot}.limits` : undefined;
  const file = limitsCache ?? besides;
  const sync = new RuntimeSync({ table, store: shared, file, clock, log: logger, name: INSTANCE, register });
  const source = new LimitsAdmin({
    table,
    limits,
    store: shared ?? memoryRuntimeStore(table, clock),
    shared,
    untilMaxUs: limitsUntilMaxMs === undefined ? undefined : limitsUntilMaxMs * MICROS_PER_MILLI,
    rules,
  });
  return { limits, source, sync };
}

const HIDDEN_RULE = "its value is hidden, so it is not known whether a rule for exactly this value matches";

interface LimitsAdminOptions {
  readonly table: RuntimeTable;
  readonly limits: RuntimeLimits;
  readonly store: Pick<RuntimeStore, "write" | "history">;
  /** The same store if other processes share it. */
  readonly shared: RuntimeStore | undefined;
  /** LIMITS_UNTIL_MAX; undefined: limits need no end. */
  readonly untilMaxUs: number | undefined;
  readonly rules: () => RuleSet | undefined;
}

/** Changes that passed all checks, by key, each with its place among what was asked. */
type PendingLimits = Map<string, { readonly at: number; readonly change: PlannedLimit }>;

class LimitsAdmin implements LimitsSource {
  readonly #options: LimitsAdminOptions;
  readonly #counts: RuntimeCounts;

  constructor(options: LimitsAdminOptions) {
    this.#options = options;
    this.#counts = new RuntimeCounts(options.table);
  }

  async set(asked: readonly AskedLimit[], who: string, { isDry, waits }: SetHow): Promise<SetAnswer> {
    const results: SetLimit[] = [];
    const pending: PendingLimits = new Map();
    let head: RuntimeHead | undefined;
    for (const [at, each] of asked.entries()) {
      try {
        let change = this.#check(each, who);
        const key = keyText(change.caller.key);
        if (pending.size >= RUNTIME_WRITES_MAX || pending.has(key)) {
          head = await this.#write(pending, results);
          // Checked after the caller's earlier change is written.
          change = this.#check(each, who);
        }
        if (!isDry) pending.set(key, { at, change });
        results.push({ ...this.#shown(change), outcome: isDry ? "would be set" : "set" });
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        results.push({
          domain: each.caller.domain,
          entries: each.caller.entries.map(shownEntry),
          outcome: "refused",
          says: error.message,
        });
      }
    }
    if (pending.size > 0) head = await this.#write(pending, results);
    if (head === undefined || !waits) return { limits: results, processes: undefined };
    return { limits: results, processes: await this.#whenInForce(head) };
  }

  /** Writes the changes, empties `pending`, and puts each outcome into `results`. */
  async #write(pending: PendingLimits, results: SetLimit[]): Promise<RuntimeHead> {
    const changes = [...pending];
    pending.clear();
    const writes = changes.map(([key, { change }]) => {
      return { key, value: valueText(change.limit), expectedUs: change.known?.atUs ?? 0, atUs: undefined };
    });
    const { head, written } = await writeThrough(this.#options, writes);
    const full = written.some(({ outcome }) => outcome === "full") ? await this.#fullWords() : "";
    for (const [i, [, { at }]] of changes.entries())
      results[at] = this.#concluded(results[at] as SetLimit, written[i], full);
    return head;
  }

  list(query: LimitsQuery): Promise<LimitsAnswer> {
    return runInTurns(query.newest ? this.#newestSteps(query) : this.#listSteps(query));
  }

  *#newestSteps({ domain, countMax }: LimitsQuery): LongWork<LimitsAnswer> {
    const { table } = this.#options;
    const { generation } = table;
    const shown: object[] = [];
    for (const place of [...table.places()].reverse()) {
      yield;
      if (generation !== table.generation) throw refused("limits that stay where they are meanwhile; ask again");
      if (shown.length >= countMax) break;
      const view = table.isCurrent(place) ? this.#viewAt(place, domain) : undefined;
      if (view !== undefined) shown.push(view);
    }
    return { limits: shown, next: undefined };
  }

  *#listSteps({ domain, after, countMax }: LimitsQuery): LongWork<LimitsAnswer> {
    const { table } = this.#options;
    const { limitsMax } = table.shared;
    const [ofMax = limitsMax, from = 0] = after?.split(".").map(Number) ?? [];
    if (ofMax !== limitsMax) throw refused("`next` of a process with the same RUNTIME_LIMITS_MAX");
    const shown: object[] = [];
    for (let next: number | undefined = from; next !== undefined; ) {
      if (shown.length >= countMax) return { limits: shown, next: `${limitsMax}.${next}` };
      const part = table.part(next);
      for (const place of part.places) {
        const view = this.#viewAt(place, domain);
        if (view !== undefined) shown.push(view);
      }
      ({ next } = part);
      yield;
    }
    return { limits: shown, next: undefined };
  }

  /** What is in force of the limit at a place; undefined if it is not in force, or of another domain. */
  #viewAt(place: number, domain: string | undefined): RuntimeLimitReport | undefined {
    const kept = this.#options.table.kept(place);
    const key = readKey(kept.key);
    if (key === undefined || (domain !== undefined && textOf(key.domain) !== domain)) return undefined;
    const entries = key.entries.map(writtenEntry);
    return this.#view({ key, rule: this.#found({ domain: textOf(key.domain), entries })?.rule }, kept);
  }

  async history(asked: AskedCaller, countMax: number): Promise<readonly object[]> {
    const { store } = this.#options;
    const { key } = findCaller(this.#rules(), asked);
    const events = await store.history(keyText(key), countMax);
    return events.map(({ kept: { value, atUs }, before }) => ({
      at: isoTime(atUs),
      ...limitView(readValue(value)),
      ...(before === "" ? {} : { before: limitView(readValue(before)) }),
    }));
  }

  of(asked: AskedCaller): RuntimeLimitReport | undefined {
    const caller = this.#found(asked);
    const kept = caller && this.#options.table.get(caller.key);
    return kept && this.#view(caller, kept);
  }

  counts(): Promise<LimitCounts> {
    return this.#counts.at(this.#options.limits.nowUs());
  }

  /** Undefined without rules, or if no rule can have a limit for the caller. */
  #found(asked: AskedCaller): FoundCaller | undefined {
    const rules = this.#options.rules();
    try {
      return rules && findCaller(rules, asked);
    } catch (error) {
      if (error instanceof RequestError) return undefined;
      throw error;
    }
  }

  #rules(): RuleSet {
    const rules = this.#options.rules();
    if (rules === undefined) throw refused("rules in force, got none; see /config");
    return rules;
  }

  #check(each: AskedLimit, who: string): PlannedLimit {
    const { table, limits, untilMaxUs } = this.#options;
    const nowUs = limits.nowUs();
    const planned = planLimit(this.#rules(), table, each, who, nowUs);
    const { untilUs } = planned.limit;
    if (each.change.kind === "none") return planned;
    // Keeps room for changes on their way to the store, and for unsetting some.
    if (!table.hasRoomFor(2 * RUNTIME_WRITES_MAX, planned.caller.key, valueText(planned.limit)))
      throw refused("room in memory; shorten notes, unset some, or raise RUNTIME_LIMITS_MAX");
    if (each.until !== undefined && untilUs <= nowUs) throw refused("an end that is yet to come");
    if (untilMaxUs !== undefined && (untilUs === 0 || untilUs - nowUs > untilMaxUs))
      throw refused(`an end within the ${durationWords(untilMaxUs / MICROS_PER_SECOND)} of LIMITS_UNTIL_MAX`);
    return planned;
  }

  #shown({ caller, limit, before, after }: PlannedLimit) {
    return { ...keyView(caller.key), before, after, ...untilView(limit) };
  }

  async #fullWords(): Promise<string> {
    const { size } = this.#options.table;
    const inForce = Object.values((await this.counts()).inForce).reduce((sum, count) => sum + count, 0);
    const old = `${size - inForce} of the ${size} kept ended or were unset in the last 30 days and still count`;
    return `expected at most twice RUNTIME_LIMITS_MAX limits; ${old}; raise it in all processes`;
  }

  #concluded(asked: SetLimit, written: RuntimeWritten | undefined, full: string): SetLimit {
    if (written?.outcome === "written") return asked;
    if (written?.outcome === "full") return { ...asked, outcome: "refused", says: full };
    const now = written?.kept === undefined ? undefined : readValue(written.kept.value);
    return {
      ...asked,
      outcome: "conflict",
      says: "somebody else has changed it meanwhile",
      now: limitView(now),
    };
  }

  /** Which processes have the change, and, if a file is kept, whether it has it. */
  async #whenInForce(head: RuntimeHead): Promise<SetAnswer["processes"]> {
    const { shared, table } = this.#options;
    if (shared !== undefined) {
      const { all, waiting } = await confirmed(shared, head);
      return { count: all.length, confirmed: all.length - waiting.length, waiting: waiting.map(({ name }) => name) };
    }
    const { changes } = table;
    for (let look = 0; table.savedChanges < changes && look < LOOKS_MAX; look++)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    return { count: 1, confirmed: 1, waiting: [], ...(table.savedChanges < changes ? { is_saved: false } : {}) };
  }

  /** What is in force of a limit; undefined if it was unset or has ended. */
  #view({ key, rule }: FoundCaller, { value, atUs }: KeptLimit): RuntimeLimitReport | undefined {
    const limit = readValue(value);
    if (limit === undefined || !isInForce(limit, this.#options.limits.nowUs())) return undefined;
    return {
      ...keyView(key),
      kind: limit.change.kind,
      ...limitView(limit),
      set_at: isoTime(atUs),
      seen_us: atUs,
      ...(rule === undefined
        ? { says: isHiddenKey(key) ? HIDDEN_RULE : "no rule with limits matches, so it does nothing" }
        : { rule: textOf(rule.path), limits: wordsAfter(limit, rule) }),
    };
  }
}

function refused(expected: string): RequestError {
  return new RequestError("REQUEST_LIMIT", `expected ${expected}`);
}

function keyView({ domain, entries }: RuntimeKey) {
  return { domain: textOf(domain), entries: entries.map(writtenEntry).map(shownEntry) };
}

function writtenEntry([key, value]: readonly [string, string]): WrittenEntry {
  const valueBase64 = base64Unless(value);
  const entry = { key: textOf(key), value: textOf(value) };
  return valueBase64 === undefined ? entry : { ...entry, valueBase64 };
}

function untilView({ untilUs }: RuntimeLimit): { until?: string } {
  return untilUs === 0 ? {} : { until: isoTime(untilUs) };
}

/** The change as PUT /limits takes it; `unset` after DELETE. */
function changeView(change: RuntimeChange): object {
  switch (change.kind) {
    case "amounts":
      return { amounts: change.amounts.map(amountView) };
    case "use":
      return { use: textOf(change.name) };
    case "block":
      return { block: true, ...(change.shadow ? { shadow: true } : {}) };
    case "exempt":
      return { exempt: true, ...(change.global ? { global_limit: true } : {}) };
    case "none":
      return { unset: true };
  }
}

function amountView({ limit, requests, unit, burst }: RuntimeAmount): object {
  return {
    ...(limit === "" ? {} : { limit: textOf(limit) }),
    requests_per_unit: requests,
    ...(unit === Unit.unknown ? {} : { unit: UNIT_NAMES[unit] }),
    ...(burst === undefined ? {} : { burst }),
  };
}

/** A limit as the pages show it. */
function limitView(limit: RuntimeLimit | undefined): object {
  if (limit === undefined) return {};
  const { change, note, who } = limit;
  return { ...changeView(change), ...untilView(limit), ...(note === "" ? {} : { note }), who };
}
