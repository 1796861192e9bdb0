// Limits at run time: joins the process's table, its store and the sync of both, and answers operators.

import { RequestError } from "../../base/errors.ts";
import { type LongWork, runInTurns } from "../../base/long-work.ts";
import { durationWords, isoTime, MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../base/units.ts";
import { UNIT_NAMES, Unit } from "../../engine/domain/limit.ts";
import { oneByteOf, textOf } from "../../engine/domain/request.ts";
import {
  effectOf,
  findCaller,
  type PlannedLimit,
  planLimit,
  RuntimeConflict,
  wordsAfter,
} from "../../engine/limiter/runtime-check.ts";
import { RuntimeLimits } from "../../engine/limiter/runtime-limits.ts";
import { shownEntry } from "../../engine/rules/explain.ts";
import type { RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import {
  type AskedCaller,
  type AskedLimit,
  isInForce,
  keep,
  RUNTIME_KINDS,
  type RuntimeAmount,
  type RuntimeChange,
  type RuntimeLimit,
  readValue,
  valueText,
} from "../../engine/runtime/runtime-limit.ts";
import { RUNTIME_WRITES_MAX, type RuntimeHead, type RuntimeWritten } from "../../engine/runtime/runtime-replica.ts";
import { type RuntimeRow, RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import type { LimitCounts, LimitsSource, SetAnswer, SetLimit } from "../../operate/http/limit-pages.ts";
import { RuntimeSync } from "../../rule-sources/runtime/runtime-sync.ts";
import { memoryRuntimeStore } from "../../stores/memory/runtime-store.ts";
import type { ProcessRegister } from "../../stores/process-register.ts";
import type { RuntimeStore } from "../../stores/runtime-store.ts";
import type { AppOptions } from "./app-options.ts";
import type { StoreAside } from "./open-store.ts";
import { keyView, lastView, rowName, ruleOf, whyIdle } from "./runtime-words.ts";

/** How often other processes, or the file, are asked for a change, and how often at most: two seconds. */
const LOOK_MS = 50;
const LOOKS_MAX = 40;
/** Limits that do nothing which are described. */
const DESCRIBED_MAX = 20;

interface OpenOptions extends Pick<AppOptions, "settings" | "clock" | "logger"> {
  readonly shared: { readonly aside: StoreAside; readonly register: ProcessRegister } | undefined;
  /** Those in force. */
  readonly rules: () => RuleSet | undefined;
  /** Told why the limits are not known yet, or undefined. */
  readonly unread?: (reason: string | undefined) => void;
  /** Reports this process to the others that share the store. */
  readonly beat?: () => Promise<void>;
}

export async function openRuntimeLimits(options: OpenOptions) {
  const { settings, clock, logger, shared, unread = () => undefined } = options;
  const table = new RuntimeTable();
  const limits = new RuntimeLimits(table, clock);
  // Ended and unset ones are kept, too.
  const limitsMax = 2 * settings.runtimeLimitsMax;
  const store =
    shared === undefined ? memoryRuntimeStore(table, clock, limitsMax) : await openStore(shared.aside, limitsMax);
  const { limitsCache, memorySnapshot } = settings;
  const ofSnapshot = shared === undefined && memorySnapshot !== undefined ? `${memorySnapshot}.limits` : undefined;
  const sync = new RuntimeSync({ table, store, file: limitsCache ?? ofSnapshot, clock, log: logger, unread });
  return { limits, sync, source: new LimitsAdmin(options, limits, store, sync) };
}

/** Loads only what the store needs. */
async function openStore(aside: StoreAside, limitsMax: number): Promise<RuntimeStore> {
  if (aside.kind === "postgres") {
    const { postgresRuntimeStore } = await import("../../stores/postgres/runtime-store.ts");
    return postgresRuntimeStore(aside, limitsMax);
  }
  const { redisRuntimeStore } = await import("../../stores/redis/runtime-store.ts");
  return redisRuntimeStore(aside, limitsMax);
}

/** Changes that passed all checks, by key, each with its place among what was asked. */
type PendingLimits = Map<string, { readonly at: number; readonly plan: PlannedLimit }>;

class LimitsAdmin implements LimitsSource {
  readonly #options: OpenOptions;
  readonly #limits: RuntimeLimits;
  readonly #table: RuntimeTable;
  readonly #store: RuntimeStore;
  readonly #sync: RuntimeSync;
  #counted: Promise<LimitCounts> | undefined;
  /** What the last count was of. */
  #countedOf: readonly unknown[] = [];
  /** Those that do nothing, as of the last count. */
  idle: readonly string[] = [];

  constructor(options: OpenOptions, limits: RuntimeLimits, store: RuntimeStore, sync: RuntimeSync) {
    this.#options = options;
    this.#limits = limits;
    this.#table = limits.table;
    this.#store = store;
    this.#sync = sync;
  }

  async set(
    asked: readonly AskedLimit[],
    who: string,
    { isDry, waits }: Parameters<LimitsSource["set"]>[2],
  ): Promise<SetAnswer> {
    const results: SetLimit[] = [];
    const pending: PendingLimits = new Map();
    let head: RuntimeHead | undefined;
    for (const [at, each] of asked.entries()) {
      try {
        let plan = this.#plan(each, who);
        if (pending.size >= RUNTIME_WRITES_MAX || pending.has(plan.key)) {
          head = await this.#write(pending, results);
          // Checked after the caller's earlier change is written.
          plan = this.#plan(each, who);
        }
        if (!isDry) pending.set(plan.key, { at, plan });
        results.push({ ...shownPlan(plan), outcome: isDry ? "would be set" : "set" });
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        const { domain, entries } = each.caller;
        const outcome = error instanceof RuntimeConflict ? "conflict" : "refused";
        results.push({ domain, entries: entries.map(shownEntry), outcome, says: error.message });
      }
    }
    if (pending.size > 0) head = await this.#write(pending, results);
    if (head === undefined || !waits) return { limits: results, processes: undefined };
    return { limits: results, processes: await this.#whenInForce(head) };
  }

  /** Writes the changes, empties `pending`, and puts each outcome into `results`. */
  async #write(pending: PendingLimits, results: SetLimit[]): Promise<RuntimeHead> {
    const changes = [...pending.values()];
    pending.clear();
    const nowUs = Math.floor(this.#store.nowUs());
    const writes = changes.map(({ plan: { key, limit, row } }) => {
      const expectedUs = row?.atUs ?? 0;
      return { ...keep(key, valueText(limit), Math.max(nowUs, expectedUs + 1)), expectedUs };
    });
    const { head, written } = await this.#store.write(writes);
    for (const [i, { at }] of changes.entries()) {
      const outcome = written[i] as RuntimeWritten;
      const now = outcome.outcome === "written" ? writes[i] : outcome.outcome === "conflict" ? outcome.kept : undefined;
      if (now !== undefined) this.#table.put(now);
      results[at] = { ...(results[at] as SetLimit), ...(await this.#concluded(outcome)) };
    }
    return head;
  }

  async #concluded(written: RuntimeWritten): Promise<Partial<SetLimit>> {
    if (written.outcome === "written") return {};
    if (written.outcome === "conflict") {
      const now = written.kept && readValue(written.kept.value);
      return {
        outcome: "conflict",
        says: "somebody else changed it meanwhile",
        ...(now && { now: limitView(now) }),
      };
    }
    const { size } = this.#table;
    const { inForce: kinds } = await this.counts();
    const inForce = Object.values(kinds).reduce((sum, count) => sum + count, 0);
    const old = `${size - inForce} of the ${size} kept ended or were unset in the last 30 days and still count`;
    const says = `expected at most twice RUNTIME_LIMITS_MAX limits; ${old}; raise it in all processes`;
    return { outcome: "refused", says };
  }

  list({ domain, after, countMax, newest }: Parameters<LimitsSource["list"]>[0]) {
    const [, hash = "-1", key = ""] = /^(\d+)\.(.*)$/s.exec(after ?? "") ?? [];
    const isAfter = ([ofRow, row]: HashedRow) => ofRow > Number(hash) || (ofRow === Number(hash) && row.key > key);
    // An order that all processes have.
    const byHash: Order = ([a, one], [b, other]) => a - b || (one.key < other.key ? -1 : 1);
    const byAge: Order = ([, one], [, other]) => other.atUs - one.atUs;
    return runInTurns(
      this.#listSteps(
        countMax,
        newest ? byAge : byHash,
        (hashed) => {
          const { parts, limit } = hashed[1];
          const isWanted = domain === undefined || parts[0] === oneByteOf(domain);
          return isWanted && (limit === undefined || this.#isInForce(limit)) && (newest || isAfter(hashed));
        },
        newest,
      ),
    );
  }

  *#listSteps(
    countMax: number,
    order: Order,
    wants: (row: HashedRow) => boolean,
    isAll: boolean,
  ): LongWork<Awaited<ReturnType<LimitsSource["list"]>>> {
    let first: HashedRow[] = [];
    for (const each of this.#table.entries()) {
      yield;
      if (wants(each)) first.push(each);
      if (first.length > 2 * countMax + 2) first = first.sort(order).slice(0, countMax + 1);
    }
    first.sort(order);
    const limits = [];
    for (const [, row] of first.slice(0, countMax)) {
      limits.push(this.#view(row));
      yield;
    }
    const [hash, last] = first[countMax - 1] ?? [];
    const hasMore = first.length > countMax && !isAll;
    return { limits, next: hasMore ? `${hash}.${last?.key}` : undefined };
  }

  of(asked: AskedCaller): RuntimeLimitReport | undefined {
    const rules = this.#options.rules();
    try {
      const { row, rule } = rules === undefined ? {} : findCaller(rules, this.#limits, asked);
      return row?.limit !== undefined && this.#isInForce(row.limit)
        ? { ...this.#view(row), ...(rule && effectView(row.limit, rule)) }
        : undefined;
    } catch (error) {
      if (error instanceof RequestError) return undefined;
      throw error;
    }
  }

  /** Counted again only after a change of limits or rules, or once one has ended. */
  async counts(): Promise<LimitCounts> {
    const of = [this.#table.changes, this.#options.rules()];
    const isSame = of.every((each, i) => each === this.#countedOf[i]);
    if (this.#counted === undefined || !isSame || this.#limits.nowUs() >= (await this.#counted).untilUs) {
      this.#countedOf = of;
      this.#counted = runInTurns(this.#countSteps());
    }
    return this.#counted;
  }

  *#countSteps(): LongWork<LimitCounts> {
    const { changes } = this.#table;
    const inForce: Record<string, number> = Object.fromEntries([...RUNTIME_KINDS, "idle"].map((kind) => [kind, 0]));
    const idle: string[] = [];
    let last: RuntimeRow | undefined;
    const rules = new Set<string>();
    let untilUs = Number.POSITIVE_INFINITY;
    for (const [, row] of this.#table.entries()) {
      yield;
      const { limit, atUs } = row;
      if (atUs >= (last?.atUs ?? 0)) last = row;
      if (limit !== undefined && !this.#isInForce(limit)) continue;
      if (limit !== undefined && limit.untilUs > 0) untilUs = Math.min(untilUs, limit.untilUs);
      const effect = this.#effectOf(row);
      for (const rule of ruleOf(row, effect)) rules.add(rule);
      const why = whyIdle(effect);
      const kind = why !== undefined || limit === undefined ? "idle" : limit.change.kind;
      inForce[kind] = (inForce[kind] ?? 0) + 1;
      if (why !== undefined && idle.length < DESCRIBED_MAX) idle.push(`${rowName(row)}: ${why}`);
    }
    this.idle = idle;
    return { inForce, last: last && lastView(last), rules, changes, untilUs };
  }

  #effectOf(row: RuntimeRow): ReturnType<typeof effectOf> | undefined {
    const rules = this.#options.rules();
    return rules && effectOf(rules, this.#limits, row);
  }

  #isInForce(limit: RuntimeLimit): boolean {
    return isInForce(limit, this.#limits.nowUs());
  }

  #plan(each: AskedLimit, who: string): PlannedLimit {
    const rules = this.#options.rules();
    if (rules === undefined) throw refused("rules in force, got none; see /config");
    const nowUs = this.#limits.nowUs();
    const plan = planLimit(rules, this.#limits, each, who, nowUs);
    const { untilUs } = plan.limit;
    const { limitsUntilMaxMs } = this.#options.settings;
    if (each.change.kind === "none") return plan;
    if (each.until !== undefined && untilUs <= nowUs) throw refused("an end that is yet to come");
    if (limitsUntilMaxMs === undefined) return plan;
    const untilMaxUs = limitsUntilMaxMs * MICROS_PER_MILLI;
    if (untilUs === 0 || untilUs - nowUs > untilMaxUs)
      throw refused(`an end within the ${durationWords(untilMaxUs / MICROS_PER_SECOND)} of LIMITS_UNTIL_MAX`);
    return plan;
  }

  /** Which processes have the change, and, if a file is kept, whether it has it. */
  async #whenInForce(head: RuntimeHead): Promise<SetAnswer["processes"]> {
    const { shared, beat } = this.#options;
    // Once this process equals the store, every process with the same or a newer version has the change, even if the
    // store lost data.
    await this.#sync.poll().catch(() => undefined);
    const saved = async () => {
      for (let look = 1; !this.#sync.isSaved && look < LOOKS_MAX; look++) await sleep();
      return this.#sync.isSaved ? {} : ({ is_saved: false } as const);
    };
    if (shared === undefined) return { count: 1, confirmed: 1, waiting: [], ...(await saved()) };
    await beat?.();
    for (let look = 1; ; look++) {
      const all = (await shared.register.beat(undefined)).all.filter(({ name }) => name !== "");
      const version = Math.max(head.version, this.#sync.version);
      const waiting = all.filter((process) => process.version < version).map(({ name }) => name);
      if (waiting.length === 0 || look === LOOKS_MAX)
        return { count: all.length, confirmed: all.length - waiting.length, waiting };
      await sleep();
    }
  }

  #view(row: RuntimeRow): RuntimeLimitReport {
    const { limit, atUs } = row;
    const effect = this.#effectOf(row);
    return {
      ...keyView(row.key),
      kind: limit?.change.kind ?? "unreadable",
      ...(limit && limitView(limit)),
      set_at: isoTime(atUs),
      seen_us: atUs,
      ...(effect && "says" in effect ? { says: effect.says } : {}),
      ...(effect && "rule" in effect && limit ? effectView(limit, effect.rule) : {}),
    };
  }
}

type HashedRow = readonly [hash: number, row: RuntimeRow];
type Order = (one: HashedRow, other: HashedRow) => number;

const sleep = () => new Promise((resolve) => setTimeout(resolve, LOOK_MS));

function refused(expected: string): RequestError {
  return new RequestError("REQUEST_LIMIT", `expected ${expected}`);
}

function shownPlan({ key, limit, before, after }: PlannedLimit) {
  return { ...keyView(key), before, after, ...untilView(limit) };
}

function effectView(limit: RuntimeLimit, rule: Rule) {
  return { rule: textOf(rule.path), limits: wordsAfter(limit, rule) };
}

function untilView({ untilUs }: RuntimeLimit): { until?: string } {
  return untilUs === 0 ? {} : { until: isoTime(untilUs) };
}

/** A limit as PUT /limits takes it; `unset` after DELETE. */
function limitView(limit: RuntimeLimit): object {
  const { change, note, who } = limit;
  return { ...changeView(change), ...untilView(limit), ...(note === "" ? {} : { note }), who };
}

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
