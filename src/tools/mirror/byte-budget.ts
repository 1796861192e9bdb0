// A bound on the bytes that calls under way may hold together.

/** What a piece of a message takes besides its bytes; a piece may have one byte. */
export const PIECE_BYTES = 256;

/** Bytes of all calls. */
export class ByteBudget {
  readonly max: number;
  /** Bytes of all open accounts. */
  held = 0;

  constructor(max: number) {
    this.max = max;
  }
}

/** Bytes of one call. */
export class ByteAccount {
  readonly #budget: ByteBudget;
  #held = 0;

  constructor(budget: ByteBudget) {
    this.#budget = budget;
  }

  /** Takes bytes from the budget. False if it has no room; then it takes none. */
  take(bytes: number): boolean {
    if (this.#budget.held + bytes > this.#budget.max) return false;
    this.#budget.held += bytes;
    this.#held += bytes;
    return true;
  }

  /** Gives back all that was taken. */
  close(): void {
    this.#budget.held -= this.#held;
    this.#held = 0;
  }
}
