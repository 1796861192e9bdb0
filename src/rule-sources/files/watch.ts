// Notices changes of the rules directory: edited, added, renamed and removed files, and swapped symbolic links. File
// system events make it quick, polling a hash of the contents makes it reliable.

import { type FSWatcher, watch } from "node:fs";
import { LatestRun } from "../../base/latest-run.ts";
import { type FileChoice, hashRuleFiles, readRuleFiles } from "./read-files.ts";

/** How often the contents are hashed without an event: network mounts and swapped links cause no events. */
const POLL_INTERVAL_MS = 2_000;

/** How long the contents must stay unchanged before they count as complete. */
const DEBOUNCE_MS = 100;

export interface WatchedFiles {
  readonly directory: string;
  readonly choice: FileChoice;
  /** Default: POLL_INTERVAL_MS. */
  readonly pollIntervalMs?: number | undefined;
  /** Default: DEBOUNCE_MS. */
  readonly debounceMs?: number | undefined;
}

interface WatchOptions extends WatchedFiles {
  /** True if contents with this hash were handled before. */
  readonly isKnown: (hash: string) => boolean;
  /** Called when the contents have an unknown hash; never while an earlier call runs. Must not reject. */
  readonly onChange: () => Promise<unknown>;
}

/** Watches one directory until closed. The directory may be missing, replaced or unreadable meanwhile. */
export class DirectoryWatcher {
  readonly #options: WatchOptions;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #noticeTimer: NodeJS.Timeout | undefined;
  readonly #checks = new LatestRun<void, void>(() => this.#check());
  #isClosed = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Begins to watch. The contents are hashed at once, so that earlier changes are noticed too. */
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
    void this.#checks.run().finally(() => {
      if (this.#isClosed) return;
      this.#timer = setTimeout(() => this.#poll(), this.#options.pollIntervalMs ?? POLL_INTERVAL_MS);
      this.#timer.unref();
    });
  }

  // Events come for the directory itself; changes in subfolders are found by polling. If watching fails (missing
  // directory, no watches left, some mounts), polling goes on alone.
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
      void this.#checks.run();
    }, this.#options.debounceMs ?? DEBOUNCE_MS);
    this.#noticeTimer.unref();
  }

  async #check(): Promise<void> {
    if (this.#isClosed) return;
    const { directory, choice, isKnown, onChange, debounceMs = DEBOUNCE_MS } = this.#options;
    if (isKnown(await hashRuleFiles(directory, choice))) return;
    const { hash } = await readRuleFiles(directory, choice, debounceMs);
    if (isKnown(hash) || this.#isClosed) return;
    // The path may lead to another directory now, but a watch stays with the directory for which it was made.
    this.#disarm();
    this.#arm();
    await onChange();
  }
}
