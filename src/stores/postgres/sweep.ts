// Deletes expired buckets beside the takes, as fast as they expire and in short turns. A turn that fails is tried again at the
// next time.

import type { Clock } from "../../engine/base/clock.ts";
import type { AskBeside } from "./side-connection.ts";

const SWEEP_MS = 1_000;
/** The pause between turns while there is more to sweep. */
const SWEEP_AGAIN_MS = 5;
/** Rows of one turn: twice as many while there is more to sweep, half as many when a turn takes too long. */
// Never fewer than the calls of four connections can make meanwhile.
const ROWS_MIN = 500;
const ROWS_MAX = 4_000;
/** Longest time that a turn should use the connection: a small part of a beat. */
const TURN_US_MAX = 100_000;

interface SweepOptions {
  readonly ask: AskBeside;
  /** Measures how long turns take. */
  readonly clock: Clock;
  /** Time by which buckets expire, in place of the server's; for tests. */
  readonly injectedTime: Clock | undefined;
}

/** Sweeps every second or so once started. Does not report failures: takes have the same ones. */
export class Sweep {
  readonly #options: SweepOptions;
  #timer: NodeJS.Timeout | undefined;
  #rowsMax = ROWS_MIN;

  constructor(options: SweepOptions) {
    this.#options = options;
  }

  start(): void {
    this.#sweepIn(SWEEP_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Deletes some buckets and settled holds now. Resolves to how many rows; undefined if that was not possible. */
  async sweep(): Promise<number | undefined> {
    const values = [String(this.#options.injectedTime?.nowUs() ?? 0), String(this.#rowsMax)];
    const swept = await this.#options.ask({ name: "sweep", text: "SELECT sweep($1::bigint, $2::bigint)", values });
    return swept === undefined ? undefined : Number(swept);
  }

  #sweepIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#sweepAndGoOn(), ms).unref();
  }

  async #sweepAndGoOn(): Promise<void> {
    const { clock } = this.#options;
    const startUs = clock.nowUs();
    const swept = await this.sweep();
    const isMore = swept !== undefined && swept >= this.#rowsMax;
    if (clock.nowUs() - startUs > TURN_US_MAX) this.#rowsMax = Math.max(ROWS_MIN, this.#rowsMax / 2);
    else if (isMore) this.#rowsMax = Math.min(ROWS_MAX, this.#rowsMax * 2);
    if (this.#timer !== undefined) this.#sweepIn(isMore ? SWEEP_AGAIN_MS : SWEEP_MS);
  }
}
