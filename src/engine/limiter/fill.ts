// First half of a call: finds the rule of each descriptor, and adds one take per limit, with its cost and the key of
// its bucket.

import type { Limit } from "../domain/limit.ts";
import { type Descriptor, HoldAsk, type LimitRequest } from "../domain/request.ts";
import { countUnmatched } from "../domain/stats.ts";
import { Kind, Mode, type Take, type TakeGroup } from "../domain/take.ts";
import { groupAddresses } from "../rules/address-groups.ts";
import { writeBaseKey } from "../rules/bucket-key.ts";
import { findRule, MatchWork } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { AppliedLimit, CallerLimits, LimitCall } from "./call.ts";
import { checkHeld, HeldQuestion } from "./held-question.ts";
import { OverrideFiller } from "./overrides.ts";
import { Admission, addGlobal, addTake, checkWeight, type FillOptions, Question } from "./question.ts";
import { addBlocks, findRefusal, liftsGlobal } from "./refusals.ts";
import { countsValues, valuePath } from "./shown-values.ts";

/** Fills calls, one at a time. Keeps working memory that all calls reuse. */
export class TakeFiller {
  readonly #options: FillOptions;
  /** The rule of each entry of the descriptor. */
  readonly #matched: Rule[] = [];
  readonly #work: MatchWork;
  readonly #replaced = new Set<string>();
  readonly #question: Question;
  readonly #heldQuestion: HeldQuestion;
  readonly #overrides: OverrideFiller;

  constructor(options: FillOptions) {
    this.#options = options;
    this.#work = new MatchWork(options.clock);
    this.#question = new Question(options);
    this.#heldQuestion = new HeldQuestion(options);
    this.#overrides = new OverrideFiller(options, this.#matched, this.#work);
  }

  /**
   * Adds the takes of all descriptors and of the global limit. Throws RequestError for an override with an unknown
   * unit, for matching that takes too long, for a call of Budgets that leads to no hold, and for more limits than a
   * call may have.
   */
  fill(call: LimitCall, rules: DomainRules): void {
    const { request, group } = call;
    const question = this.#questionOf(call, rules);
    this.#work.begin();
    groupAddresses(rules, request);
    const runtime = this.#options.runtime?.find(request, rules) === true ? this.#options.runtime : undefined;
    if (runtime !== undefined || rules.required !== undefined) {
      findRefusal(call, rules, runtime, question, this.#work, this.#options);
      // Reserve is refused whether or not it would lead to a hold.
      if (call.refusal === "incomplete" && request.holdAsk === HoldAsk.reserve) return;
    }
    // Not empty if an earlier call had replaced limits or ended in a RequestError.
    if (this.#replaced.size > 0) this.#replaced.clear();
    if (rules.counters !== undefined) this.#options.counters?.begin();
    if (rules.hasReplaces) this.#gatherReplaced(request, rules);
    let admission: Admission = Admission.none;
    for (let i = 0; i < request.descriptorCount; i++) {
      call.firstTakes[i] = group.size;
      question.begin(request, i);
      this.#fillDescriptor(call, rules, question, runtime);
      if (question.admission > admission) admission = question.admission;
    }
    call.firstTakes[request.descriptorCount] = group.size;
    if (call.refusal !== undefined) addBlocks(call, rules, question, runtime?.foundUs ?? 0);
    else if (admission !== Admission.none && (runtime === undefined || !liftsGlobal(call)))
      addGlobal(call, rules, admission, this.#options.shadowMode);
    checkWeight(group);
  }

  /** A call of an unknown domain passes without takes. Throws RequestError for a call of Budgets. */
  passUnknown({ holdAsk }: LimitRequest): void {
    if (holdAsk !== HoldAsk.none) checkHeld(undefined);
  }

  /** This is where holds part from what a plain call passes. */
  #questionOf(call: LimitCall, { settleEntries }: DomainRules): Question {
    const mayHold = settleEntries.size > 0 || call.request.holdAsk !== HoldAsk.none;
    call.tally = mayHold ? this.#heldQuestion : this.#options.counters;
    return mayHold ? this.#heldQuestion : this.#question;
  }

  #fillDescriptor(call: LimitCall, rules: DomainRules, question: Question, runtime?: CallerLimits): void {
    const { descriptor, index } = question;
    const matched = findRule(rules, descriptor, this.#matched, this.#work);
    const applied = runtime !== undefined && matched !== undefined ? this.#applied(runtime, index, matched) : undefined;
    const rule = applied?.rule ?? matched;
    question.read(call.request, rules, rule);
    call.rules[index] = rule;
    if (rule === undefined && !descriptor.hasOverride) this.#passUnmatched(call, rules, question);
    const isAsking = question.waitsForAdmission;
    if (isAsking && call.refusal === "incomplete") return;
    if (runtime !== undefined) call.runtime[index] = applied;
    if (applied?.kind === "exempt" && (isAsking || question.mode === Mode.postPaid)) {
      this.#passExempt(call, rules, question, applied);
      return;
    }
    // A call that is refused asks for nothing.
    if (isAsking && call.refusal !== undefined) return;
    if (matched !== undefined && rule !== matched) this.#countWithoutTake(matched);
    if (descriptor.hasOverride) this.#overrides.fill(call, rules, question);
    else if (rule !== undefined) this.#fillRule(call, rules, question, rule, applied?.limits ?? rule.limits);
  }

  /**
   * The limit at run time that applies to a descriptor. Operators ask about buckets, which blocked and exempt callers
   * have, too.
   */
  #applied(runtime: CallerLimits, index: number, rule: Rule): AppliedLimit | undefined {
    const applied = runtime.of(index, rule);
    const isOfBuckets = applied?.kind === "amounts" || applied?.kind === "use";
    return this.#options.countsNothing === true && !isOfBuckets ? undefined : applied;
  }

  /**
   * Counts limits that match a descriptor but get no take, because its limit at run time exempts it or names others.
   */
  #countWithoutTake({ limits }: Rule): void {
    if (this.#options.countsNothing === true) return;
    for (const { stats } of limits) stats.withoutHits++;
  }

  #passExempt({ group }: LimitCall, rules: DomainRules, { kind }: Question, { of }: AppliedLimit): void {
    if (kind === Kind.quota && rules.counters === undefined) group.hasSpareQuota = true;
    this.#countWithoutTake(of);
  }

  #passUnmatched(call: LimitCall, rules: DomainRules, { descriptor, index }: Question): void {
    const { countsNothing, quotaMode } = this.#options;
    if (countsNothing !== true) countUnmatched(rules.stats, descriptor);
    if (rules.root.rules.length > 0) call.unmatched.push(index);
    if (quotaMode) call.group.hasSpareQuota = true;
  }

  #fillRule(call: LimitCall, rules: DomainRules, question: Question, rule: Rule, limits: readonly Limit[]): void {
    const { group } = call;
    if (rule.limits.length === 0) {
      // The reference service, which counters are shared with, counts no unlimited descriptor among the quota
      // descriptors.
      if (question.isSpareQuota && rules.counters === undefined) group.hasSpareQuota = true;
      return;
    }
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
      if (this.#isReplaced(limit) || question.leavesAlone(limit)) continue;
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

  // As in the reference service: names are collected from all descriptors first, and a limit that is replaced still
  // replaces.
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
