// Refuses what a shared store has just refused, without asking the store again. It is always in front of that store, so
// a caller that is over its limit and keeps calling costs a look-up in memory.

import type { Clock } from "../../base/clock.ts";
import { RecentMap } from "../../base/recent-map.ts";
import { limitJudged } from "../../engine/domain/guarantee.ts";
import { type Limit, WAIT_US_MAX } from "../../engine/domain/limit.ts";
import { type BucketMemory, NOBODY, type Store, type TakeListener } from "../../engine/domain/store.ts";
import { isOver, Mode, Outcome, Source, type Take, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { endOfDescriptor, VerdictFold } from "../../engine/domain/verdict.ts";
import { type LastAnswer, noteAnswer, remainingOf, resetUsOf, tellsWaits, waitUsOf } from "../last-answer.ts";

/**
 * Answers are used for this long at most after their question was sent; a refund, reset or loss elsewhere shows here as
 * late.
 */
export const DENIAL_US_MAX = 1_000_000;

/** Larger groups are always passed on, because each take is compared with all before it. */
const TAKES_MAX = 16;

interface DenialMemoryOptions {
  readonly clock: Clock;
  /** Most buckets remembered. A bucket takes about 250 bytes, and its key. */
  readonly entriesMax: number;
}

/** The store's last answers about one bucket. */
class RememberedBucket implements LastAnswer {
  readonly bucketKey: string;
  /**
   * The limit of the answer: calls of another priority pay the same bucket by another limit, and know nothing by it.
   * Undefined if nothing is known; the entry only makes older answers be ignored.
   */
  limit: Limit | undefined = undefined;
  remaining = 0;
  resetAtUs = 0;
  /** End of the use of this entry. */
  untilUs = 0;
  /** The smallest refused cost; Infinity if none was refused. */
  refusedCost = Number.POSITIVE_INFINITY;
  /** End of the refusal. */
  refusedUntilUs = 0;
  /** When the refused cost passes, by the answer. */
  passesAtUs = 0;
  /** Number of the take that the answer came from, in the order of sending; answers of earlier takes are ignored. */
  sequence = 0;
  /** Number of the last take before something was undone; refusals of takes up to it are ignored. */
  undoneSequence = 0;

  constructor(bucketKey: string) {
    this.bucketKey = bucketKey;
  }
}

/**
 * Remembers the smallest refused cost of each bucket, and refuses that cost and larger ones.
 *
 * - It never allows anything. A refusal is right if nobody else has given back since
 *   (test/property/denial-memory.test.ts).
 * - A refusal ends with its wait, and at the latest DENIAL_US_MAX after its question was sent.
 * - It answers a group only if all of its takes are known and these alone refuse it. Then each take gets the store's
 *   answer: over, or room as of at most DENIAL_US_MAX ago. All other groups go to the store whole.
 * - An answer counts for the limit object that was asked by: other rules after a reload, and calls of another priority,
 *   know nothing by it.
 * - Of several answers about a bucket the one that was asked for last counts, in whichever order they come
 *   (`sequence`).
 * - A take that its caller's guarantee may cover is refused only if the guarantee is known to lack room too.
 * - What this process gives back, refunds or resets is forgotten at once, and answers to questions before that are not
 *   learned. After a call that was undone only refusals are (`undoneSequence`): it may have caused them.
 */
export class DenialMemory implements Store, BucketMemory {
  readonly #store: Store;
  readonly #clock: Clock;
  /** By bucket key. */
  readonly #buckets: RecentMap<string, RememberedBucket>;
  readonly #idle: PendingGroup[] = [];
  /** What is known of the takes of the present group. */
  readonly #found: RememberedBucket[] = [];
  readonly #fold = new VerdictFold();
  /** Latest end of any refusal: after it, takes are passed on unchecked. */
  #latestRefusalUs = 0;
  /** Latest end of anything known: until then, answers to paid takes are read as well. */
  #latestKnownUs = 0;
  #sequence = 0;

  constructor(store: Store, options: DenialMemoryOptions) {
    this.#store = store;
    this.#clock = options.clock;
    this.#buckets = new RecentMap(Math.max(1, Math.floor(options.entriesMax / 2)));
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    const nowUs = this.#clock.nowUs();
    if (nowUs < this.#latestRefusalUs && this.#isRefused(group, nowUs)) {
      this.#refuse(group, nowUs);
      return true;
    }
    this.#forgetRefunded(group);
    this.#sequence++;
    const pending = this.#idle.pop() ?? new PendingGroup(this);
    pending.next = then;
    pending.sentUs = nowUs;
    pending.sequence = this.#sequence;
    if (!this.#store.take(group, pending)) return false;
    this.#learn(group, pending);
    this.#idle.push(pending);
    return true;
  }

  giveBack(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take?.paid) this.forget(take.bucketKey);
    }
    this.#store.giveBack(group);
  }

  /** The entry stays, so that answers to takes that were sent earlier are ignored. */
  forget(bucketKey: string): void {
    const entry = this.#obtain(bucketKey);
    this.#sequence++;
    entry.limit = undefined;
    entry.refusedCost = Number.POSITIVE_INFINITY;
    entry.sequence = this.#sequence;
    entry.untilUs = this.#clock.nowUs() + DENIAL_US_MAX;
  }

  /**
   * Forgets only the refusal of a bucket. A call that was refused in the end has held some of the bucket for a moment,
   * and other calls may have been refused because of it.
   */
  forgetRefusal({ bucketKey }: Pick<Take, "bucketKey">): void {
    const entry = this.#obtain(bucketKey);
    entry.refusedCost = Number.POSITIVE_INFINITY;
    // Refusals of takes that were sent earlier are not learned; the rest of such an answer is, also for the call
    // itself.
    entry.undoneSequence = this.#sequence;
    const nowUs = this.#clock.nowUs();
    if (nowUs < entry.untilUs) return;
    entry.limit = undefined;
    entry.untilUs = nowUs + DENIAL_US_MAX;
  }

  close(): Promise<void> {
    this.#latestRefusalUs = 0;
    return this.#store.close();
  }

  /** Called by `PendingGroup` when the store has decided its group. */
  answeredLater(pending: PendingGroup, group: TakeGroup, generation: number): void {
    const { next } = pending;
    if (group.generation === generation) this.#learn(group, pending);
    pending.next = NOBODY;
    this.#idle.push(pending);
    next.answered(group, generation);
  }

  /** Whether all takes are known, and refuse the group; they are in `#found` then. */
  #isRefused(group: TakeGroup, nowUs: number): boolean {
    if (group.size > TAKES_MAX) return false;
    this.#fold.begin();
    let end = 0;
    for (let start = 0; start < group.size; start = end) {
      end = endOfDescriptor(group, start);
      let isDescriptorOver = false;
      for (let i = start; i < end; i++) {
        const known = this.#known(group, i, nowUs);
        if (known === undefined) return false;
        this.#found[i] = known;
        const { mode, cost } = group.takes[i] as Take;
        if (mode === Mode.guarantee && cost < known.refusedCost) return false;
        if (mode !== Mode.guarantee && cost >= known.refusedCost) isDescriptorOver = true;
      }
      this.#fold.add((group.takes[start] as Take).kind, isDescriptorOver);
    }
    return this.#fold.refuses(group.hasSpareQuota);
  }

  /** What is known of a take's bucket, if it is enough to answer the take completely. */
  #known(group: TakeGroup, index: number, nowUs: number): RememberedBucket | undefined {
    const take = group.takes[index] as Take;
    const { limit, cost } = take;
    if (!isQuestion(take)) return undefined;
    // Another process may settle a hold at any moment.
    if (limit.holdSeconds > 0) return undefined;
    const known = this.#buckets.peek(take.bucketKey);
    if (known === undefined || known.limit !== limit || nowUs >= known.untilUs) return undefined;
    // If the group names a bucket twice, the second take is judged after the first one's payment.
    for (let i = 0; i < index; i++) if (this.#found[i]?.bucketKey === known.bucketKey) return undefined;
    if (cost < known.refusedCost) return cost <= remainingOf(known, limit, nowUs) ? known : undefined;
    if (nowUs >= known.refusedUntilUs) return undefined;
    return cost === known.refusedCost || cost > limit.burst || tellsWaits(limit) ? known : undefined;
  }

  #refuse(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const known = this.#found[i] as RememberedBucket;
      const { limit, cost } = take;
      take.paid = false;
      take.paidAtUs = 0;
      take.cappedHits = 0;
      take.remaining = remainingOf(known, limit, nowUs);
      take.resetUs = resetUsOf(known, limit, nowUs);
      if (cost < known.refusedCost) {
        take.outcome = Outcome.room;
        take.waitUs = 0;
      } else if (cost > limit.burst) {
        take.outcome = Outcome.never;
        take.waitUs = 0;
      } else {
        take.outcome = Outcome.over;
        // A bucket that never refills has the same wait at all times.
        const isExact = cost === known.refusedCost && known.resetAtUs !== Number.POSITIVE_INFINITY;
        take.waitUs = isExact ? known.passesAtUs - nowUs : waitUsOf(known, limit, cost, nowUs);
      }
      if (take.mode === Mode.guarantee) {
        if (take.outcome === Outcome.never) take.waitUs = WAIT_US_MAX;
        // The wait of the refused cost itself was for both rooms.
        else if (cost !== known.refusedCost) take.waitUs = Math.max(take.waitUs, this.#roomWaitUs(group, i, nowUs));
        take.outcome = Outcome.room;
      }
    }
    group.verdict = Verdict.refused;
    group.source = Source.denialMemory;
  }

  /** How long the guarantee's way waits for the whole room of the shared limit, whose take is the next one. */
  #roomWaitUs({ takes }: TakeGroup, index: number, nowUs: number): number {
    const { limit, cost } = takes[index + 1] as Take;
    const { covers: whole = limit } = (takes[index] as Take).limit;
    if (cost > whole.burst) return WAIT_US_MAX;
    return waitUsOf(this.#found[index + 1] as RememberedBucket, whole, cost, nowUs);
  }

  #learn(group: TakeGroup, pending: PendingGroup): void {
    if (group.source !== Source.store) return;
    if (group.verdict === Verdict.refused && onlyAsks(group)) this.#learnRefused(group, pending);
    else if (pending.sentUs < this.#latestKnownUs) this.#learnSettled(group, pending);
  }

  // Nothing was paid, so every answer describes the bucket as it is. But a second take of the same bucket was judged
  // after the first one's payment.
  #learnRefused(group: TakeGroup, pending: PendingGroup): void {
    const nowUs = this.#clock.nowUs();
    for (let i = 0; i < group.size && i < TAKES_MAX; i++) {
      const take = group.takes[i] as Take;
      if (take.outcome === Outcome.unanswered || isNamedBefore(group, i)) continue;
      const entry = this.#obtain(take.bucketKey);
      if (entry.sequence > pending.sequence) continue;
      const isOutdated = entry.undoneSequence >= pending.sequence;
      const isRefused = lacksRoom(take) && !isOutdated;
      const isSmaller =
        entry.limit !== limitJudged(group, i) || take.cost <= entry.refusedCost || nowUs >= entry.refusedUntilUs;
      this.#note(entry, take, limitJudged(group, i), pending, nowUs);
      entry.untilUs = pending.sentUs + DENIAL_US_MAX;
      if (entry.untilUs > this.#latestKnownUs) this.#latestKnownUs = entry.untilUs;
      if (isRefused && isSmaller) this.#noteRefusal(entry, take, pending.sentUs, nowUs);
      else if (!isRefused && take.cost >= entry.refusedCost) entry.refusedCost = Number.POSITIVE_INFINITY;
    }
  }

  // Payments, refunds and takes with room change what is known of a bucket, but are no reason to remember one, or to
  // remember it longer.
  #learnSettled(group: TakeGroup, pending: PendingGroup): void {
    const nowUs = this.#clock.nowUs();
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.outcome === Outcome.unanswered) continue;
      const entry = this.#buckets.peek(take.bucketKey);
      if (entry === undefined || entry.limit === undefined || entry.sequence > pending.sequence) continue;
      const limit = limitJudged(group, i);
      const keepsRefusal = entry.limit === limit && !take.paid && take.cost < entry.refusedCost;
      this.#note(entry, take, limit, pending, nowUs);
      if (!keepsRefusal) entry.refusedCost = Number.POSITIVE_INFINITY;
    }
  }

  #note(entry: RememberedBucket, take: Take, limit: Limit, pending: PendingGroup, nowUs: number): void {
    if (entry.limit !== limit) entry.refusedCost = Number.POSITIVE_INFINITY;
    entry.limit = limit;
    entry.sequence = pending.sequence;
    noteAnswer(entry, limit, take, nowUs);
  }

  #noteRefusal(entry: RememberedBucket, take: Take, sentUs: number, nowUs: number): void {
    entry.refusedCost = take.cost;
    entry.passesAtUs = nowUs + take.waitUs;
    // The wait began after the take was sent, by the server's clock; a microsecond is left for the rounding of both
    // clocks.
    const waitUs = take.waitUs === 0 ? DENIAL_US_MAX : take.waitUs - 1;
    entry.refusedUntilUs = sentUs + Math.min(DENIAL_US_MAX, waitUs);
    if (entry.refusedUntilUs > this.#latestRefusalUs) this.#latestRefusalUs = entry.refusedUntilUs;
  }

  #forgetRefunded(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.refund) this.forget(take.bucketKey);
    }
  }

  #obtain(bucketKey: string): RememberedBucket {
    let entry = this.#buckets.get(bucketKey);
    if (entry !== undefined) return entry;
    entry = new RememberedBucket(bucketKey);
    this.#buckets.set(bucketKey, entry);
    return entry;
  }
}

/** A group on its way to the store; pooled. */
class PendingGroup implements TakeListener {
  readonly #memory: DenialMemory;
  next: TakeListener = NOBODY;
  sentUs = 0;
  sequence = 0;

  constructor(memory: DenialMemory) {
    this.#memory = memory;
  }

  answered(group: TakeGroup, generation: number): void {
    this.#memory.answeredLater(this, group, generation);
  }
}

/** Whether the group only pays and peeks: its refusal leaves every bucket unchanged. */
function onlyAsks(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if (!isQuestion(group.takes[i] as Take)) return false;
  return true;
}

function isQuestion({ mode }: Take): boolean {
  return mode === Mode.pay || mode === Mode.peek || mode === Mode.guarantee;
}

/** A guarantee without room puts nothing over, but has to wait. */
function lacksRoom(take: Take): boolean {
  return isOver(take) || take.waitUs > 0;
}

function isNamedBefore(group: TakeGroup, index: number): boolean {
  const { bucketKey } = group.takes[index] as Take;
  for (let i = 0; i < index; i++) if ((group.takes[i] as Take).bucketKey === bucketKey) return true;
  return false;
}
