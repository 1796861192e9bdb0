// sync: lease. A process pays some tokens of a busy bucket in advance and spends them in memory. Tokens that it has not
// spent in time are given back by receipt. sync-store.ts decides calls with it. Everything here is synchronous, and
// nothing throws.

import type { Clock } from "../../base/clock.ts";
import { divideDown } from "../../base/units.ts";
import { ALGORITHM_TRAITS, type Limit } from "../../engine/domain/limit.ts";
import type { Store } from "../../engine/domain/store.ts";
import { Kind, Mode, Outcome, Source, type Take, TakeGroup } from "../../engine/domain/take.ts";
import { type LastAnswer, noteAnswer, remainingOf, resetUsOf } from "../last-answer.ts";

/** A lease is spent or given back within this time. */
const LEASE_US = 200_000;
/** The leases of all processes together have at most the burst divided by this. */
const BURST_PARTS = 4;
/** Interval of `maintain`. */
export const MAINTENANCE_MS = 50;
/** Most buckets with leases; takes of others go to the shared store. */
const LEASES_MAX = 10_000;
/** Longest time without a lease for a bucket that was just over. */
const HOLD_OFF_US_MAX = 1_000_000;

/** What a process holds of one bucket, and its state by the shared store's last answer. */
class Lease implements LastAnswer {
  readonly bucketKey: string;
  readonly keyHash: number;
  readonly limit: Limit;
  remaining = 0;
  resetAtUs = 0;
  /** Tokens that are paid for and not spent. */
  tokens = 0;
  /** Tokens that were paid for. */
  size = 0;
  untilUs = 0;
  /** Receipt of the tokens: when they were paid. */
  paidAtUs = 0;
  isAsking = false;
  /** When the last lease was asked for that the store has answered. */
  knownSinceUs = Number.NEGATIVE_INFINITY;
  /** Time of the last take that went to the shared store. */
  askedUs = Number.NEGATIVE_INFINITY;
  holdOffUntilUs = 0;

  constructor(take: Take) {
    this.bucketKey = take.bucketKey;
    this.keyHash = take.keyHash;
    this.limit = take.limit;
  }
}

/**
 * Takes at most burst / (4 N) tokens in advance, where N is the number of processes, and spends them in memory: for at
 * most LEASE_US after they were asked for, and never beyond a fixed window. Every granted token was paid at most
 * LEASE_US before; and at any moment at most a quarter of the burst has been paid and is not granted yet. So in any
 * time t a token bucket grants at most 1.25 x burst + rate x t, a fixed window its limit, other kinds 1.25 x their
 * limit (test/property/lease.test.ts). If a process dies, its leases are lost to their buckets: fewer calls pass, never
 * more.
 *
 * A bucket is leased only if it was asked for twice within LEASE_US. A cost above the tokens held goes to the shared
 * store.
 */
export class Leases {
  readonly #store: Store;
  readonly #processCount: () => number;
  readonly #leases = new Map<string, Lease>();
  readonly #clock: Clock;
  readonly #idle: TakeGroup[] = [];
  readonly #returned = new TakeGroup();

  /** `processCount`: ProcessCounts.sureCount. Infinity while the count is not sure, and then nothing is leased. */
  constructor(store: Store, processCount: () => number, clock: Clock) {
    this.#store = store;
    this.#processCount = processCount;
    this.#clock = clock;
  }

  /**
   * Answers a take, and pays it, from the tokens held. False if the shared store has to answer; then nothing was
   * written.
   */
  take(take: Take, nowUs: number): boolean {
    if (take.mode !== Mode.pay && take.mode !== Mode.peek) return false;
    const lease = this.#leases.get(take.bucketKey);
    if (lease === undefined || lease.tokens < take.cost || lease.limit !== take.limit || nowUs >= lease.untilUs) {
      return false;
    }
    if (take.mode === Mode.pay) {
      lease.tokens -= take.cost;
      take.paid = true;
      take.paidAtUs = lease.paidAtUs;
    }
    take.outcome = Outcome.room;
    take.waitUs = 0;
    describe(lease, take, nowUs);
    return true;
  }

  /** Writes the bucket's present state into a take that was answered here. */
  describe(take: Take, nowUs: number): void {
    const lease = this.#leases.get(take.bucketKey);
    if (lease !== undefined) describe(lease, take, nowUs);
  }

  /** Notes a take that goes to the shared store to pay. */
  asks(take: Take): void {
    const lease = this.#leases.get(take.bucketKey);
    if (lease === undefined || lease.limit === take.limit) return;
    // A lease under another limit goes back before the take, which then finds the unspent tokens.
    this.#returnRest(lease);
    this.#leases.delete(take.bucketKey);
  }

  /** Called when such a take is on its way. May ask for more tokens, behind it and mostly in the same batch. */
  prefetch(take: Take, nowUs: number): void {
    const size = divideDown(take.limit.burst, BURST_PARTS * Math.max(1, this.#processCount()));
    if (size === 0) return;
    const lease = this.#obtain(take);
    if (lease === undefined || lease.isAsking) return;
    const isBusy = nowUs - lease.askedUs <= LEASE_US;
    lease.askedUs = nowUs;
    if (isBusy && nowUs >= lease.holdOffUntilUs) this.#ask(lease, size, nowUs);
  }

  /** Takes the shared store's answer to a take that was sent at `sentUs`. */
  learn(take: Take, sentUs: number, nowUs: number): void {
    const lease = this.#leases.get(take.bucketKey);
    if (lease?.limit !== take.limit) return;
    // What was asked for behind it may have been answered before it, and is newer.
    if (sentUs > lease.knownSinceUs) noteOutcome(lease, take, nowUs);
  }

  #ask(lease: Lease, size: number, nowUs: number): void {
    // The rest is given back in the same batch, before anything is paid, so never more than `size` is held.
    this.#returnRest(lease);
    lease.isAsking = true;
    const group = this.#idle.pop() ?? new TakeGroup();
    addPayment(group, lease, size);
    const answered = () => this.#onAnswer(lease, group, nowUs);
    if (this.#store.take(group, { answered })) answered();
  }

  #onAnswer(lease: Lease, group: TakeGroup, sentUs: number): void {
    const take = group.takes[0] as Take;
    lease.isAsking = false;
    if (take.outcome !== Outcome.unanswered && group.source === Source.store) {
      noteOutcome(lease, take, this.#clock.nowUs());
      lease.knownSinceUs = sentUs;
    }
    // The rules may have been replaced while this was under way, or the bucket forgotten.
    if (take.paid && this.#leases.get(lease.bucketKey) !== lease) {
      this.#giveBack(lease, take.cost, take.paidAtUs);
    } else if (take.paid) {
      lease.tokens = take.cost;
      lease.size = take.cost;
      lease.paidAtUs = take.paidAtUs;
      lease.untilUs = sentUs + LEASE_US;
      // resetUs was measured by the server's clock, after `sentUs`; a microsecond is left for the rounding of both
      // clocks.
      if (ALGORITHM_TRAITS[lease.limit.algorithm].endsAtOnce)
        lease.untilUs = Math.min(lease.untilUs, sentUs + take.resetUs - 1);
    }
    group.reset();
    this.#idle.push(group);
  }

  /** Puts a paid take back; does not change its answer. False if the shared store was paid and must get it back. */
  giveBack(take: Take, nowUs: number): boolean {
    const lease = this.#leases.get(take.bucketKey);
    if (lease === undefined || lease.limit !== take.limit) return false;
    if (lease.paidAtUs !== take.paidAtUs || nowUs >= lease.untilUs || lease.tokens === 0) return false;
    // A take that the store paid may have the same receipt. Its cost goes to the store: a lease never holds more than
    // its size.
    if (lease.tokens + take.cost > lease.size) return false;
    lease.tokens += take.cost;
    return true;
  }

  /** Drops what is held of a bucket that was reset or refunded at the store. */
  forget(bucketKey: string): void {
    const lease = this.#leases.get(bucketKey);
    if (lease === undefined) return;
    // A reset bucket has no payments, so there is nothing to give back.
    lease.tokens = 0;
    this.#leases.delete(bucketKey);
  }

  /** Gives back what was not spent in time. */
  maintain(nowUs: number): void {
    for (const lease of this.#leases.values()) {
      if (nowUs < lease.untilUs) continue;
      this.#returnRest(lease);
      if (!lease.isAsking && nowUs - lease.askedUs > LEASE_US && nowUs >= lease.holdOffUntilUs) {
        this.#leases.delete(lease.bucketKey);
      }
    }
  }

  /** Gives everything back. */
  close(): void {
    for (const lease of this.#leases.values()) this.#returnRest(lease);
    this.#leases.clear();
  }

  #obtain(take: Take): Lease | undefined {
    let lease = this.#leases.get(take.bucketKey);
    if (lease === undefined && this.#leases.size < LEASES_MAX) {
      lease = new Lease(take);
      this.#leases.set(take.bucketKey, lease);
    }
    return lease;
  }

  #returnRest(lease: Lease): void {
    if (lease.tokens > 0) this.#giveBack(lease, lease.tokens, lease.paidAtUs);
    lease.tokens = 0;
    lease.untilUs = 0;
  }

  #giveBack(lease: Lease, cost: number, paidAtUs: number): void {
    this.#returned.reset();
    Object.assign(addPayment(this.#returned, lease, cost), { paid: true, paidAtUs });
    this.#store.giveBack(this.#returned);
  }
}

/** Adds a take on the bucket that no request has. */
function addPayment(group: TakeGroup, { bucketKey, keyHash, limit }: Lease, cost: number): Take {
  return Object.assign(group.add(limit), {
    bucketKey,
    keyHash,
    descriptor: 0,
    kind: Kind.ordinary,
    mode: Mode.pay,
    cost,
  });
}

function noteOutcome(lease: Lease, take: Take, nowUs: number): void {
  noteAnswer(lease, lease.limit, take, nowUs);
  if (take.outcome !== Outcome.room) lease.holdOffUntilUs = nowUs + Math.min(HOLD_OFF_US_MAX, take.waitUs);
}

/** Writes what was left by the last answer of the shared store, plus the tokens held here. */
function describe(lease: Lease, take: Take, nowUs: number): void {
  take.remaining = Math.min(take.limit.burst, remainingOf(lease, lease.limit, nowUs) + lease.tokens);
  take.resetUs = Math.max(1, resetUsOf(lease, lease.limit, nowUs));
  take.cappedHits = 0;
}
