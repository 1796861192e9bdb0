// Decides calls: match rules, fill a group of takes, have the store decide it, make the decision. Knows neither gRPC
// nor Redis. With a store that answers at once everything is synchronous and allocates nothing per call.

import type { Clock } from "../../base/clock.ts";
import { invariant } from "../../base/invariant.ts";
import { joinWays } from "../domain/guarantee.ts";
import type { Store } from "../domain/store.ts";
import { Mode, Source, Verdict } from "../domain/take.ts";
import type { DomainRules, RuleSet } from "../rules/rule-set.ts";
import type { CallConcluder, LimitCall } from "./call.ts";
import { combine, countHits, countOutcomes, wouldRefuse } from "./decision.ts";
import { FailurePolicy, type LocalFallback, mayCountTwice } from "./failure-policy.ts";
import { TakeFiller } from "./fill.ts";
import { tellOddReports } from "./late-reports.ts";
import type { CallListener, LimiterObserver } from "./limiter-observer.ts";
import type { FillOptions } from "./question.ts";

interface LimiterOptions extends FillOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly observer: LimiterObserver;
  /** Called after every decided call that had a take. Default: none. */
  readonly listener?: CallListener | undefined;
  readonly fallback: LocalFallback;
  readonly nearLimitRatio: number;
}

/** Decides calls by the rule set in force. */
export class Limiter implements CallConcluder {
  readonly #options: LimiterOptions;
  readonly #filler: TakeFiller;
  readonly #policy: FailurePolicy;
  #rules: RuleSet | undefined;

  constructor(options: LimiterOptions) {
    this.#options = options;
    this.#filler = new TakeFiller(options);
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
   * Decides the call's request. True: `call.decision` or `call.failure` is written. False: it will be, and then the
   * call's finisher is called, once. `deadlineUs` is in microseconds of the clock. Throws RequestError; nothing is paid
   * then.
   */
  decide(call: LimitCall, deadlineUs: number): boolean {
    call.startedUs = this.#options.clock.nowUs();
    call.group.deadlineUs = deadlineUs;
    call.concluder = this;
    if (this.#rules === undefined) {
      call.failure = { kind: "no-rules" };
      this.#options.observer.withoutRules();
      return true;
    }
    const domain: DomainRules | undefined = this.#rules.domains.get(call.request.domain);
    if (domain === undefined) {
      this.#options.observer.domainNotFound(call.request.domain, call.request.descriptorCount);
      this.#filler.passUnknown(call.request);
    } else {
      call.domain = domain;
      domain.stats.calls++;
      this.#filler.fill(call, domain);
    }
    if (!this.#decidesHere(call) && !this.#options.store.take(call.group, call)) return false;
    this.#conclude(call);
    return true;
  }

  /** Decides a call that needs no store. Returns whether it did. */
  #decidesHere(call: LimitCall): boolean {
    const { group } = call;
    if (group.size > 0) countHits(call);
    // Blocks are alone in their group.
    const isRefused = group.takes[0]?.mode === Mode.blocked && group.size > 0;
    if (!isRefused && group.size > 0) return this.#options.counters?.denies(call) === true;
    group.verdict = isRefused ? Verdict.refused : Verdict.allowed;
    group.source = Source.local;
    return true;
  }

  /** Called when the store has decided a call later. */
  concludeLater(call: LimitCall): void {
    try {
      this.#conclude(call);
    } catch (error) {
      call.finisher.fail(call, error);
      return;
    }
    call.finisher.finish(call);
  }

  /** Writes the decision (or the failure) of a call whose group is decided, and counts it. */
  #conclude(call: LimitCall): void {
    const { group } = call;
    const { observer, clock, fallback, counters } = this.#options;
    const nowUs = clock.nowUs();
    const isOfStore = group.source === Source.store && group.size > 0;
    if (isOfStore) counters?.learn(group, call.startedUs);
    if (group.verdict === Verdict.failed) this.#decideUnanswered(call, nowUs);
    // Only now: the fallback must see which payments are kept.
    if (isOfStore) fallback.storeAnswered(group, nowUs);
    if (call.failure !== undefined) return;
    this.#count(call);
    if (group.size > 0) this.#options.listener?.decided(call, nowUs);
    observer.decided(call.decision.overLimit, group.source, nowUs - call.startedUs);
  }

  /**
   * Returns what a concluded call paid to pass. For a call whose caller has gone, so that nobody would settle its
   * holds. Post-paid hits and settlements are kept. Must be called when the call is finished, before anybody reads the
   * counters.
   */
  giveBackUnheard(call: LimitCall): void {
    if (call.failure !== undefined) return;
    const { takes, size } = call.group;
    for (const { paid, openedHold, stats } of takes.slice(0, size)) if (paid && openedHold) stats.holdsOpened--;
    this.#policy.giveBack(call.group);
  }

  /** Combines the answers of the takes to the decision, and counts it. */
  #count(call: LimitCall): void {
    const { shadowMode, quotaMode, nearLimitRatio, observer, counters } = this.#options;
    if (call.group.hasGuarantees) joinWays(call.group);
    combine(call);
    counters?.govern(call);
    countOutcomes(call, nearLimitRatio);
    if (shadowMode && !call.decision.overLimit && wouldRefuse(call, quotaMode)) observer.globalShadow();
    tellOddReports(call, observer);
  }

  #decideUnanswered(call: LimitCall, nowUs: number): void {
    const { group } = call;
    const error = group.failure;
    invariant(error !== undefined, "a failed group carries a failure");
    call.storeFailure = error;
    call.policy = this.#policy.decide(group, nowUs);
    this.#options.observer.degraded(call.policy, error, group);
    if (group.verdict === Verdict.failed) call.failure = { kind: "store", error, mayCountTwice: mayCountTwice(group) };
  }
}
