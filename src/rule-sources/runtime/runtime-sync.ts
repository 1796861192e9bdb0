// Carries out the steps of engine/runtime/runtime-replica.ts: asks the store twice a second, and keeps what it has in a
// file.

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { runInTurns } from "../../base/long-work.ts";
import { errorMessage } from "../../base/thrown.ts";
import { RuntimeReplica, type RuntimeRequest } from "../../engine/runtime/runtime-replica.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import { answerRuntime, type RuntimeStore } from "../../stores/runtime-store.ts";
import { readLimitsFile, writeLimitsFile } from "./limits-file.ts";

/** Polls at a start, a second of them, and polls that fail before the log says so, two seconds. */
const START_LOOKS_MAX = 20;
const LOOK_MS = 50;
const FAILED_IN_TURN_MAX = 4;

interface RuntimeSyncOptions {
  readonly table: RuntimeTable;
  readonly store: RuntimeStore;
  /** LIMITS_CACHE; undefined: nothing is kept. */
  readonly file: string | undefined;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn" | "info">;
  /** Told why the limits are not known yet; undefined once they were read from store or file. */
  readonly unread: (reason: string | undefined) => void;
}

export class RuntimeSync {
  readonly #options: RuntimeSyncOptions;
  readonly #replica: RuntimeReplica;
  /** The last poll, which the next one waits for. */
  #polling: Promise<unknown> = Promise.resolve();
  #savedChanges = 0;
  #failedInTurn = 0;
  /** Why the last polls failed; undefined if they did not. */
  trouble: string | undefined;
  /** Polls that failed. */
  failures = 0;

  constructor(options: RuntimeSyncOptions) {
    this.#options = options;
    this.#replica = new RuntimeReplica(options.table, options.store.nowUs());
  }

  /** The store's version when this process last had all of its limits; 0: never. */
  get version(): number {
    return this.#replica.equalAt ?? 0;
  }

  /** Whether the file has all; true without one. */
  get isSaved(): boolean {
    return this.#options.file === undefined || this.#savedChanges === this.#options.table.changes;
  }

  /** Takes what the file has, and asks the store, waiting a moment for its connection. Never rejects. */
  async start(): Promise<void> {
    const { file, table, log, unread } = this.#options;
    const kept = file === undefined ? undefined : await readLimitsFile(file, log);
    if (kept !== undefined) await runInTurns(table.putAll(kept));
    unread(kept === undefined ? "limits at run time were not read from the store yet" : undefined);
    this.#savedChanges = table.changes;
    for (let look = 0; look < START_LOOKS_MAX && !(await this.tick()); look++)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }

  /** Polls and notes how it went; false if it failed. Never rejects. */
  async tick(): Promise<boolean> {
    const { log } = this.#options;
    try {
      await this.poll();
      if (this.trouble !== undefined) log.info({}, "limits at run time are up to date again");
      this.trouble = undefined;
      this.#failedInTurn = 0;
      return true;
    } catch (cause) {
      const reason = errorMessage(cause);
      this.failures++;
      if (this.#replica.equalAt === undefined) this.#options.unread(`limits at run time can't be read: ${reason}`);
      // A store may fail for a moment; the store's health logs one that is down.
      if (++this.#failedInTurn === FAILED_IN_TURN_MAX)
        log.warn({ reason }, "can't update limits at run time; those in force stay");
      if (this.#failedInTurn >= FAILED_IN_TURN_MAX) this.trouble = reason;
      return false;
    }
  }

  /** Makes table and store equal, now. Rejects if the store does not answer, or if the file can't be written. */
  poll(): Promise<void> {
    const poll = this.#polling.then(() => this.#poll());
    this.#polling = poll.catch(() => undefined);
    return poll;
  }

  /** Writes the file a last time, after a poll that is under way. */
  async close(): Promise<void> {
    await this.#polling;
    await this.#save().catch((cause: unknown) =>
      this.#options.log.warn({ reason: errorMessage(cause) }, "limits at run time were not saved"),
    );
  }

  async #poll(): Promise<void> {
    const { store, table, clock } = this.#options;
    let request: RuntimeRequest | undefined = this.#replica.poll(store.nowUs());
    while (request !== undefined) request = this.#replica.step(await answerRuntime(store, request));
    table.clockOffsetUs = store.nowUs() - clock.nowUs();
    if (this.#replica.equalAt !== undefined) this.#options.unread(undefined);
    await this.#save();
  }

  async #save(): Promise<void> {
    const { table, file, clock } = this.#options;
    if (this.isSaved || file === undefined) return;
    const { changes } = table;
    await writeLimitsFile(file, table, clock.nowUs());
    this.#savedChanges = changes;
  }
}
