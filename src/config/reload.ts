// Keeps the rules in force: the last good set stays until a better one is whole. Publishes new sets and remembers what
// went wrong with the last attempt.

import type { Clock } from "../core/clock.ts";
import { formatProblem } from "../rules/problems.ts";
import type { Problem, RuleSet } from "../rules/rule-set.ts";
import { type LoadOptions, type LoadResult, loadError, loadRules } from "./load.ts";
import { DirectoryWatcher } from "./watch.ts";

/** Where rules come from, for everyone who needs them or shows them. */
export interface RuleSource {
  /** The set in force; undefined until the first good load. */
  readonly current: RuleSet | undefined;
  /** Calls `listener` with the set in force, if any, and with each new one. Returns how to stop. */
  subscribe(listener: (ruleSet: RuleSet) => void): () => void;
  status(): RulesStatus;
}

/** The state of the rules, for pages and metrics. Times are microseconds since the Unix epoch. */
export interface RulesStatus {
  readonly directory: string;
  /** Version and hash of the set in force; 0 and empty without one. */
  readonly version: number;
  readonly hash: string;
  /** When the set in force was loaded; undefined without one. */
  readonly loadedAtUs: number | undefined;
  readonly files: readonly string[];
  readonly domains: readonly string[];
  readonly warnings: readonly Problem[];
  /** What refused the last attempt; undefined if it went well. */
  readonly lastError: RulesFailure | undefined;
  /** Attempts that put a set in force, and attempts that were refused. */
  readonly loads: number;
  readonly failures: number;
}

/** A load that was refused. */
export interface RulesFailure {
  readonly atUs: number;
  /** SHA-256 of the refused files. */
  readonly hash: string;
  /** One sentence. */
  readonly message: string;
  /** Errors and warnings of that load. */
  readonly problems: readonly Problem[];
}

/** What the reloader writes its log with; pino's loggers are of this shape. */
export interface ReloadLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** What became of one attempt to load. */
export type ReloadOutcome = "loaded" | "unchanged" | "refused";

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

// Lines of one refusal in the log; /config has them all.
const PROBLEMS_LOGGED_MAX = 20;

/** Loads a rules directory, keeps the last good set, and loads again when the directory changes or `reload` is called. */
export class Reloader implements RuleSource {
  readonly #options: ReloaderOptions;
  readonly #listeners = new Set<(ruleSet: RuleSet) => void>();
  readonly #watcher: DirectoryWatcher | undefined;
  #current: RuleSet | undefined;
  #loadedAtUs: number | undefined;
  #lastError: RulesFailure | undefined;
  /** Hash of the last attempt, good or bad: what is known needs no second look. */
  #seenHash: string | undefined;
  #loads = 0;
  #failures = 0;
  #running: Promise<ReloadOutcome> | undefined;
  #next: Promise<ReloadOutcome> | undefined;

  constructor(options: ReloaderOptions) {
    this.#options = options;
    if (options.watches === false) return;
    this.#watcher = new DirectoryWatcher({
      directory: options.directory,
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
    return this.#current;
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
    this.#listeners.add(listener);
    if (this.#current !== undefined) listener(this.#current);
    return () => this.#listeners.delete(listener);
  }

  status(): RulesStatus {
    const current = this.#current;
    return {
      directory: this.#options.directory,
      version: current?.version ?? 0,
      hash: current?.hash ?? "",
      loadedAtUs: this.#loadedAtUs,
      files: current?.files ?? [],
      domains: [...(current?.domains.keys() ?? [])],
      warnings: current?.warnings ?? [],
      lastError: this.#lastError,
      loads: this.#loads,
      failures: this.#failures,
    };
  }

  /** Stops watching. The set in force stays. */
  close(): void {
    this.#watcher?.close();
  }

  async #load(): Promise<ReloadOutcome> {
    try {
      return await this.#attempt();
    } catch (cause) {
      // Not the files' fault but ours. Whatever is in force is good, so this must not end the process.
      this.#options.log.error(
        { err: cause, directory: this.#options.directory },
        "loading the rules failed unexpectedly",
      );
      this.#refuse({
        message: `loading failed unexpectedly: ${String(cause)}`,
        hash: this.#seenHash ?? "",
        problems: [],
      });
      return "refused";
    }
  }

  async #attempt(): Promise<ReloadOutcome> {
    const { directory, load, log } = this.#options;
    const version = (this.#current?.version ?? 0) + 1;
    const result: LoadResult = await loadRules(directory, { ...load, version });
    this.#seenHash = result.hash;
    if (result.ruleSet === undefined) {
      this.#reportRefusal(result);
      return "refused";
    }
    this.#lastError = undefined;
    if (result.hash === this.#current?.hash) {
      log.info({ directory, hash: result.hash, version: this.#current.version }, "rules are unchanged");
      return "unchanged";
    }
    this.#publish(result.ruleSet);
    return "loaded";
  }

  #publish(ruleSet: RuleSet): void {
    const { clock, directory, log } = this.#options;
    this.#current = ruleSet;
    this.#loadedAtUs = clock.nowUs();
    this.#loads++;
    const { version, hash, files, domains, warnings } = ruleSet;
    for (const warning of warnings) log.warn({ directory }, formatProblem(warning));
    log.info({ directory, version, hash, files, domains: [...domains.keys()] }, "rules are in force");
    for (const listener of this.#listeners) listener(ruleSet);
  }

  #reportRefusal(result: LoadResult): void {
    const { directory, log } = this.#options;
    const { code, message, problems } = loadError(directory, result);
    const state = this.#current === undefined ? "no rules are in force" : "the last good rules stay in force";
    this.#refuse({ message, hash: result.hash, problems: result.problems });
    const lines = problems.slice(0, PROBLEMS_LOGGED_MAX);
    log.error({ code, directory, problems: lines, more: problems.length - lines.length }, `${message}; ${state}`);
  }

  #refuse(failure: Omit<RulesFailure, "atUs">): void {
    this.#failures++;
    this.#lastError = { atUs: this.#options.clock.nowUs(), ...failure };
  }
}
