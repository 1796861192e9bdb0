// Keeps calls on locked rows away from the rest. A call takes the rows that it gets at once, and never waits for a row
// while it holds others: groups with locked rows are passed over, unpaid, and come again in the queue that waits.
// If one transaction keeps a row for too long to wait, groups on that row fail at once.

import type { TakeGroup } from "../../engine/domain/take.ts";

/** How a batch treats locked rows. */
export const Queue = {
  /** Waits for no row. */
  free: 0,
  /** Waits for rows that other calls of Headgate lock, for milliseconds. One call at a time. */
  contended: 1,
  /** Waits for no row: somebody keeps it locked for long. One call at a time. */
  held: 2,
  /** Sends nothing: somebody has inserted the row and not committed, which a call can notice only by waiting. */
  closed: 3,
  /**
   * Groups of one plain take on rows that are not known to be locked: take_each pays them, what it leaves comes again.
   */
  plain: 4,
} as const;

/**
 * In place of a holder: the row is inserted and not committed, so its transaction can't be seen. Calls wait half as
 * long for it.
 */
export const UNKNOWN_HOLDER = -1;

/** In place of a holder: nobody holds the row, but take_each has left the take to the settlement under lock. */
export const NOT_PLAIN = -2;

/** How long a key stays in its queue after its row was last found locked. */
const STAYS_US = 200_000;
/** How long a key stays closed, in waits: others wait that long at most for the rows of the call that looks again. */
const CLOSED_WAITS = 10;
/** Most keys remembered; with more, the oldest are forgotten and found again. */
const KEYS_MAX = 1_000;

interface HeldKey {
  /** The transaction that last held the row. */
  readonly holder: number;
  /** When this transaction was first seen to hold it. */
  readonly sinceUs: number;
  readonly queue: number;
  readonly untilUs: number;
}

/** Remembers locked rows. Times are microseconds of the process's Clock. */
export class LockedKeys {
  readonly #heldUs: number;
  readonly #keys = new Map<string, HeldKey>();

  /** A row that one transaction keeps for longer than `heldUs` is not waited for. */
  constructor(heldUs: number) {
    this.#heldUs = heldUs;
  }

  /** The queue of a group: the worst queue of its keys. */
  queueOf(group: TakeGroup, nowUs: number): number {
    if (this.#keys.size === 0) return Queue.free;
    let queue: number = Queue.free;
    for (let i = 0; i < group.size; i++) {
      const key = group.takes[i]?.bucketKey ?? "";
      const held = this.#keys.get(key);
      if (held !== undefined && held.untilUs > nowUs) queue = Math.max(queue, held.queue);
    }
    return queue;
  }

  /**
   * Notes that a group was passed over because `holder` (UNKNOWN_HOLDER, too) has the row of this key. Returns the
   * queue in which the group waits; undefined: it waits no more.
   */
  passedOver(group: TakeGroup, key: string, holder: number, nowUs: number): number | undefined {
    const known = this.#keys.get(key);
    // Transactions that insert rows differ only by the time between them.
    const isKnown = known?.holder === holder && (holder !== UNKNOWN_HOLDER || known.untilUs > nowUs);
    const sinceUs = isKnown ? known.sinceUs : nowUs;
    // Without a holder the row was inserted at this moment.
    const isLong = holder !== 0 && nowUs - sinceUs >= (holder === UNKNOWN_HOLDER ? this.#heldUs / 2 : this.#heldUs);
    const queue = !isLong ? Queue.contended : holder === UNKNOWN_HOLDER ? Queue.closed : Queue.held;
    const staysUs = queue === Queue.closed ? CLOSED_WAITS * this.#heldUs : STAYS_US;
    this.#keys.delete(key);
    this.#keys.set(key, { holder, sinceUs, queue, untilUs: nowUs + staysUs });
    if (this.#keys.size > KEYS_MAX) this.#keys.delete(this.#keys.keys().next().value ?? "");
    if (isLong) return undefined;
    // The worst queue of its keys: if it waited for a row that is held for long, it would keep the others locked
    // meanwhile.
    const worst = this.queueOf(group, nowUs);
    return worst === Queue.closed ? undefined : worst;
  }
}
