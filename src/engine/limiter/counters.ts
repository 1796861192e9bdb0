// Counters, which count as envoyproxy/ratelimit does (COMPATIBILITY_MODE): their takes, their hits in metrics, the local cache that
// refuses them, and which metadata the reference service loses.

import { divideDown, MICROS_PER_SECOND } from "../base/units.ts";
import { hashBucketKey } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import { Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";
import { findRule } from "../rules/match.ts";
import type { Rule } from "../rules/rule-set.ts";
import type { LimitCall } from "./call.ts";
import { applyQuestion, type FillOptions, type Question } from "./question.ts";

/** Fills the counters of one call at a time. All of them are in the windows of one second. */
export class CounterFiller {
  readonly #options: FillOptions;
  #nowS = 0;

  constructor(options: FillOptions) {
    this.#options = options;
  }

  begin(group: TakeGroup): void {
    const { windowClock, stopsAtOver } = this.#options;
    this.#nowS = divideDown(windowClock.nowUs(), MICROS_PER_SECOND);
    group.stopsAtOver = stopsAtOver === true;
  }

  /**
   * Adds a take. `key` is the counter's key without the window (compatibility.ts). A charge of 0 hits is over only if the count is above
   * the limit already, as in the reference service.
   */
  add(group: TakeGroup, question: Question, limit: Limit, key: string): Take {
    const take = group.add(limit);
    applyQuestion(group, take, question);
    const secondsIn = this.#nowS % limit.windowSeconds;
    take.bucketKey = key + (this.#nowS - secondsIn);
    take.keyHash = hashBucketKey(take.bucketKey);
    take.windowSecondsLeft = limit.windowSeconds - secondsIn;
    take.mode = question.descriptor.isRefund ? Mode.refund : Mode.charge;
    take.cost = question.hits;
    group.hasCounters = true;
    return take;
  }
}

/**
 * Adds one take of mode charge or denied to the stats of its rule, by the count before and after it. This is the reference service's
 * arithmetic, hit for hit (test/vectors). Hits that were not charged are counted too. `isShadowRule`: the rule itself is in shadow
 * mode, not the whole service.
 */
export function countCounterHits(take: Take, isShadowRule: boolean, nearLimitRatio: number): void {
  const { stats, cost, counted } = take;
  const amount = take.limit.amount;
  if (take.mode === Mode.denied) {
    stats.overLimit += cost;
    stats.overLimitWithLocalCache += cost;
    if (isShadowRule) stats.shadowMode += cost;
    return;
  }
  // The reference subtracts unsigned numbers: if uncharged hits exceed the count, the result is huge.
  const before = counted >= cost ? counted - cost : Number.POSITIVE_INFINITY;
  const near = nearThreshold(amount, nearLimitRatio);
  if (counted <= amount) {
    stats.withinLimit += cost;
    if (counted > near) stats.nearLimit += before >= near ? cost : counted - near;
    return;
  }
  const isWhollyOver = before >= amount;
  stats.overLimit += isWhollyOver ? cost : counted - amount;
  if (!isWhollyOver) stats.nearLimit += amount - Math.max(near, before);
  if (isShadowRule) stats.shadowMode += isWhollyOver ? cost : counted - amount;
}

/** The count above which hits are near the limit. Single precision, because the reference service computes it so. */
function nearThreshold(amount: number, ratio: number): number {
  return Math.floor(Math.fround(Math.fround(amount) * Math.fround(ratio)));
}

/** The smallest size in bytes; a smaller one counts as this. */
const BYTES_MIN = 524_288;
/** Approximate size of an entry without the text of its key. */
const ENTRY_BYTES = 100;
/** Entries checked, oldest first, when one is added; expired ones are dropped and not counted. */
const LOOKS_PER_ADD = 2;

/** A counter that is over: when its window ends, in seconds, and the amount that it is over. */
interface OverCounter {
  readonly endS: number;
  readonly amount: number;
}

/**
 * Remembers counters that are over until their window ends, so that they are refused without the store (LOCAL_CACHE_SIZE_IN_BYTES). A
 * key contains its window, so an expired entry denies nothing and only takes memory.
 */
export class LocalCache {
  readonly #bytesMax: number;
  /** By key, in insertion order. */
  readonly #over = new Map<string, OverCounter>();
  #bytes = 0;
  /** Counters looked up. */
  lookups = 0;
  /** Counters that were found. */
  hits = 0;
  /** Counters dropped because their window had ended. */
  expired = 0;
  /** Counters dropped for lack of memory. */
  evicted = 0;

  constructor(bytes: number) {
    this.#bytesMax = Math.max(BYTES_MIN, bytes);
  }

  /** Number of remembered keys. */
  get size(): number {
    return this.#over.size;
  }

  /**
   * Marks the takes of remembered counters as denied. True if no take is left for the store. As in the reference service, a call that brings a
   * higher limit is denied, too; a caller whose limit was raised at run time (`runtime`, by descriptor) is not.
   */
  deny(group: TakeGroup, runtime: readonly unknown[] = []): boolean {
    let isAnswered = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.charge) this.lookups++;
      const known = take.mode === Mode.charge ? this.#over.get(take.bucketKey) : undefined;
      const isRaised = runtime[take.descriptor] !== undefined && take.limit.amount > (known?.amount ?? 0);
      if (known !== undefined && !isRaised) {
        this.hits++;
        take.mode = Mode.denied;
        take.outcome = Outcome.over;
      } else isAnswered = false;
    }
    return isAnswered;
  }

  /** Learns from a settled group: remembers counters that are over, forgets refunded ones. `nowS` is the current second. */
  learn(group: TakeGroup, nowS: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.charge && take.outcome === Outcome.over) {
        this.#add(take, nowS + take.windowSecondsLeft, nowS);
      } else if (take.mode === Mode.refund && this.#over.has(take.bucketKey)) this.#drop(take.bucketKey);
    }
  }

  #add({ bucketKey: key, limit: { amount } }: Take, endS: number, nowS: number): void {
    const isNew = !this.#over.has(key);
    this.#over.set(key, { endS, amount });
    if (!isNew) return;
    this.#bytes += bytesOf(key);
    let looks = 0;
    for (const [oldest, { endS: oldestEndS }] of this.#over) {
      const isExpired = oldestEndS <= nowS;
      if (isExpired || this.#bytes > this.#bytesMax) {
        if (isExpired) this.expired++;
        else this.evicted++;
        this.#drop(oldest);
      } else if (++looks >= LOOKS_PER_ADD) return;
    }
  }

  #drop(key: string): void {
    this.#over.delete(key);
    this.#bytes -= bytesOf(key);
  }
}

function bytesOf(key: string): number {
  return key.length + ENTRY_BYTES;
}

/**
 * True if the reference service would lose the metadata of the rule of descriptor `index`: it does whenever hits are counted under
 * another name than the rule's own.
 */
export function losesMetadata(call: LimitCall, index: number): boolean {
  const { domain, request } = call;
  const descriptor = request.descriptors[index] as Descriptor;
  const matched: Rule[] = [];
  if (domain === undefined || descriptor.hasOverride) return false;
  const rule = findRule(domain, descriptor, matched);
  if (rule === undefined) return false;
  if (rule.detailedMetric && rule.children === undefined) return true;
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (domain.costEntries.has(descriptor.keys[i] as string)) continue;
    if (isCountedByOtherName(matched[depth++] as Rule, descriptor.values[i] as string)) return true;
  }
  return false;
}

function isCountedByOtherName(rule: Rule, value: string): boolean {
  if (rule.patternText === "" && rule.key.includes("*")) return true;
  if (rule.sharesThreshold || !rule.valueToMetric) return false;
  return rule.pattern.kind !== "exact" && value !== "" && value !== rule.patternText;
}
