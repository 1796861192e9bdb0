// A limiter with rules from text, a store in a test's hands and time moved by hand.

import type { StoreError } from "../../src/base/errors.ts";
import { runThrough } from "../../src/base/long-work.ts";
import { Counters } from "../../src/engine/counters/counters.ts";
import { LocalCache } from "../../src/engine/counters/local-cache.ts";
import { type OnStoreFailure, OnStoreFailure as Policy } from "../../src/engine/domain/limit.ts";
import { type LimitRequest, oneByteOf } from "../../src/engine/domain/request.ts";
import {
  type LimitStats,
  LimitStats as Stats,
  type StatsBook,
  type ValueStatsBook,
} from "../../src/engine/domain/stats.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { Verdict } from "../../src/engine/domain/take.ts";
import { type CallFinisher, LimitCall } from "../../src/engine/limiter/call.ts";
import { LocalFallback } from "../../src/engine/limiter/failure-policy.ts";
import { Limiter } from "../../src/engine/limiter/limiter.ts";
import type { CallListener, LimiterObserver } from "../../src/engine/limiter/limiter-observer.ts";
import { RuntimeLimits } from "../../src/engine/limiter/runtime-limits.ts";
import { keep, keyText, type RuntimeChange, valueText } from "../../src/engine/runtime/runtime-limit.ts";
import { RuntimeTable } from "../../src/engine/runtime/runtime-table.ts";
import { DomainBook } from "../../src/operate/telemetry/domain-book.ts";
import { CountersFirst, LocalCountersFirst } from "../../src/stores/counters/counters-first.ts";
import { ManualClock } from "./manual-clock.ts";
import { rulesFromYaml } from "./rules.ts";
import { ScriptedStore } from "./scripted-store.ts";

/** A descriptor as tests write it: entries, and what else it carries. */
export interface AskedDescriptor {
  readonly entries: Readonly<Record<string, string>>;
  readonly hits?: number;
  readonly refund?: boolean;
  readonly override?: { readonly amount: number; readonly unit: number };
}

/** What a call came to, copied out of the pooled call. */
export interface Answer {
  readonly over: boolean;
  readonly statuses: readonly {
    readonly over: boolean;
    readonly limit: string | undefined;
    readonly amount: number | undefined;
    readonly remaining: number;
    readonly reset: number | undefined;
  }[];
  readonly governing: string | undefined;
  readonly policy: OnStoreFailure | undefined;
  readonly failure: string | undefined;
  readonly wasShadowed: boolean;
}

export class CountingStatsBook implements StatsBook, ValueStatsBook {
  readonly stats = new Map<string, LimitStats>();
  readonly #owners = new Map<LimitStats, { readonly domain: string; readonly limit: string }>();

  statsOf(domain: string, path: readonly string[], limit: string): LimitStats {
    const key = [domain, ...path, limit].join("|");
    const known = this.stats.get(key) ?? new Stats();
    this.stats.set(key, known);
    this.#owners.set(known, { domain, limit });
    return known;
  }

  statsOfValues(ruleStats: LimitStats, path: readonly string[]): LimitStats {
    const { domain = "", limit = "" } = this.#owners.get(ruleStats) ?? {};
    return this.statsOf(domain, path, limit);
  }
}

export class RecordingObserver implements LimiterObserver {
  readonly events: string[] = [];
  readonly unmatched = new DomainBook();

  decided(refused: boolean): void {
    this.events.push(refused ? "refused" : "allowed");
  }
  degraded(policy: OnStoreFailure, failure: StoreError): void {
    this.events.push(`degraded ${policy} ${failure.code}`);
  }
  domainNotFound(domain: string, descriptors: number): void {
    this.events.push("domain not found");
    this.unmatched.countUnknown(domain, descriptors);
  }
  withoutRules(): void {
    this.events.push("without rules");
  }
  globalShadow(): void {
    this.events.push("global shadow");
  }
  suspectedReport(limitId: string, missing: string): void {
    this.events.push(`report ${missing} ${limitId}`);
  }
  debtCapped(limitId: string, hits: number): void {
    this.events.push(`capped ${limitId} ${hits}`);
  }
}

export interface RigOptions {
  readonly shadowMode?: boolean;
  readonly quotaMode?: boolean;
  readonly onStoreFailure?: OnStoreFailure;
  /** COMPATIBILITY_MODE, and what goes with it. */
  readonly compatible?: boolean;
  readonly stopsAtOver?: boolean;
  readonly localCacheBytes?: number;
  /** Hears of decided calls. */
  readonly openListener?: (clock: ManualClock) => CallListener;
  /** What decides in place of `store`. */
  readonly openStore?: (clock: ManualClock) => Store;
}

export class LimiterRig implements CallFinisher {
  readonly clock = new ManualClock();
  readonly store = new ScriptedStore(this.clock);
  readonly local: ScriptedStore[] = [];
  readonly observer = new RecordingObserver();
  readonly statsBook = new CountingStatsBook();
  readonly limiter: Limiter;
  /** What decides: `store`, unless another was opened. */
  readonly opened: Store;
  readonly localCache: LocalCache | undefined;
  readonly counters: Counters | undefined;
  readonly late: Answer[] = [];

  readonly #compatible: boolean;
  readonly #table = new RuntimeTable();
  #changes = 0;

  constructor(rules: string, options: RigOptions = {}) {
    const { compatible = false, stopsAtOver = false, localCacheBytes = 0 } = options;
    this.#compatible = compatible;
    const store = options.openStore?.(this.clock) ?? this.store;
    this.opened = compatible ? new CountersFirst(store, store, { stopsAtOver }) : store;
    this.localCache = localCacheBytes > 0 ? new LocalCache(localCacheBytes) : undefined;
    const { shadowMode = false, quotaMode = false } = options;
    const modes = { nearLimitRatio: 0.8, shadowMode, quotaMode };
    if (compatible) this.counters = new Counters({ ...modes, windowClock: this.clock, localCache: this.localCache });
    this.limiter = new Limiter({
      store: this.opened,
      clock: this.clock,
      observer: this.observer,
      listener: options.openListener?.(this.clock),
      fallback: new LocalFallback(
        () => {
          const store = new ScriptedStore(this.clock);
          this.local.push(store);
          return compatible ? new LocalCountersFirst(store, { stopsAtOver }) : store;
        },
        () => this.store.processes,
      ),
      nearLimitRatio: 0.8,
      shadowMode: options.shadowMode ?? false,
      quotaMode: options.quotaMode ?? false,
      onStoreFailure: options.onStoreFailure ?? Policy.allow,
      retryAfterJitter: 0,
      statsBook: this.statsBook,
      counters: this.counters,
      runtime: new RuntimeLimits(this.#table, this.clock),
    });
    this.useRules(rules);
  }

  /** Sets a limit at run time. */
  set(entries: Readonly<Record<string, string>>, change: RuntimeChange, untilUs = 0): void {
    const key = keyText({ domain: "edge", entries: Object.entries(entries) });
    this.#table.put(keep(key, valueText({ change, untilUs, note: "", who: "test" }), ++this.#changes));
  }

  useRules(rules: string | readonly string[]): void {
    const { unmatched } = this.observer;
    const options = { statsBook: this.statsBook, domainBook: unmatched, compatible: this.#compatible };
    const ruleSet = rulesFromYaml(rules, options);
    this.limiter.useRules(ruleSet);
    runThrough(unmatched.retain(ruleSet.domains.values()));
  }

  /** Asks and gets the answer at once; throws if the store answers later. */
  ask(descriptors: readonly AskedDescriptor[], hitsAddend = 0, domain = "edge"): Answer {
    const call = this.begin(descriptors, hitsAddend, domain);
    if (!this.limiter.decide(call, Number.POSITIVE_INFINITY)) throw new Error("expected an answer at once");
    return answerOf(call);
  }

  /** Asks a store that holds its answers back; they arrive in `late`. */
  askLater(descriptors: readonly AskedDescriptor[], hitsAddend = 0): LimitCall {
    const call = this.begin(descriptors, hitsAddend, "edge");
    if (this.limiter.decide(call, Number.POSITIVE_INFINITY)) throw new Error("expected no answer yet");
    return call;
  }

  /** Asks for one hit on one descriptor. */
  hit(entries: Readonly<Record<string, string>>, hits?: number): Answer {
    return this.ask([hits === undefined ? { entries } : { entries, hits }]);
  }

  finish(call: LimitCall): void {
    this.late.push(answerOf(call));
  }

  fail(_call: LimitCall, error: unknown): void {
    throw error;
  }

  begin(descriptors: readonly AskedDescriptor[], hitsAddend: number, domain: string): LimitCall {
    return this.fill(new LimitCall(this), descriptors, hitsAddend, domain);
  }

  /** Writes a question into a call that has none. */
  fill(call: LimitCall, descriptors: readonly AskedDescriptor[], hitsAddend = 0, domain = "edge"): LimitCall {
    call.request.domain = oneByteOf(domain);
    call.request.hitsAddend = hitsAddend;
    for (const descriptor of descriptors) addDescriptor(call.request, descriptor);
    return call;
  }
}

/** Writes one more descriptor into a request. */
export function addDescriptor(request: LimitRequest, { entries, hits, refund, override }: AskedDescriptor): void {
  const descriptor = request.addDescriptor();
  for (const [key, value] of Object.entries(entries)) descriptor.addEntry(oneByteOf(key), oneByteOf(value));
  descriptor.isRefund = refund ?? false;
  descriptor.hasHits = hits !== undefined;
  descriptor.hits = hits ?? 0;
  descriptor.hasOverride = override !== undefined;
  descriptor.overrideAmount = override?.amount ?? 0;
  descriptor.overrideUnit = override?.unit ?? 0;
}

function answerOf(call: LimitCall): Answer {
  const { decision } = call;
  return {
    over: decision.overLimit,
    statuses: decision.statuses.slice(0, decision.statusCount).map((status) => ({
      over: status.overLimit,
      limit: status.limit?.names.id,
      amount: status.limit?.shownAmount,
      remaining: status.remaining,
      reset: status.hasReset ? status.resetSeconds : undefined,
    })),
    governing: call.governing?.limit.names.id,
    policy: call.policy,
    failure: call.failure?.kind ?? (call.group.verdict === Verdict.pending ? "pending" : undefined),
    wasShadowed: call.wasShadowed,
  };
}
