// Rules from a directory: loads them at the start and whenever the directory changes. The last good set stays in force
// until a new one has loaded without errors (rule-source.ts).

import type { Clock } from "../../base/clock.ts";
import { LatestRun } from "../../base/latest-run.ts";
import type { Log } from "../../base/log.ts";
import { type LoadOptions, loadError, loadRules } from "./load.ts";
import { RuleSource } from "./rule-source.ts";

/** The result of one attempt to load. */
type ReloadOutcome = "loaded" | "unchanged" | "refused";

interface ReloaderOptions {
  readonly directory: string;
  /** Options of each load; the reloader sets the version. */
  readonly load: Omit<LoadOptions, "version">;
  readonly clock: Clock;
  readonly log: Log;
  readonly pollIntervalMs?: number;
  readonly debounceMs?: number;
}

/** Loads a rules directory, keeps the last good set, and loads again on changes and on `reload`. */
export class Reloader extends RuleSource {
  readonly #options: ReloaderOptions;
  #hasStarted = false;
  readonly #loads = new LatestRun<void, ReloadOutcome>(() => this.#load());

  constructor(options: ReloaderOptions) {
    const { clock, log, directory } = options;
    super({ clock, log, origin: { directory } });
    this.#options = options;
  }

  /** Loads for the first time, then watches. Never rejects: if the first set is refused, `current` stays undefined. */
  async start(): Promise<ReloadOutcome> {
    const outcome = await this.reload();
    this.#hasStarted = true;
    const { directory, load: choice, pollIntervalMs, debounceMs } = this.#options;
    this.watch({ directory, choice, pollIntervalMs, debounceMs });
    return outcome;
  }

  /**
   * Loads now, whether or not the watcher has seen a change (SIGHUP). Never rejects. While a load runs, further calls
   * share one more load that begins after it, so that each call sees everything written before it.
   */
  reload(): Promise<ReloadOutcome> {
    return this.#loads.run();
  }

  async #load(): Promise<ReloadOutcome> {
    const { directory, load } = this.#options;
    try {
      const options = { ...load, version: this.nextVersion, takesCalls: this.#hasStarted };
      const result = await loadRules(directory, options);
      this.seenHash = result.hash;
      if (result.ruleSet !== undefined) return this.accept("files", result.ruleSet);
      this.refuse("files", loadError(directory, result), result.problems);
    } catch (cause) {
      this.fault("files", cause);
    }
    return "refused";
  }
}
