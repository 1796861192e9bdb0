// What a process does beside taking: drops buckets that mean nothing any more, a few at a time, and counts the processes
// that share them. Only over connections that are free; what fails is tried again at its next time.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import type { Statement } from "./connect.ts";
import type { Link } from "./link.ts";

const SWEEP_MS = 1_000;
/** While there is much to sweep. */
const SWEEP_AGAIN_MS = 20;
const SWEEP_ROWS_MAX = 200;
const BEAT_MS = 3_000;
/** A process that has missed three beats is taken as gone. */
const GONE_AFTER = "10 seconds";

export interface UpkeepOptions {
  readonly freeLink: () => Link | undefined;
  /** Time that buckets live by, in place of the server's own; for tests. */
  readonly injectedTime: Clock | undefined;
}

/** Runs beside the takes once started. Failures are not reported: the takes meet the same ones. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #id = randomUUID();
  #sweepTimer: NodeJS.Timeout | undefined;
  #beatTimer: NodeJS.Timeout | undefined;
  #count = 1;
  #index = -1;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Live processes by the last count, this one included. */
  get count(): number {
    return this.#count;
  }

  /** Place of this process among them; -1 until the first count. */
  get index(): number {
    return this.#index;
  }

  get isBeating(): boolean {
    return this.#beatTimer !== undefined;
  }

  startSweeping(): void {
    this.#sweepTimer = setTimeout(() => void this.#sweepAndGoOn(), SWEEP_MS);
    this.#sweepTimer.unref();
  }

  startBeating(): void {
    if (this.#beatTimer !== undefined) return;
    this.#beatTimer = setInterval(() => void this.beat(), BEAT_MS);
    this.#beatTimer.unref();
    void this.beat();
  }

  /** Drops a few buckets; resolves to how many, undefined if it could not be done now. */
  async sweep(): Promise<number | undefined> {
    const values = [String(this.#options.injectedTime?.nowUs() ?? 0), String(SWEEP_ROWS_MAX)];
    const swept = await this.#ask({ name: "sweep", text: "SELECT sweep($1::bigint, $2::bigint)", values });
    return swept === undefined ? undefined : Number(swept);
  }

  /** Reports this process and counts. Does nothing while not started or without a free connection. */
  async beat(): Promise<void> {
    if (!this.isBeating) return;
    const answer = await this.#ask(beatOf(this.#id));
    const [count, index] = answer?.split(",").map(Number) ?? [];
    if (count === undefined || index === undefined) return;
    this.#count = count;
    this.#index = index;
  }

  /** Takes this process out of the table, so that the others need not wait for its absence to show. */
  async stop(): Promise<void> {
    clearTimeout(this.#sweepTimer);
    this.#sweepTimer = undefined;
    clearInterval(this.#beatTimer);
    if (!this.isBeating) return;
    this.#beatTimer = undefined;
    await this.#ask({ text: "DELETE FROM process WHERE process_id = $1", values: [this.#id] });
  }

  async #sweepAndGoOn(): Promise<void> {
    const swept = await this.sweep();
    if (this.#sweepTimer === undefined) return;
    this.#sweepTimer = setTimeout(
      () => void this.#sweepAndGoOn(),
      swept === SWEEP_ROWS_MAX ? SWEEP_AGAIN_MS : SWEEP_MS,
    );
    this.#sweepTimer.unref();
  }

  async #ask(statement: Statement): Promise<string | undefined> {
    const link = this.#options.freeLink();
    if (link === undefined) return undefined;
    try {
      const [row] = await link.use((connection) => connection.query(statement));
      return row?.[0] ?? undefined;
    } catch {
      // Conflicts and lost connections: the next time comes soon, and the takes report what lasts.
      return undefined;
    }
  }
}

function beatOf(id: string): Statement {
  return { name: "beat", text: "SELECT array_to_string(beat($1, $2::interval), ',')", values: [id, GONE_AFTER] };
}
