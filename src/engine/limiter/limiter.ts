// Decides calls: match rules, fill a group of takes, have the store settle it, combine the answers. Knows neither gRPC nor Redis.
// With a store that answers at once everything is synchronous and allocates nothing per call.

import type { Store } from "../../stores/store.ts";
import type { Clock } from "../base/clock.ts";
import type { StoreError } from "../base/errors.ts";
import { invariant } from "../base/invariant.ts";
import { divideDown, MICROS_PER_SECOND } from "../base/units.ts";
import type { OnStoreFailure } from "../domain/limit.ts";
import { HoldAsk } from "../domain/request.ts";
import { Source, type Take, Verdict } from "../domain/take.ts";
import type { DomainRules, RuleSet } from "../rules/rule-set.ts";
import type { LimitCall } from "./call.ts";
import { combine, governAsReference, wouldRefuse } from "./combine.ts";
import { countHits, countOpened, countOutcomes, looksLikeLateReport } from "./count-hits.ts";
import type { LocalCache } from "./counters.ts";
import { FailurePolicy, type LocalFallback, mayCountTwice } from "./failure-policy.ts";
import { type FillOptions, TakeFiller } from "./fill.ts";
import { checkHeld } from "./question.ts";

interface LimiterOptions extends Omit<FillOptions, "windowClock"> {
  /** Defines the windows of counters. Default: `clock`. */
  readonly windowClock?: Clock;
  readonly store: Store;
  readonly clock: Clock;
  readonly observer: LimiterObserver;
  /** Called after every decided call that had a take. Default: none. */
  readonly listener?: CallListener | undefined;
  readonly fallback: LocalFallback;
  readonly nearLimitRatio: number;
  /** COMPATIBILITY_MODE: headers show the descriptor that the reference service shows. Default: false. */
  readonly compatible?: boolean;
  /** LOCAL_CACHE_SIZE_IN_BYTES; default: none. */
  readonly localCache?: LocalCache | undefined;
}

/** Decides calls by the rule set in force. */
export class Limiter {
  readonly #options: LimiterOptions;
  readonly #filler: TakeFiller;
  readonly #policy: FailurePolicy;
  #rules: RuleSet | undefined;

  constructor(options: LimiterOptions) {
    this.#options = options;
    this.#filler = new TakeFiller({ ...options, windowClock: options.windowClock ?? options.clock });
    this.#policy = new FailurePolicy(options.store, options.fallback);
  }

  /** The rule set in force; undefined until the first one was loaded. */
  get rules(): RuleSet | undefined {
    return this.#rules;
  }

  /** Puts a rule set in force: calls that begin after this see all of it, earlier ones none of it. */
  useRules(rules: RuleSet): void {
    this.#rules = rules;
  }

  /**
   * Decides the call's request. True: `call.decision` or `call.failure` is written. False: the call's finisher is called later, once,
   * and must pass the call to `conclude`. `deadlineUs` is in microseconds of the clock. Throws RequestError; nothing is paid then.
   */
  decide(call: LimitCall, deadlineUs: number): boolean {
    call.startedUs = this.#options.clock.nowUs();
    call.group.deadlineUs = deadlineUs;
    if (this.#rules === undefined) {
      call.failure = { kind: "no-rules" };
      this.#options.observer.withoutRules();
      return true;
    }
    const domain: DomainRules | undefined = this.#rules.domains.get(call.request.domain);
    if (domain === undefined) {
      this.#options.observer.domainNotFound(call.request.domain, call.request.descriptorCount);
      if (call.request.holdAsk !== HoldAsk.none) checkHeld(undefined);
    } else {
      call.domain = domain;
      this.#filler.fill(call, domain);
    }
    if (call.group.size === 0) {
      call.group.verdict = Verdict.allowed;
      call.group.source = Source.local;
      this.conclude(call);
      return true;
    }
    countHits(call);
    if (call.group.hasCounters && this.#denyLocally(call)) {
      this.conclude(call);
      return true;
    }
    if (!this.#options.store.take(call.group, call)) return false;
    this.conclude(call);
    return true;
  }

  /** Writes the decision (or the failure) of a call whose group is settled, and counts it. */
  conclude(call: LimitCall): void {
    const { group } = call;
    const { observer, clock, fallback, localCache } = this.#options;
    const nowUs = clock.nowUs();
    const isOfStore = group.source === Source.store && group.size > 0;
    if (isOfStore && group.hasCounters) localCache?.learn(group, divideDown(call.startedUs, MICROS_PER_SECOND));
    if (group.verdict === Verdict.failed) this.#decideUnanswered(call, nowUs);
    // Only now: the fallback must see which payments stand.
    if (isOfStore) fallback.storeAnswered(group, nowUs);
    if (call.failure !== undefined) return;
    this.#conclude(call);
    if (group.size > 0) this.#options.listener?.decided(call, nowUs);
    observer.decided(call.decision.overLimit, group.source, nowUs - call.startedUs);
  }

  /**
   * Returns what a concluded call paid to pass. For a call whose caller has gone, so that nobody would settle its holds. Post-paid
   * hits and settlements stand. Must be called in the same turn as `conclude`, before anybody reads the counters.
   */
  giveBackUnheard(call: LimitCall): void {
    if (call.failure !== undefined) return;
    countOpened(call, -1);
    this.#policy.giveBack(call.group);
  }

  #conclude(call: LimitCall): void {
    const { shadowMode, quotaMode, nearLimitRatio, observer } = this.#options;
    combine(call);
    if (this.#options.compatible === true) governAsReference(call, quotaMode);
    countOutcomes(call, nearLimitRatio);
    if (shadowMode && wouldRefuse(call, quotaMode)) observer.globalShadow();
    for (let i = 0; i < call.group.size; i++) {
      const take = call.group.takes[i] as Take;
      if (take.cappedHits > 0) observer.debtCapped(take.limit.names.id, take.cappedHits);
      else if (looksLikeLateReport(take)) observer.suspectedLateReport(take.limit.names.id);
    }
  }

  // True if the local cache answers the whole call.
  #denyLocally(call: LimitCall): boolean {
    const { localCache, shadowMode, quotaMode } = this.#options;
    if (localCache === undefined || !localCache.deny(call.group)) return false;
    call.group.verdict = !shadowMode && wouldRefuse(call, quotaMode) ? Verdict.refused : Verdict.allowed;
    call.group.source = Source.denialMemory;
    return true;
  }

  #decideUnanswered(call: LimitCall, nowUs: number): void {
    const { group } = call;
    const error = group.failure;
    invariant(error !== undefined, "a failed group carries a failure");
    call.storeFailure = error;
    call.policy = this.#policy.decide(group, nowUs);
    this.#options.observer.degraded(call.policy, error);
    if (group.verdict === Verdict.failed) {
      call.failure = { kind: "store", error, mayCountTwice: mayCountTwice(group) };
    }
  }
}

// Telemetry implements these. They are called on the decision path, so they must be cheap and must not throw.

/** Gets every decided call. */
export interface CallListener {
  /** The call must not be kept: it is reused after its answer. `nowUs` is in microseconds of the limiter's clock. */
  decided(call: LimitCall, nowUs: number): void;
}

export interface LimiterObserver {
  /** A call was decided. `elapsedUs` is the time from `decide` to the decision, in microseconds. */
  decided(refused: boolean, source: Source, elapsedUs: number): void;
  /** Takes of a call were decided without an answer of the store; `policy` is the strictest policy applied. */
  degraded(policy: OnStoreFailure, failure: StoreError): void;
  /** A request with `descriptors` descriptors named a domain without rules. */
  domainNotFound(domain: string, descriptors: number): void;
  /** A call came before the first rule set was in force, and got no decision. */
  withoutRules(): void;
  /** SHADOW_MODE let a refused call pass. */
  globalShadow(): void;
  /** A refused take looks like hits reported after the fact on a rule that is not post-paid (looksLikeLateReport). */
  suspectedLateReport(limitId: string): void;
  /** `hits` post-paid hits were not recorded, because the bucket's state can't hold more (`debt_max`). */
  debtCapped(limitId: string, hits: number): void;
}
