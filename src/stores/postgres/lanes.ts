// Keeps calls on rows that others hold away from the rest. A call takes what rows it gets at once, and never waits for one
// while it holds others: groups whose rows are held are passed over, unpaid, and come again in the lane of those that wait.
// Where one transaction keeps a row for so long that waiting makes no sense, its groups fail at once.

import type { TakeGroup } from "../../core/take.ts";

/** Which way a batch goes. */
export const Lane = {
  /** Waits for no row. */
  free: 0,
  /** Waits for rows that others of our kind hold, which is for milliseconds. One call at a time. */
  contended: 1,
  /** Waits for no row: somebody holds it for long. One call at a time. */
  held: 2,
  /** Asks nothing: somebody makes a row and does not commit, which a call could find out by waiting only. */
  closed: 3,
  /** Groups of one plain take, on rows that nobody is known to hold: take_each pays them, what it leaves comes again. */
  plain: 4,
} as const;

/** Who holds a row that is made and not committed: nobody can see who that is. Calls wait half as long for it. */
export const UNKNOWN_HOLDER = -1;

/** In place of a holder: nobody holds the row, but take_each has left the take to take_all. */
export const NOT_PLAIN = -2;

/** How long a key stays in its lane after its row was held last. */
const STAYS_US = 200_000;
/** How long a key stays closed, in waits: so long do others wait at most for the rows of the call that looks again. */
const CLOSED_WAITS = 10;
/** More keys are not remembered; the oldest are found out anew. */
const KEYS_MAX = 1_000;

interface HeldKey {
  /** The transaction that held the row when it was looked at last. */
  readonly holder: number;
  /** When it was first seen to. */
  readonly sinceUs: number;
  readonly lane: number;
  readonly untilUs: number;
}

/** What is known of rows that somebody else holds. Times are microseconds of the process's Clock. */
export class Lanes {
  readonly #heldUs: number;
  readonly #keys = new Map<string, HeldKey>();

  /** A row that one transaction keeps for longer than `heldUs` is not waited for. */
  constructor(heldUs: number) {
    this.#heldUs = heldUs;
  }

  /** The lane of a group: that of its worst key. */
  laneOf(group: TakeGroup, nowUs: number): number {
    if (this.#keys.size === 0) return Lane.free;
    let lane: number = Lane.free;
    for (let i = 0; i < group.size; i++) {
      const key = group.takes[i]?.bucketKey ?? "";
      const held = this.#keys.get(key);
      if (held !== undefined && held.untilUs > nowUs) lane = Math.max(lane, held.lane);
    }
    return lane;
  }

  /** The row of the key was passed over, because that transaction holds it, or UNKNOWN_HOLDER. The lane to wait in; undefined: waits no more. */
  passedOver(key: string, holder: number, nowUs: number): number | undefined {
    const known = this.#keys.get(key);
    // The transactions that make rows can't be told apart, but by the time that lies between them.
    const isKnown = known?.holder === holder && (holder !== UNKNOWN_HOLDER || known.untilUs > nowUs);
    const sinceUs = isKnown ? known.sinceUs : nowUs;
    // Without a holder the row was made in this very moment.
    const isLong = holder !== 0 && nowUs - sinceUs >= (holder === UNKNOWN_HOLDER ? this.#heldUs / 2 : this.#heldUs);
    const lane = !isLong ? Lane.contended : holder === UNKNOWN_HOLDER ? Lane.closed : Lane.held;
    const staysUs = lane === Lane.closed ? CLOSED_WAITS * this.#heldUs : STAYS_US;
    this.#keys.delete(key);
    this.#keys.set(key, { holder, sinceUs, lane, untilUs: nowUs + staysUs });
    if (this.#keys.size > KEYS_MAX) this.#keys.delete(this.#keys.keys().next().value ?? "");
    return isLong ? undefined : lane;
  }
}
