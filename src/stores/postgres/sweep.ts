// Deletes expired buckets beside the takes, as fast as they expire and in short turns. A turn that fails is tried again at the
// next time.

import type { Clock } from "../../engine/base/clock.ts";
import type { AskBeside } from "./side-connection.ts";

const SWEEP_MS = 1_000;
/** The pause between turns while there is more to sweep. */
const SWEEP_AGAIN_MS = 5;
/** Rows of one turn, some ten milliseconds: more than the calls of four connections can make meanwhile. */
const ROWS_MAX = 1_000;

interface SweepOptions {
  readonly ask: AskBeside;
  /** Time by which buckets expire, in place of the server's; for tests. */
  readonly injectedTime: Clock | undefined;
}

/** Sweeps every second or so once started. Does not report failures: takes have the same ones. */
export class Sweep {
  readonly #options: SweepOptions;
  #timer: NodeJS.Timeout | undefined;

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
    const values = [String(this.#options.injectedTime?.nowUs() ?? 0), String(ROWS_MAX)];
    const swept = await this.#options.ask({ name: "sweep", text: "SELECT sweep($1::bigint, $2::bigint)", values });
    return swept === undefined ? undefined : Number(swept);
  }

  #sweepIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#sweepAndGoOn(), ms).unref();
  }

  async #sweepAndGoOn(): Promise<void> {
    const swept = await this.sweep();
    if (this.#timer !== undefined) this.#sweepIn((swept ?? 0) < ROWS_MAX ? SWEEP_MS : SWEEP_AGAIN_MS);
  }
}
