// Rules from a directory: loads them, and loads again when the directory changes. The last good set stays in force until a
// better one is whole (rule-keeper.ts).

import type { Clock } from "../core/clock.ts";
import type { RuleSet } from "../rules/rule-set.ts";
import { type LoadOptions, type LoadResult, loadError, loadRules } from "./load.ts";
import { type ReloadLog, RuleKeeper, type RuleSource, type RulesStatus } from "./rule-keeper.ts";
import { DirectoryWatcher } from "./watch.ts";

/** What became of one attempt to load. */
type ReloadOutcome = "loaded" | "unchanged" | "refused";

export interface ReloaderOptions {
  readonly directory: string;
  /** The version is counted by the reloader. */
  readonly load: Omit<LoadOptions, "version">;
  readonly clock: Clock;
  readonly log: ReloadLog;
  /** False: only `reload` looks at the directory. */
  readonly watches?: boolean;
  readonly pollIntervalMs?: number;
  readonly debounceMs?: number;
}

/** Loads a rules directory, keeps the last good set, and loads again when the directory changes or `reload` is called. */
export class Reloader implements RuleSource {
  readonly #options: ReloaderOptions;
  readonly #keeper: RuleKeeper;
  readonly #watcher: DirectoryWatcher | undefined;
  /** Hash of the last attempt, good or bad: what is known needs no second look. */
  #seenHash: string | undefined;
  #running: Promise<ReloadOutcome> | undefined;
  #next: Promise<ReloadOutcome> | undefined;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    const { clock, log, directory } = options;
    this.#keeper = new RuleKeeper({ clock, log, origin: { directory } });
    if (options.watches === false) return;
    this.#watcher = new DirectoryWatcher({
      directory,
      choice: options.load,
      isKnown: (hash) => hash === this.#seenHash,
      onChange: async () => {
        await this.reload();
      },
      ...(options.pollIntervalMs === undefined ? {} : { pollIntervalMs: options.pollIntervalMs }),
      ...(options.debounceMs === undefined ? {} : { debounceMs: options.debounceMs }),
    });
  }

  get current(): RuleSet | undefined {
    return this.#keeper.current;
  }

  /** Loads for the first time, then watches. A refused first set is an outcome, not an exception: `current` stays undefined. */
  async start(): Promise<ReloadOutcome> {
    const outcome = await this.reload();
    this.#watcher?.start();
    return outcome;
  }

  /**
   * Loads now, whatever the watcher has seen (SIGHUP). Never rejects. While a load runs, further calls wait for one more
   * load that begins after it, so that what was written before the call is always seen.
   */
  reload(): Promise<ReloadOutcome> {
    if (this.#running === undefined) {
      this.#running = this.#load().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#next ??= this.#running.then(() => {
      this.#next = undefined;
      return this.reload();
    });
    return this.#next;
  }

  subscribe(listener: (ruleSet: RuleSet) => void): () => void {
    return this.#keeper.subscribe(listener);
  }

  status(): RulesStatus {
    return this.#keeper.status();
  }

  /** Stops watching. The set in force stays. */
  close(): void {
    this.#watcher?.close();
  }

  async #load(): Promise<ReloadOutcome> {
    try {
      return await this.#attempt();
    } catch (cause) {
      this.#keeper.fault(cause);
      return "refused";
    }
  }

  async #attempt(): Promise<ReloadOutcome> {
    const { directory, load } = this.#options;
    const result: LoadResult = await loadRules(directory, { ...load, version: this.#keeper.nextVersion });
    this.#seenHash = result.hash;
    if (result.ruleSet !== undefined) return this.#keeper.accept(result.ruleSet);
    this.#keeper.refuse(loadError(directory, result), result.problems);
    return "refused";
  }
}
