// Decides calls: match rules, fill a group of takes, have the store settle it, make the decision. Knows neither gRPC nor Redis.
// With a store that answers at once everything is synchronous and allocates nothing per call.

import type { Clock } from "../../base/clock.ts";
import { invariant } from "../../base/invariant.ts";
import type { Limit } from "../domain/limit.ts";
import { type Descriptor, HoldAsk, type LimitRequest } from "../domain/request.ts";
import { countUnmatched } from "../domain/stats.ts";
import type { Store } from "../domain/store.ts";
import { Kind, Mode, Source, type Take, type TakeGroup, Verdict } from "../domain/take.ts";
import { groupAddresses } from "../rules/address-groups.ts";
import { writeBaseKey } from "../rules/bucket-key.ts";
import { findRule, MatchWork } from "../rules/match.ts";
import { missingEntry } from "../rules/required.ts";
import type { DomainRules, Rule, RuleSet } from "../rules/rule-set.ts";
import {
  addBlocked,
  isOnlyBlocked,
  refuseIncomplete,
  refusesIncomplete,
  skipsGlobal,
  waitsForAdmission,
} from "./blocks.ts";
import type { AppliedLimit, CallConcluder, LimitCall } from "./call.ts";
import { combine, countHits, countOpened, countOutcomes, wouldRefuse } from "./decision.ts";
import { FailurePolicy, type LocalFallback, mayCountTwice } from "./failure-policy.ts";
import { tellOddReports } from "./late-reports.ts";
import type { CallListener, LimiterObserver } from "./limiter-observer.ts";
import { OverrideFiller } from "./overrides.ts";
import {
  Admission,
  addGlobal,
  addTake,
  checkHeld,
  checkWeight,
  type FillOptions,
  leavesAlone,
  Question,
} from "./question.ts";
import { countsValues, valuePath } from "./shown-values.ts";

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
   * Decides the call's request. True: `call.decision` or `call.failure` is written. False: it will be, and then the call's finisher is
   * called, once. `deadlineUs` is in microseconds of the clock. Throws RequestError; nothing is paid then.
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
      if (call.request.holdAsk !== HoldAsk.none) checkHeld(undefined);
    } else {
      call.domain = domain;
      domain.stats.calls++;
      this.#filler.fill(call, domain);
    }
    if (!this.#settlesHere(call) && !this.#options.store.take(call.group, call)) return false;
    this.#conclude(call);
    return true;
  }

  /** Settles a call that needs no store. Returns whether it did. */
  #settlesHere(call: LimitCall): boolean {
    const { group } = call;
    if (group.size > 0) countHits(call);
    const isRefused = call.isBlocked && isOnlyBlocked(group);
    if (!isRefused && group.size > 0) return this.#options.counters?.denies(call) === true;
    group.verdict = isRefused ? Verdict.refused : Verdict.allowed;
    group.source = Source.local;
    return true;
  }

  /** Called when the store has settled a call later. */
  concludeLater(call: LimitCall): void {
    try {
      this.#conclude(call);
    } catch (error) {
      call.finisher.fail(call, error);
      return;
    }
    call.finisher.finish(call);
  }

  /** Writes the decision (or the failure) of a call whose group is settled, and counts it. */
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
   * Returns what a concluded call paid to pass. For a call whose caller has gone, so that nobody would settle its holds. Post-paid
   * hits and settlements are kept. Must be called when the call is finished, before anybody reads the counters.
   */
  giveBackUnheard(call: LimitCall): void {
    if (call.failure !== undefined) return;
    countOpened(call, -1);
    this.#policy.giveBack(call.group);
  }

  /** Combines the answers of the takes to the decision, and counts it. */
  #count(call: LimitCall): void {
    const { shadowMode, quotaMode, nearLimitRatio, observer, counters } = this.#options;
    combine(call);
    counters?.govern(call);
    countOutcomes(call, nearLimitRatio, counters);
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

/** Fills calls, one at a time: finds the rule of each descriptor, and adds one take per limit. Keeps working memory that all calls reuse. */
export class TakeFiller {
  readonly #options: FillOptions;
  readonly #matched: Rule[] = [];
  readonly #work: MatchWork;
  readonly #replaced = new Set<string>();
  readonly #question: Question;
  readonly #overrides: OverrideFiller;
  /** True: what meets no rule has been counted. */
  #isAgain = false;
  /** True: a block adds no take of its own. */
  #hidesBlocks = false;
  /** Whether the call's domain has limits at run time. */
  #hasRuntime = false;

  constructor(options: FillOptions) {
    this.#options = options;
    this.#work = new MatchWork(options.clock);
    this.#question = new Question(options);
    this.#overrides = new OverrideFiller(options, this.#matched, this.#work);
  }

  /**
   * Adds the takes of all descriptors and of the global limit. Throws RequestError for an override with an unknown unit, for
   * matching that takes too long, for a call of Budgets that leads to no hold, and for more limits than a call may have.
   */
  fill(call: LimitCall, rules: DomainRules): void {
    this.#work.begin();
    groupAddresses(rules, call.request);
    this.#hidesBlocks = false;
    this.#isAgain = false;
    this.#hasRuntime = this.#options.runtime?.begin(rules.domain) ?? false;
    if (rules.required !== undefined && this.#options.countsNothing !== true) {
      call.missing = missingEntry(rules.required, call.request);
      if (call.missing !== undefined) rules.stats.incomplete++;
    }
    this.#fillAll(call, rules);
    if (!call.isBlocked || call.group.size === 0 || isOnlyBlocked(call.group)) return;
    // Now that it is known that the call is refused, nothing is asked for. What it settles goes to the store, which can't be asked about blocks.
    this.#fillAgain(call, rules);
    if (isOnlyBlocked(call.group)) return;
    this.#hidesBlocks = true;
    this.#fillAgain(call, rules);
  }

  #fillAgain(call: LimitCall, rules: DomainRules): void {
    const { deadlineUs } = call.group;
    this.#isAgain = true;
    call.group.reset();
    call.group.deadlineUs = deadlineUs;
    this.#fillAll(call, rules);
  }

  #fillAll(call: LimitCall, rules: DomainRules): void {
    const { request, group } = call;
    const { shadowMode } = this.#options;
    // Not empty if an earlier call had replaced limits or ended in a RequestError.
    if (this.#replaced.size > 0) this.#replaced.clear();
    if (rules.counters !== undefined) this.#options.counters?.begin();
    if (rules.hasReplaces) this.#gatherReplaced(request, rules);
    let admission: Admission = Admission.none;
    for (let i = 0; i < request.descriptorCount; i++) {
      call.firstTakes[i] = group.size;
      this.#question.begin(request, i);
      this.#fillDescriptor(call, rules, this.#question);
      if (this.#question.admission > admission) admission = this.#question.admission;
    }
    call.firstTakes[request.descriptorCount] = group.size;
    if (admission !== Admission.none && !skipsGlobal(call)) addGlobal(call, rules, admission, shadowMode);
    checkWeight(group);
  }

  #fillDescriptor(call: LimitCall, rules: DomainRules, question: Question): void {
    const { descriptor, index } = question;
    if (call.missing !== undefined && this.#fillIncomplete(call, rules, question)) return;
    if (descriptor.hasOverride && !this.#hasRuntime) {
      this.#overrides.fill(call, rules, question);
      return;
    }
    const matched = findRule(rules, descriptor, this.#matched, this.#work);
    const applied =
      this.#hasRuntime && matched !== undefined ? this.#applied(call, rules, question, matched) : undefined;
    if (applied !== undefined && this.#fillApplied(call, rules, question, applied)) return;
    if (matched !== undefined && applied !== undefined && applied.rule !== matched) this.#countMatched(matched);
    if (descriptor.hasOverride) {
      this.#overrides.fill(call, rules, question);
      return;
    }
    const rule = applied?.rule ?? matched;
    question.read(call.request, rules, rule);
    call.rules[index] = rule;
    if (call.isBlocked && waitsForAdmission(question)) return;
    if (rule === undefined) this.#passUnmatched(call, rules, question);
    else if (rule.limits.length > 0) this.#fillRule(call, rules, question, rule, applied?.limits ?? rule.limits);
    // The reference service, which counters are shared with, counts no unlimited descriptor among the quota descriptors.
    else if (question.isSpareQuota && rules.counters === undefined) call.group.hasSpareQuota = true;
  }

  /** Refuses the descriptor because its call lacks a required entry: true then. */
  #fillIncomplete(call: LimitCall, rules: DomainRules, question: Question): boolean {
    if (!refusesIncomplete(call, rules, this.#options)) return false;
    const { descriptor } = question;
    const rule = findRule(rules, descriptor, this.#matched, this.#work);
    if (!refuseIncomplete(call, rules, question, rule)) return false;
    if (rule === undefined && !descriptor.hasOverride) this.#passUnmatched(call, rules, question);
    return true;
  }

  /** The limit at run time that applies to the descriptor. */
  #applied(call: LimitCall, rules: DomainRules, question: Question, rule: Rule): AppliedLimit | undefined {
    const { runtime, countsNothing } = this.#options;
    const applied = runtime?.of(rules, question.descriptor, rule);
    const kind = applied?.kind;
    // Operators ask about buckets, which blocked and exempt callers have, too.
    if (countsNothing === true && (kind === "block" || kind === "exempt")) return undefined;
    call.runtime[question.index] = applied;
    return applied;
  }

  /** Fills the descriptor if its limit at run time leaves nothing to the rule: true then. */
  #fillApplied(call: LimitCall, rules: DomainRules, question: Question, applied: AppliedLimit): boolean {
    const isExempt = applied.kind === "exempt";
    if (applied.blocked === undefined && !isExempt) return false;
    question.read(call.request, rules, applied.of);
    if (!waitsForAdmission(question) && (!isExempt || question.mode !== Mode.postPaid)) return false;
    call.rules[question.index] = applied.of;
    if (isExempt) {
      if (question.kind === Kind.quota && rules.counters === undefined) call.group.hasSpareQuota = true;
      this.#countMatched(applied.of);
      return true;
    }
    call.isBlocked = true;
    const nowUs = this.#options.runtime?.nowUs() ?? 0;
    if (!this.#hidesBlocks) addBlocked(call.group, rules, question, applied, nowUs);
    return true;
  }

  /** Counts limits that match a descriptor but get no take, because its limit at run time exempts it or names others. */
  #countMatched({ limits }: Rule): void {
    if (this.#options.countsNothing === true || this.#isAgain) return;
    for (const { stats } of limits) stats.withoutHits++;
  }

  #passUnmatched(call: LimitCall, rules: DomainRules, { descriptor, index }: Question): void {
    const { countsNothing, quotaMode } = this.#options;
    if (countsNothing !== true && !this.#isAgain) countUnmatched(rules.stats, descriptor);
    if (rules.root.rules.length > 0 && !this.#isAgain) call.unmatched.push(index);
    if (quotaMode) call.group.hasSpareQuota = true;
  }

  #fillRule(call: LimitCall, rules: DomainRules, question: Question, rule: Rule, limits: readonly Limit[]): void {
    const { group } = call;
    const { descriptor } = question;
    const sizeBefore = group.size;
    const { counters } = this.#options;
    if (counters !== undefined && rules.counters !== undefined && (rule.limits[0] as Limit).isCounter) {
      const key = rules.counters.keyOf(rules, descriptor, this.#matched);
      for (const limit of limits) {
        if (!this.#isReplaced(limit)) counters.add(group, question, limit, key);
      }
    } else this.#addTakes(group, rules, question, rule, limits);
    if (countsValues(rule, this.#matched, descriptor)) this.#countByValue(group, rules, descriptor, sizeBefore);
    if (group.size > sizeBefore) return;
    call.rules[question.index] = undefined;
    if (this.#options.quotaMode) group.hasSpareQuota = true;
  }

  /** Adds a take for each limit of the rule. The keys differ only in the limit's suffix. */
  #addTakes(group: TakeGroup, rules: DomainRules, question: Question, rule: Rule, limits: readonly Limit[]): void {
    const { keys } = group;
    const baseAt = keys.end;
    writeBaseKey(keys, rules, question.descriptor, this.#matched, rule.hashesValues);
    const baseLength = keys.end - baseAt;
    let keyAt = baseAt;
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as Limit;
      if (this.#isReplaced(limit) || leavesAlone(question, limit)) continue;
      if (keyAt !== baseAt) keys.repeat(baseAt, baseLength);
      keys.write(limit.keySuffix);
      addTake(group, question, limit, keyAt, rule.chargesGivenHits);
      keyAt = keys.end;
    }
    if (keyAt === baseAt) keys.end = baseAt;
  }

  #isReplaced(limit: Limit): boolean {
    return this.#replaced.size > 0 && this.#replaced.has(limit.names.name);
  }

  #countByValue(group: TakeGroup, rules: DomainRules, descriptor: Descriptor, firstTake: number): void {
    if (this.#options.countsNothing === true) return;
    const path = valuePath(rules, descriptor, this.#matched);
    for (let i = firstTake; i < group.size; i++) {
      const take = group.takes[i] as Take;
      take.stats = this.#options.statsBook.statsOfValues(take.limit.stats, path);
    }
  }

  // As in the reference service: names are collected from all descriptors first, and a limit that is replaced still replaces.
  #gatherReplaced(request: LimitRequest, rules: DomainRules): void {
    for (let i = 0; i < request.descriptorCount; i++) {
      const descriptor = request.descriptors[i] as Descriptor;
      const rule = descriptor.hasOverride ? undefined : findRule(rules, descriptor, this.#matched, this.#work);
      if (rule === undefined) continue;
      for (const name of rule.unlimitedReplaces) this.#replaced.add(name);
      for (const limit of rule.limits) for (const name of limit.policy.replaces) this.#replaced.add(name);
    }
  }
}
