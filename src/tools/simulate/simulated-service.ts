// The service without its edges: the real limiter on its own store, in virtual time. Simulations and cases decide here.

import type { Clock } from "../../base/clock.ts";
import { RequestError } from "../../base/errors.ts";
import { Counters } from "../../engine/counters/counters.ts";
import { LimitStats, type StatsBook, type ValueStatsBook } from "../../engine/domain/stats.ts";
import { LimitCall, NO_FINISHER } from "../../engine/limiter/call.ts";
import { LocalFallback } from "../../engine/limiter/failure-policy.ts";
import { Limiter } from "../../engine/limiter/limiter.ts";
import type { LimiterObserver } from "../../engine/limiter/limiter-observer.ts";
import { planLimit } from "../../engine/limiter/runtime-check.ts";
import { RuntimeLimits } from "../../engine/limiter/runtime-limits.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { type AskedLimit, keep, valueText } from "../../engine/runtime/runtime-limit.ts";
import { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import { decodeRequest } from "../../grpc/rls/codec.ts";
import { checkRequest } from "../../grpc/rls/service.ts";
import { type CountersOptions, LocalCountersFirst } from "../../stores/counters/counters-first.ts";
import { MemoryStore, type MemoryStoreOptions } from "../../stores/memory/memory-store.ts";
import { SILENT_STORE_OBSERVER } from "../../stores/store-observer.ts";

type LimiterOptions = ConstructorParameters<typeof Limiter>[0];
type Parts = "store" | "clock" | "observer" | "listener" | "fallback" | "counters" | "runtime";
type Counting = "statsBook" | "countsNothing";

/** The settings of the service that decisions depend on. */
export type DecidingSettings = Required<
  Omit<LimiterOptions, Parts | Counting> & Pick<MemoryStoreOptions, "bucketsMax" | "logBytesMax"> & CountersOptions
> & {
  /** COMPATIBILITY_MODE. */
  readonly compatible: boolean;
};

/** Nobody reads these counters: reports count calls themselves. */
const UNREAD_STATS: StatsBook & ValueStatsBook = {
  statsOf: () => new LimitStats(),
  statsOfValues: (ruleStats) => ruleStats,
};

const ignore = () => undefined;
const SILENT_OBSERVER: LimiterObserver = {
  decided: ignore,
  degraded: ignore,
  domainNotFound: ignore,
  withoutRules: ignore,
  globalShadow: ignore,
  suspectedReport: ignore,
  debtCapped: ignore,
};

/** Decides calls one after another, each at a time that the caller names. */
export class SimulatedService<Deciding extends MemoryStore> {
  #nowUs = 0;
  /** The time of a recording or a case, which is moved by hand. */
  readonly clock: Clock = { nowUs: () => this.#nowUs };
  /** The call decided last; the next call reuses it. */
  readonly call = new LimitCall(NO_FINISHER);
  /** Buckets that were dropped for lack of room before they had expired. */
  evicted = 0;
  /** Calls that the service would reject as mistakes, by the code of the error. */
  readonly rejected = new Map<string, number>();
  readonly store: Deciding;
  readonly #ruleSet: RuleSet;
  readonly #limiter: Limiter;
  readonly #limits: RuntimeLimits | undefined;

  /** `hasLimits`: there may be limits at run time. */
  constructor(
    ruleSet: RuleSet,
    settings: DecidingSettings,
    Store: new (options: MemoryStoreOptions) => Deciding,
    hasLimits = false,
  ) {
    const { clock } = this;
    this.#ruleSet = ruleSet;
    if (hasLimits) this.#limits = new RuntimeLimits(new RuntimeTable(), clock);
    const observer = {
      ...SILENT_STORE_OBSERVER,
      evicted: (buckets: number) => {
        this.evicted += buckets;
      },
    };
    const memory = { ...settings, clock, observer };
    this.store = new Store(memory);
    const { compatible } = settings;
    const withCounters = (store: MemoryStore) => (compatible ? new LocalCountersFirst(store, settings) : store);
    this.#limiter = new Limiter({
      ...settings,
      store: withCounters(this.store),
      counters: compatible ? new Counters({ ...settings, windowClock: clock, localCache: undefined }) : undefined,
      clock,
      observer: SILENT_OBSERVER,
      fallback: new LocalFallback(
        () => withCounters(new MemoryStore(memory)),
        () => 1,
      ),
      statsBook: UNREAD_STATS,
      runtime: this.#limits,
    });
    this.#limiter.useRules(ruleSet);
  }

  /**
   * Decides a RateLimitRequest at `atUs`; the outcome is in `call`. Returns the error with which the service would
   * reject it.
   */
  decide(message: Buffer, atUs: number): RequestError | undefined {
    const { call } = this;
    call.reset();
    this.#nowUs = atUs;
    try {
      decodeRequest(message, call.request);
      checkRequest(call.request);
      this.#limiter.decide(call, Number.POSITIVE_INFINITY);
      return undefined;
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      this.rejected.set(error.code, (this.rejected.get(error.code) ?? 0) + 1);
      return error;
    }
  }

  /** Number of limits at run time; undefined if there may be none. */
  get limitCount(): number | undefined {
    return this.#limits?.table.size;
  }

  /**
   * Sets a limit at run time from `nowUs` on, or unsets it. Does nothing if there may be none. Returns why it can't be.
   */
  setLimit(asked: AskedLimit | RequestError, nowUs: number): RequestError | undefined {
    if (asked instanceof RequestError) return asked;
    if (this.#limits === undefined) return undefined;
    try {
      const { key, limit, row } = planLimit(this.#ruleSet, this.#limits, asked, "", nowUs);
      this.#limits.table.put(keep(key, valueText(limit), Math.max(nowUs, (row?.atUs ?? 0) + 1)));
      return undefined;
    } catch (error) {
      if (error instanceof RequestError) return error;
      throw error;
    }
  }

  close(): Promise<void> {
    return this.store.close();
  }
}
