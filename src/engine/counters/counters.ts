// Counters, which count as envoyproxy/ratelimit does (COMPATIBILITY_MODE), as the limiter sees them: their takes, their
// hits in metrics, the local cache that refuses them, and whose limit headers show. stores/counters charges them before
// a store is asked for the rest of a call.

import type { Clock } from "../../base/clock.ts";
import { AMOUNT_MAX, divideDown, MICROS_PER_SECOND } from "../../base/units.ts";
import { hashBucketKey } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import { isOver, Kind, Mode, Outcome, Source, type Take, type TakeGroup, Verdict } from "../domain/take.ts";
import type { LimitCall } from "../limiter/call.ts";
import { countOver, strictestOf, wasDenied, wouldRefuse } from "../limiter/decision.ts";
import { applyQuestion, type CounterRoom, type Question } from "../limiter/question.ts";
import type { LocalCache } from "./local-cache.ts";

interface CountersOptions {
  /** Defines the windows: the clock that other services on the same counters use. */
  readonly windowClock: Clock;
  readonly nearLimitRatio: number;
  readonly shadowMode: boolean;
  readonly quotaMode: boolean;
  readonly localCache: LocalCache | undefined;
}

/** The counters of calls, one call at a time. All counters of a call are in the windows of one second. */
export class Counters implements CounterRoom {
  readonly #options: CountersOptions;
  #nowS = 0;

  constructor(options: CountersOptions) {
    this.#options = options;
  }

  begin(): void {
    this.#nowS = divideDown(this.#options.windowClock.nowUs(), MICROS_PER_SECOND);
  }

  /**
   * Adds a take. `key` is the counter's key without the window (CounterRules.keyOf). A charge of 0 hits is over only if
   * the count is above the limit already, as in the reference service.
   */
  add(group: TakeGroup, question: Question, limit: Limit, key: string): Take {
    const take = group.add(limit);
    applyQuestion(group, take, question);
    const secondsIn = this.#nowS % limit.windowSeconds;
    take.bucketKey = key + (this.#nowS - secondsIn);
    take.keyHash = hashBucketKey(take.bucketKey);
    take.resetUs = (limit.windowSeconds - secondsIn) * MICROS_PER_SECOND;
    take.mode = question.descriptor.isRefund ? Mode.refund : Mode.pay;
    take.cost = question.hits;
    return take;
  }

  denies(call: LimitCall): boolean {
    const { localCache, shadowMode, quotaMode } = this.#options;
    const { group } = call;
    if (localCache === undefined || !localCache.deny(group, call.runtime)) return false;
    group.verdict = !shadowMode && wouldRefuse(call, quotaMode) ? Verdict.refused : Verdict.allowed;
    group.source = Source.denialMemory;
    return true;
  }

  learn(group: TakeGroup, nowUs: number): void {
    this.#options.localCache?.learn(group, divideDown(nowUs, MICROS_PER_SECOND));
  }

  tally(call: LimitCall, take: Take): boolean {
    if (!take.limit.isCounter) return false;
    if (take.mode === Mode.refund) return true;
    if (wasDenied(take)) {
      countOver(take, call.group.source);
      take.stats.deniedUnanswered += take.cost;
    } else if (take.outcome !== Outcome.unanswered) {
      countCounterHits(take, call.rules[take.descriptor]?.kind === Kind.shadow, this.#options.nearLimitRatio);
    }
    return true;
  }

  /**
   * As the reference service picks the descriptor of its headers: the first descriptor with the least remaining, unless
   * descriptors refuse that are no quota descriptors; then the last of these. A global limit that refuses governs in
   * any case, and one that does not if no descriptor has a limit of its own.
   */
  govern(call: LimitCall): void {
    if (call.globalTake !== undefined && isOver(call.globalTake)) return;
    const { quotaMode } = this.#options;
    let governing: Take | undefined;
    let hasOwn = false;
    let least = AMOUNT_MAX;
    for (let i = 0; i < call.request.descriptorCount; i++) {
      const shown = strictestOf(call, i, undefined);
      if (shown === undefined) continue;
      hasOwn = true;
      const takesOver = call.decision.statuses[i]?.overLimit === true && !quotaMode && call.rules[i]?.isQuota !== true;
      if (!takesOver && shown.remaining >= least) continue;
      governing = shown;
      least = takesOver ? 0 : shown.remaining;
    }
    if (hasOwn) call.governing = governing;
  }
}

/**
 * Adds one take that is charged or denied to the stats of its rule, by the count before and after it. This is the
 * reference service's arithmetic, hit for hit (test/vectors). Hits that were not charged are counted too.
 * `isShadowRule`: the rule itself is in shadow mode, not the whole service.
 */
function countCounterHits(take: Take, isShadowRule: boolean, nearLimitRatio: number): void {
  const { stats, cost, count } = take;
  const amount = take.limit.amount;
  if (take.mode === Mode.denied) {
    stats.overLimit += cost;
    stats.overLimitWithLocalCache += cost;
    if (isShadowRule) stats.shadowMode += cost;
    return;
  }
  // The reference subtracts unsigned numbers: if uncharged hits exceed the count, the result is huge.
  const before = count >= cost ? count - cost : Number.POSITIVE_INFINITY;
  const near = nearThreshold(amount, nearLimitRatio);
  if (count <= amount) {
    stats.withinLimit += cost;
    if (count > near) stats.nearLimit += before >= near ? cost : count - near;
    return;
  }
  const isWhollyOver = before >= amount;
  stats.overLimit += isWhollyOver ? cost : count - amount;
  if (!isWhollyOver) stats.nearLimit += amount - Math.max(near, before);
  if (isShadowRule) stats.shadowMode += isWhollyOver ? cost : count - amount;
}

/** The count above which hits are near the limit. Single precision, because the reference service computes it so. */
function nearThreshold(amount: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(amount) * Math.fround(ratio)));
}
