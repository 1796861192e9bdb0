// Watches one bucket of a limit for calls that come in turns: a small cost that passes, then a large one that is
// refused. So they do where callers ask with the request's cost and report the answer's on the same descriptor, and
// what is refused is not charged.

/** Reports are so many times as large as what is asked before. */
const LARGER = 10;
/** Turns without another call between them, before they look like reports. */
const TURNS = 10;
/** Refusals of other buckets after which another one is watched. */
const PATIENCE = 64;

export class ReportTurns {
  #key = 0;
  #asked = 0;
  #passes = 0;
  #turns = 0;
  #others = 0;

  /** Records an answered payment on the bucket with that hash. Returns whether it looks like a report. */
  note(keyHash: number, cost: number, isRefused: boolean): boolean {
    if (keyHash !== this.#key) {
      if (isRefused && (this.#key === 0 || ++this.#others > PATIENCE)) this.#watch(keyHash);
      return false;
    }
    this.#others = 0;
    if (!isRefused) {
      this.#asked = cost;
      this.#passes++;
      return false;
    }
    const isTurn = this.#passes === 1 && cost >= this.#asked * LARGER;
    this.#turns = isTurn ? this.#turns + 1 : 0;
    this.#passes = 0;
    return this.#turns >= TURNS;
  }

  #watch(keyHash: number): void {
    this.#key = keyHash;
    this.#passes = 0;
    this.#turns = 0;
    this.#others = 0;
  }
}
