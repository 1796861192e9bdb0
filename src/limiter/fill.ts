// First half of a call: finds the rule of each descriptor and adds one take per limit to the group.

import type { Clock } from "../core/clock.ts";
import { RequestError } from "../core/errors.ts";
import type { KeyBytes } from "../core/key-bytes.ts";
import type { Limit, OnStoreFailure } from "../core/limit.ts";
import type { StatsBook, ValueStatsBook } from "../core/limit-stats.ts";
import { type Descriptor, HoldAsk, type LimitRequest } from "../core/request.ts";
import {
  GLOBAL_DESCRIPTOR,
  GROUP_WEIGHT_MAX,
  HOLD_WEIGHT,
  Kind,
  LOG_WEIGHT,
  Mode,
  type Take,
  type TakeGroup,
} from "../core/take.ts";
import { divideDown, MICROS_PER_SECOND } from "../core/units.ts";
import { countUnmatched } from "../core/unmatched-stats.ts";
import { writeEntry, writeSharedEntry } from "../rules/bucket-key.ts";
import { counterKey } from "../rules/counter-key.ts";
import { holdIdOf, isSettlement, keptId } from "../rules/hold-id.ts";
import { findRule, hidesValues } from "../rules/match.ts";
import { MatchWork } from "../rules/match-work.ts";
import { limitForCall, limitForDescriptor } from "../rules/priority.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { LimitCall } from "./call.ts";
import { addCounter, entryPath } from "./fill-counter.ts";
import { OverrideLimits } from "./override-limits.ts";
import { checkHeld, heldCost, isReported, modeOf, onlyAsks, takenCost, usedOf } from "./read-question.ts";
import { countsValues, valuePath } from "./value-path.ts";

export interface FillOptions {
  /** Bounds the time of matching (rules/match-work.ts). */
  readonly clock: Clock;
  /** SHADOW_MODE: all takes are shadow takes. */
  readonly shadowMode: boolean;
  /** QUOTA_MODE: every descriptor is a quota descriptor; those without a rule pass. */
  readonly quotaMode: boolean;
  /** Failure policy of overrides that match no rule. */
  readonly onStoreFailure: OnStoreFailure;
  readonly retryAfterJitter: number;
  /** Defines the windows of counters: the clock that other services on the same counters use. */
  readonly windowClock: Clock;
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a call that is over charges only the counters that are over. Default: false. */
  readonly stopsAtOver?: boolean;
  readonly statsBook: StatsBook & ValueStatsBook;
  /** True for questions of operators: no descriptor and no value is counted. Default: false. */
  readonly countsNothing?: boolean;
}

/** Fills calls, one at a time. Keeps working memory that all calls reuse. */
export class TakeFiller {
  readonly #options: FillOptions;
  readonly #matched: Rule[] = [];
  readonly #work: MatchWork;
  readonly #replaced = new Set<string>();
  readonly #overrides: OverrideLimits;
  #canRefuseCall = false;
  /** The question of the current descriptor (`#readQuestion`). */
  #mode: Mode = Mode.pay;
  #cost = 1;
  #holdId = "";
  #hasPeek = false;
  /** The current second of `windowClock`. Set in domains with counters only. */
  #nowS = 0;

  constructor(options: FillOptions) {
    this.#options = options;
    this.#work = new MatchWork(options.clock);
    this.#overrides = new OverrideLimits(options);
  }

  /**
   * Adds the takes of all descriptors and of the global limit. Throws RequestError for an override with an unknown unit, for
   * matching that takes too long, for a call of Budgets that leads to no hold, and for more limits than a call may have.
   */
  fill(call: LimitCall, rules: DomainRules): void {
    const request = call.request;
    this.#canRefuseCall = false;
    this.#hasPeek = false;
    this.#work.begin();
    // Not empty if an earlier call had replaced limits or ended in a RequestError.
    if (this.#replaced.size > 0) this.#replaced.clear();
    if (rules.counterPrefix !== undefined) {
      const { windowClock, stopsAtOver } = this.#options;
      this.#nowS = divideDown(windowClock.nowUs(), MICROS_PER_SECOND);
      call.group.stopsAtOver = stopsAtOver === true;
    }
    if (rules.hasReplaces) this.#gatherReplaced(request, rules);
    for (let i = 0; i < request.descriptorCount; i++) {
      call.firstTakes[i] = call.group.size;
      this.#fillDescriptor(call, rules, i);
    }
    call.firstTakes[request.descriptorCount] = call.group.size;
    this.#fillGlobal(call, rules);
    if (call.group.weight > GROUP_WEIGHT_MAX) throw tooManyLimits(call.group);
  }

  #fillDescriptor(call: LimitCall, rules: DomainRules, index: number): void {
    const descriptor = call.request.descriptors[index] as Descriptor;
    const hits = descriptor.hasHits ? descriptor.hits : Math.max(1, call.request.hitsAddend);
    if (descriptor.hasOverride) {
      this.#fillOverride(call, rules, index, hits);
      return;
    }
    const rule = findRule(rules, descriptor, this.#matched, this.#work);
    this.#readQuestion(call, rules, rule, descriptor, hits);
    call.rules[index] = rule;
    if (rule === undefined) {
      this.#passUnmatched(call, rules, index);
      return;
    }
    if (rule.limits.length === 0) {
      // The reference service, which counters are shared with, counts no unlimited descriptor among the quota descriptors.
      if (rules.counterPrefix === undefined && this.#isQuota(rule)) call.group.hasSpareQuota = true;
      return;
    }
    const sizeBefore = call.group.size;
    if (rules.counterPrefix !== undefined && (rule.limits[0] as Limit).isCounter) {
      const key = counterKey(rules.counterPrefix, rules, descriptor, this.#matched);
      for (const limit of rule.limits) {
        if (!this.#isReplaced(limit)) this.#addCounter(call, limit, key, index, hits, rule);
      }
    } else this.#addTakes(call, rules, rule, index);
    if (countsValues(rule, this.#matched, descriptor)) this.#countByValue(call, rules, descriptor, sizeBefore);
    if (call.group.size === sizeBefore) {
      call.rules[index] = undefined;
      if (this.#options.quotaMode) call.group.hasSpareQuota = true;
    }
  }

  #passUnmatched(call: LimitCall, rules: DomainRules, index: number): void {
    const { countsNothing, quotaMode } = this.#options;
    if (countsNothing !== true) countUnmatched(rules.unmatched, call.request.descriptors[index] as Descriptor);
    if (rules.root.rules.length > 0) call.unmatched.push(index);
    if (quotaMode) call.group.hasSpareQuota = true;
  }

  /** Adds the take of an override in place of the takes of the rule that the entries match, except for `concurrent`. */
  #fillOverride(call: LimitCall, rules: DomainRules, index: number, hits: number): void {
    const descriptor = call.request.descriptors[index] as Descriptor;
    const rule = this.#overridden(rules, descriptor);
    this.#readQuestion(call, rules, rule, descriptor, hits);
    call.rules[index] = rule;
    const limit = this.#overrides.limitOf(descriptor, rules, rule);
    const hashesValues = rule?.hashesValues ?? hidesValues(rules, descriptor, this.#work);
    if (rules.counterPrefix !== undefined) {
      const key = counterKey(rules.counterPrefix, rules, descriptor, undefined, hashesValues);
      const take = this.#addCounter(call, limit, key, index, hits, undefined);
      if (this.#options.countsNothing === true) return;
      const path = entryPath(descriptor, hashesValues);
      take.stats = this.#options.statsBook.statsOfValues(limit.stats, path);
      return;
    }
    this.#addOverride(call, rules, index, limit, hashesValues, rule);
    for (const other of rule?.limits ?? []) {
      if (other.isConcurrent) this.#addOverride(call, rules, index, other, hashesValues, rule);
    }
  }

  #addOverride(
    call: LimitCall,
    rules: DomainRules,
    index: number,
    limit: Limit,
    hashesValues: boolean,
    rule: Rule | undefined,
  ): void {
    if (this.#leavesAlone(limit)) return;
    // All calls of the rule share the places of its `concurrent`.
    const matched = limit.isConcurrent ? this.#matched : undefined;
    const { keys } = call.group;
    const keyAt = keys.end;
    writeBaseKey(keys, rules, call.request.descriptors[index] as Descriptor, matched, hashesValues);
    keys.write(limit.keySuffix);
    const take = this.#addTake(call, limit, index, rule);
    take.endKey(keyAt);
    if (take.mode === Mode.postPaid && (rule ?? rules).chargesGivenHits) this.#addPayment(call, take);
  }

  /** Reads what the descriptor asks of its rule's limits, for the takes that are added next. */
  #readQuestion(
    call: LimitCall,
    rules: DomainRules,
    rule: Rule | undefined,
    descriptor: Descriptor,
    hits: number,
  ): void {
    if (call.request.holdAsk !== HoldAsk.none) {
      this.#readHoldAsk(call.request, rules, rule);
      return;
    }
    const hold = rule?.hold;
    this.#holdId = hold === undefined ? "" : holdIdOf(descriptor, hold);
    if (isSettlement(descriptor, rules.settleEntries)) {
      // Its call was admitted before, so a settlement asks for no admission.
      this.#mode = Mode.settle;
      this.#cost = hold === undefined ? 0 : usedOf(call.request, descriptor, hold);
      return;
    }
    const isReport = isReported(rule, rules, descriptor);
    const asked = hold !== undefined && onlyAsks(descriptor, hold) ? 0 : hits;
    this.#noteAdmission(asked, descriptor.isRefund, isReport);
    this.#mode = modeOf(descriptor, asked, isReport);
    this.#cost = takenCost(descriptor, asked, hold === undefined ? rule?.cost : hold.estimate);
  }

  /** Reads what the fields of a Budgets call ask. Entries have no say then. */
  #readHoldAsk(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    if (rule === undefined) countUnmatched(rules.unmatched, request.descriptors[0] as Descriptor);
    checkHeld(rule);
    const settles = request.holdAsk === HoldAsk.settle;
    if (!settles) this.#canRefuseCall = true;
    this.#mode = settles ? Mode.settle : Mode.pay;
    this.#cost = heldCost(request, rule?.hold?.estimate);
    this.#holdId = keptId(request.holdId);
  }

  /** True for a limit that gets no take: a settlement skips limits without holds, a refund skips `concurrent`. */
  #leavesAlone(limit: Limit): boolean {
    if (this.#mode === Mode.settle) return limit.holdSeconds === 0;
    return this.#mode === Mode.refund && limit.isConcurrent;
  }

  /** The rule with limits whose amounts the override replaces; undefined without one, and always in domains with counters. */
  #overridden(rules: DomainRules, descriptor: Descriptor): Rule | undefined {
    if (rules.counterPrefix !== undefined) return undefined;
    const rule = findRule(rules, descriptor, this.#matched, this.#work);
    return rule === undefined || rule.limits.length === 0 ? undefined : rule;
  }

  /** Adds a take for each limit of the rule. The keys differ only in the limit's suffix. */
  #addTakes(call: LimitCall, rules: DomainRules, rule: Rule, index: number): void {
    const { keys } = call.group;
    const descriptor = call.request.descriptors[index] as Descriptor;
    const baseAt = keys.end;
    writeBaseKey(keys, rules, descriptor, this.#matched, rule.hashesValues);
    const baseLength = keys.end - baseAt;
    let keyAt = baseAt;
    for (let i = 0; i < rule.limits.length; i++) {
      const limit = rule.limits[i] as Limit;
      if (this.#isReplaced(limit) || this.#leavesAlone(limit)) continue;
      if (keyAt !== baseAt) keys.repeat(baseAt, baseLength);
      keys.write(limit.keySuffix);
      const take = this.#addTake(call, limit, index, rule);
      take.endKey(keyAt);
      keyAt = keys.end;
      if (take.mode === Mode.postPaid && rule.chargesGivenHits) this.#addPayment(call, take);
    }
    if (keyAt === baseAt) keys.end = baseAt;
  }

  /** Makes `judge` a peek that decides the call, and adds a post-paid take of the same cost after it. */
  #addPayment(call: LimitCall, judge: Take): void {
    judge.mode = Mode.peek;
    const payment = call.group.add(judge.limit);
    payment.descriptor = judge.descriptor;
    payment.kind = judge.kind;
    payment.mode = Mode.postPaid;
    payment.cost = judge.cost;
    payment.stats = judge.stats;
    payment.useKeyOf(judge);
  }

  #isReplaced(limit: Limit): boolean {
    return this.#replaced.size > 0 && this.#replaced.has(limit.name);
  }

  /** Adds a take that still lacks its key. */
  #addTake(call: LimitCall, limit: Limit, index: number, rule: Rule | undefined): Take {
    const take = call.group.add(limitForDescriptor(limit, call.request.descriptors[index] as Descriptor));
    take.descriptor = index;
    take.kind = this.#kindOf(call, rule);
    take.mode = this.#mode;
    take.cost = limit.isConcurrent ? 1 : this.#cost;
    take.holdId = this.#holdId;
    return take;
  }

  #addCounter(call: LimitCall, limit: Limit, key: string, index: number, hits: number, rule: Rule | undefined): Take {
    const descriptor = call.request.descriptors[index] as Descriptor;
    const take = addCounter(call.group, limit, descriptor, { key, hits, nowS: this.#nowS });
    take.descriptor = index;
    take.kind = this.#kindOf(call, rule);
    return take;
  }

  #countByValue(call: LimitCall, rules: DomainRules, descriptor: Descriptor, firstTake: number): void {
    if (this.#options.countsNothing === true) return;
    const path = valuePath(rules, descriptor, this.#matched);
    for (let i = firstTake; i < call.group.size; i++) {
      const take = call.group.takes[i] as Take;
      take.stats = this.#options.statsBook.statsOfValues(take.limit.stats, path);
    }
  }

  #kindOf(call: LimitCall, rule: Rule | undefined): Kind {
    const isShadow = rule !== undefined && rule.kind === Kind.shadow;
    const isQuota = this.#isQuota(rule);
    // A shadow rule always passes, so in quota mode it is a quota descriptor that passes.
    if (isShadow && isQuota) call.group.hasSpareQuota = true;
    if (isShadow || this.#options.shadowMode) return Kind.shadow;
    return isQuota ? Kind.quota : Kind.ordinary;
  }

  #isQuota(rule: Rule | undefined): boolean {
    return this.#options.quotaMode || rule?.isQuota === true;
  }

  // A call that asks for admission pays the global limit; a call with peeks only peeks at it; other calls do not touch it.
  #noteAdmission(hits: number, isRefund: boolean, isPostPaid: boolean): void {
    if (isRefund) return;
    if (isPostPaid ? hits === 0 : hits > 0) this.#canRefuseCall = true;
    else if (!isPostPaid) this.#hasPeek = true;
  }

  #fillGlobal(call: LimitCall, rules: DomainRules): void {
    const globalLimit = rules.globalLimit;
    if (globalLimit === undefined || !(this.#canRefuseCall || this.#hasPeek)) return;
    const take: Take = call.group.add(limitForCall(globalLimit.limit, call.request));
    take.useKeyOf(globalLimit.key);
    take.descriptor = GLOBAL_DESCRIPTOR;
    take.kind = this.#options.shadowMode ? Kind.shadow : Kind.ordinary;
    take.mode = this.#canRefuseCall ? Mode.pay : Mode.peek;
    take.cost = globalLimit.countsHits ? Math.max(1, call.request.hitsAddend) : 1;
    call.globalTake = take;
  }

  // As in the reference service: names are collected from all descriptors first, and a limit that is replaced still replaces.
  #gatherReplaced(request: LimitRequest, rules: DomainRules): void {
    for (let i = 0; i < request.descriptorCount; i++) {
      const descriptor = request.descriptors[i] as Descriptor;
      const rule = descriptor.hasOverride ? undefined : findRule(rules, descriptor, this.#matched, this.#work);
      if (rule === undefined) continue;
      for (const name of rule.unlimitedReplaces) this.#replaced.add(name);
      for (const limit of rule.limits) for (const name of limit.replaces) this.#replaced.add(name);
    }
  }
}

function tooManyLimits({ size, takesOnLogs, takesWithHolds, weight }: TakeGroup): RequestError {
  const logs = takesOnLogs === 0 ? "" : `, ${takesOnLogs} of them sliding logs that count ${LOG_WEIGHT} times`;
  const holds = takesWithHolds === 0 ? "" : `, ${takesWithHolds} of them with holds that count ${HOLD_WEIGHT} times`;
  const inAll = weight === size ? "" : `: ${weight}`;
  return new RequestError(
    "REQUEST_LIMITS_TOO_MANY",
    `expected at most ${GROUP_WEIGHT_MAX} limits for all descriptors and the global one, got ${size}${logs}${holds}${inAll}`,
  );
}

/**
 * Writes the bucket key of a descriptor without the limit's suffix. `matched` holds the rule of each entry; undefined for an
 * override, whose bucket belongs to the entries' own values.
 */
function writeBaseKey(
  keys: KeyBytes,
  rules: DomainRules,
  descriptor: Descriptor,
  matched: readonly Rule[] | undefined,
  hashesValues: boolean,
): void {
  keys.write(rules.keyPrefix);
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const entryKey = descriptor.keys[i] as string;
    if (rules.costEntries.size > 0 && rules.costEntries.has(entryKey)) continue;
    const rule = matched?.[depth++];
    if (rule?.sharesThreshold) writeSharedEntry(keys, entryKey, rule);
    else writeEntry(keys, entryKey, descriptor.values[i] as string, hashesValues);
  }
}
