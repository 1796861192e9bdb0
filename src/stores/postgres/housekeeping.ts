// Housekeeping (sql/housekeeping.sql), over its own connection: what has expired is deleted, however busy the other
// connections are. What fails is done at the next time; takes report trouble that lasts.

import type { Clock } from "../../base/clock.ts";
import { SilenceError, withTimeLimit } from "../batching/connecting.ts";
import type { PostgresLink } from "./postgres-link.ts";

const SWEEP_MS = 1_000;
/** The pause between turns while there is more to sweep. */
const SWEEP_AGAIN_MS = 5;
/**
 * Rows of each table in one turn, some ten milliseconds: more than the calls of four connections can make meanwhile.
 */
const ROWS_MAX = 1_000;

interface HousekeepingOptions {
  readonly link: PostgresLink;
  /** The link is given up when it is silent for this long. */
  readonly silenceMs: number;
  /** Time by which buckets expire, in place of the server's; for tests. */
  readonly injectedTime: Clock | undefined;
}

/** Sweeps. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HousekeepingOptions) {
    this.#options = options;
  }

  startSweeping(): void {
    this.#sweepIn(SWEEP_MS);
  }

  stopSweeping(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** Deletes some buckets and settled holds now. Resolves to how many rows; undefined if that was not possible. */
  async sweep(): Promise<number | undefined> {
    const { link, silenceMs, injectedTime } = this.#options;
    const values = [String(injectedTime?.nowUs() ?? 0), String(ROWS_MAX)];
    const text = "SELECT sweep($1::bigint, $2::bigint)";
    try {
      const asked = link.connection?.query({ name: "sweep", text, values });
      return asked && Number((await withTimeLimit(silenceMs, asked))[0]?.[0]);
    } catch (error) {
      if (error instanceof SilenceError) link.reconnect(`${link.name} does not answer (${error.message})`);
      return undefined;
    }
  }

  #sweepIn(ms: number): void {
    this.#timer = setTimeout(() => void this.#sweepAndGoOn(), ms).unref();
  }

  async #sweepAndGoOn(): Promise<void> {
    const swept = await this.sweep();
    if (this.#timer !== undefined) this.#sweepIn((swept ?? 0) < ROWS_MAX ? SWEEP_MS : SWEEP_AGAIN_MS);
  }
}
