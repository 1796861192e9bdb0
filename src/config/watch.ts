// Notices that the rules directory changed: an edited, added, renamed or removed file, a swapped symbolic link. The
// system's notices make it quick, a polled hash of the contents makes it sure. What to do then is left to reload.ts.

import { type FSWatcher, watch } from "node:fs";
import { type FileChoice, hashRuleFiles } from "./read-files.ts";

/** How often the contents are hashed even if the system reports nothing: network mounts and swapped links report nothing. */
const POLL_INTERVAL_MS = 2_000;

/** How long the directory must stay the same before it is taken as complete. */
const DEBOUNCE_MS = 100;

// A directory that never rests is loaded all the same after this many looks.
const SETTLE_LOOKS_MAX = 20;

interface WatchOptions {
  readonly directory: string;
  readonly choice: FileChoice;
  /** True if the contents with this hash need no action. */
  readonly isKnown: (hash: string) => boolean;
  /** Called when the contents have a hash that is not known, never twice at the same time. Must not reject. */
  readonly onChange: () => Promise<void>;
  readonly pollIntervalMs?: number;
  readonly debounceMs?: number;
}

/** Watches one directory until closed. Survives that the directory is missing, replaced or unreadable. */
export class DirectoryWatcher {
  readonly #options: WatchOptions;
  readonly #pollIntervalMs: number;
  readonly #debounceMs: number;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #noticeTimer: NodeJS.Timeout | undefined;
  #isChecking = false;
  #checkAgain = false;
  #isClosed = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#pollIntervalMs = options.pollIntervalMs ?? POLL_INTERVAL_MS;
    this.#debounceMs = options.debounceMs ?? DEBOUNCE_MS;
  }

  /** Begins to watch. The first look follows at once, so nothing is missed that changed before. */
  start(): void {
    this.#poll();
  }

  /** Ends all watching; no call of `onChange` begins after this. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#noticeTimer);
    this.#disarm();
  }

  #poll(): void {
    if (this.#isClosed) return;
    this.#arm();
    void this.#check().finally(() => {
      if (this.#isClosed) return;
      this.#timer = setTimeout(() => this.#poll(), this.#pollIntervalMs);
      this.#timer.unref();
    });
  }

  // Listens to the directory itself; folders in it are left to the polling. Without notices, polling is all there is:
  // that is the case for missing directories, used-up watches and some mounts, and never a reason to stop.
  #arm(): void {
    if (this.#watcher !== undefined) return;
    try {
      this.#watcher = watch(this.#options.directory, { persistent: false }, () => this.#notice());
      this.#watcher.on("error", () => this.#disarm());
    } catch {
      this.#disarm();
    }
  }

  #disarm(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #notice(): void {
    if (this.#isClosed || this.#noticeTimer !== undefined) return;
    this.#noticeTimer = setTimeout(() => {
      this.#noticeTimer = undefined;
      void this.#check();
    }, this.#debounceMs);
    this.#noticeTimer.unref();
  }

  async #check(): Promise<void> {
    if (this.#isChecking) {
      this.#checkAgain = true;
      return;
    }
    this.#isChecking = true;
    try {
      do {
        this.#checkAgain = false;
        await this.#look();
      } while (this.#checkAgain && !this.#isClosed);
    } finally {
      this.#isChecking = false;
    }
  }

  async #look(): Promise<void> {
    const { directory, choice, isKnown, onChange } = this.#options;
    let hash = await hashRuleFiles(directory, choice);
    if (isKnown(hash)) return;
    for (let looks = 0; looks < SETTLE_LOOKS_MAX; looks++) {
      await pause(this.#debounceMs);
      const next = await hashRuleFiles(directory, choice);
      if (next === hash) break;
      hash = next;
    }
    if (isKnown(hash) || this.#isClosed) return;
    // The path may lead to another directory now; a watch stays with the one it was made for.
    this.#disarm();
    this.#arm();
    await onChange();
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
