// Drops buckets that mean nothing any more, a few at a time, beside the takes. What fails is tried again at its next time.

import type { Clock } from "../../core/clock.ts";
import type { AskAside } from "./aside.ts";

const SWEEP_MS = 1_000;
/** While there is much to sweep. */
const SWEEP_AGAIN_MS = 20;
const SWEEP_ROWS_MAX = 200;

export interface SweepOptions {
  readonly ask: AskAside;
  /** Time that buckets live by, in place of the server's own; for tests. */
  readonly injectedTime: Clock | undefined;
}

/** Sweeps every second or so once started. Failures are not reported: the takes meet the same ones. */
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

  /** Drops a few buckets, now; resolves to how many, undefined if it could not be done. */
  async sweep(): Promise<number | undefined> {
    const values = [String(this.#options.injectedTime?.nowUs() ?? 0), String(SWEEP_ROWS_MAX)];
    const swept = await this.#options.ask({ name: "sweep", text: "SELECT sweep($1::bigint, $2::bigint)", values });
    return swept === undefined ? undefined : Number(swept);
  }

  #sweepIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#sweepAndGoOn(), ms).unref();
  }

  async #sweepAndGoOn(): Promise<void> {
    const swept = await this.sweep();
    if (this.#timer !== undefined) this.#sweepIn(swept === SWEEP_ROWS_MAX ? SWEEP_AGAIN_MS : SWEEP_MS);
  }
}
