// The service without its edges: the real limiter on its own store, in virtual time. Simulations and cases decide here.

import type { OnStoreFailure } from "../../engine/domain/limit.ts";
import { LimitStats, type StatsBook, type ValueStatsBook } from "../../engine/domain/limit-stats.ts";
import { LimitCall } from "../../engine/limiter/call.ts";
import { Limiter } from "../../engine/limiter/limiter.ts";
import { LocalFallback } from "../../engine/limiter/local-fallback.ts";
import type { LimiterObserver } from "../../engine/limiter/observer.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { checkRequest } from "../../grpc/rls/service.ts";
import { MemoryStore, type MemoryStoreOptions } from "../../stores/memory/memory-store.ts";
import type { Store } from "../../stores/store.ts";
import { SILENT_STORE_OBSERVER } from "../../stores/store-observer.ts";
import { fillRequest, type RecordedQuestion } from "./question.ts";
import { VirtualClock } from "./virtual-clock.ts";

/** The settings of the service that decisions depend on. */
export interface DecidingSettings {
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  readonly onStoreFailure: OnStoreFailure;
  readonly retryAfterJitter: number;
  readonly nearLimitRatio: number;
  readonly compatible: boolean;
  readonly stopsAtOver: boolean;
  /** Most buckets in memory; with more, the bucket that expires first is dropped. */
  readonly bucketsMax: number;
  /** Most bytes of sliding logs. */
  readonly logBytesMax: number;
}

interface VirtualServiceOptions {
  readonly ruleSet: RuleSet;
  readonly settings: DecidingSettings;
  /** Default: a memory store with these options. Must settle every group before `take` returns. */
  readonly openStore?: (options: MemoryStoreOptions) => Store;
}

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
  suspectedLateReport: ignore,
  debtCapped: ignore,
};

/** Decides calls one after another, each at a time that the caller names. */
export class SimulatedService {
  readonly clock = new VirtualClock();
  /** The call decided last; the next call reuses it. */
  readonly call = new LimitCall({ finish: ignore });
  /** Buckets that were dropped for lack of room before they had expired. */
  evicted = 0;
  readonly #limiter: Limiter;
  readonly #store: Store;

  constructor({ ruleSet, settings, openStore }: VirtualServiceOptions) {
    const { clock } = this;
    const observer = {
      ...SILENT_STORE_OBSERVER,
      evicted: (buckets: number) => {
        this.evicted += buckets;
      },
    };
    const memory = { ...settings, clock, observer };
    const openMemory = () => new MemoryStore(memory);
    this.#store = openStore?.(memory) ?? openMemory();
    this.#limiter = new Limiter({
      ...settings,
      store: this.#store,
      clock,
      observer: SILENT_OBSERVER,
      fallback: new LocalFallback(openMemory, () => 1),
      statsBook: UNREAD_STATS,
    });
    this.#limiter.useRules(ruleSet);
  }

  /** Decides the question at `atUs`. The outcome is in `call`. Throws RequestError as the service would answer one. */
  decide(question: RecordedQuestion["question"], atUs: number): void {
    const { call } = this;
    call.reset();
    this.clock.setUs(atUs);
    fillRequest(question, call.request);
    checkRequest(call.request);
    this.#limiter.decide(call, Number.POSITIVE_INFINITY);
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}
