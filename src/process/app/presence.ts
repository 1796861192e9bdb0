// This process in the register of those that share its store: reports twice a second what it has counted and which
// limits at run time it has, and hears the same of the others.

import { randomUUID } from "node:crypto";
import { waitAtMost } from "../../base/wait-at-most.ts";
import type { ProcessRegister, RegisteredProcess } from "../../stores/process-register.ts";

const BEAT_MS = 500;
/** Longest wait for leaving: without it the process is gone a few seconds later. */
const LEAVE_MS_MAX = 250;

interface PresenceOptions {
  /** Undefined: no store is shared. */
  readonly register: ProcessRegister | undefined;
  /** The process's, `ratelimit-0:12:mfx2k9p4`. */
  readonly name: string;
  /** Runs before each report; never rejects. */
  readonly before: () => Promise<unknown>;
  readonly report: () => Pick<RegisteredProcess, "version" | "calls">;
  /** Receives the reports of all. */
  readonly heard: (all: readonly RegisteredProcess[], ownId: string) => void;
}

export class Presence {
  readonly #options: PresenceOptions;
  readonly #id = randomUUID();
  #timer: NodeJS.Timeout | undefined;
  #hasClosed = false;

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  get isShared(): boolean {
    return this.#options.register !== undefined;
  }

  /** Reports now, and from now on. Never rejects. */
  async start(): Promise<void> {
    // The store's health shows this failure.
    await this.beat().catch(() => undefined);
    const next = () => void this.#options.before().then(() => this.start());
    if (!this.#hasClosed) this.#timer = setTimeout(next, BEAT_MS).unref();
  }

  /** Reports now. Rejects if the store does not answer. */
  async beat(): Promise<void> {
    const { register, name, report, heard } = this.#options;
    // A beat after `close` would bring the process back into the register.
    if (register === undefined || this.#hasClosed) return;
    const { all } = await register.beat({ id: this.#id, name, ...report() });
    heard(all, this.#id);
  }

  /** Keeps a longer report in the register, unless the process has left it. Rejects if the store does not answer. */
  async publish(report: string): Promise<void> {
    if (!this.#hasClosed) await this.#options.register?.publish(this.#id, report);
  }

  /** Leaves the register. */
  async close(): Promise<void> {
    this.#hasClosed = true;
    clearTimeout(this.#timer);
    const leaving = this.#options.register?.leave(this.#id).catch(() => undefined);
    if (leaving !== undefined) await waitAtMost(LEAVE_MS_MAX, leaving);
  }
}
