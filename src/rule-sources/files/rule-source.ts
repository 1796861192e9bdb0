// A source of rules: files (reload.ts) or a control plane (rule-sources/xds/xds-rules.ts). Holds the rules in force and
// the results of attempts to replace them, and reports them to subscribers, pages, metrics and the log.

import type { Clock } from "../../base/clock.ts";
import type { ConfigError } from "../../base/errors.ts";
import type { Log, LogFields } from "../../base/log.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { Problem } from "../../engine/rules/source.ts";
import { DirectoryWatcher, type WatchedFiles } from "./watch.ts";

/**
 * What is judged on its own. A mistake in one of them holds until that one is good again, whatever the other brings.
 */
export type RulesPart = "files" | "set";

/** A load that was refused. */
export interface RulesFailure {
  readonly atUs: number;
  /** What was refused. */
  readonly part: RulesPart;
  /** One sentence. */
  readonly message: string;
  /** Errors and warnings of that load. */
  readonly problems: readonly Problem[];
}

/** Most problems of one load in the log, and most names in one of its lines; /config shows all. */
const LOGGED_MAX = 20;

interface SourceOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** Fields of each log line that name the source. */
  readonly origin: LogFields;
}

/** Holds the last good set, which is the set in force. */
export abstract class RuleSource {
  readonly #options: SourceOptions;
  readonly #listeners = new Set<(ruleSet: RuleSet) => void>();
  #current: RuleSet | undefined;
  #loadedAtUs: number | undefined;
  /** The refusals that still hold, in the order in which they came. */
  readonly #errors = new Map<RulesPart, RulesFailure>();
  #loads = 0;
  #failures = 0;
  #watcher: DirectoryWatcher | undefined;
  #isClosed = false;
  /** Hash of the files that were read last, good or bad. */
  protected seenHash: string | undefined;

  protected constructor(options: SourceOptions) {
    this.#options = options;
  }

  /** Resolves when the first rules are in force, or when `status` says why not. Never rejects. */
  abstract start(): Promise<unknown>;

  /** Checks the source now. Never rejects. */
  abstract reload(): Promise<unknown>;

  /** Stops checking the source. The set in force stays. */
  close(): void {
    this.#isClosed = true;
    this.#watcher?.close();
  }

  /** Has `reload` called whenever the directory has files with another hash than `seenHash`. */
  protected watch(files: WatchedFiles): void {
    if (this.#isClosed) return;
    const isKnown = (hash: string) => hash === this.seenHash;
    this.#watcher = new DirectoryWatcher({ ...files, isKnown, onChange: () => this.reload() });
    this.#watcher.start();
  }

  /** The set in force; undefined until the first good load. */
  get current(): RuleSet | undefined {
    return this.#current;
  }

  /** Calls `listener` with the set in force, if any, and with each new one. The function returned unsubscribes it. */
  subscribe(listener: (ruleSet: RuleSet) => void): () => void {
    this.#listeners.add(listener);
    if (this.#current !== undefined) listener(this.#current);
    return () => this.#listeners.delete(listener);
  }

  /** The state of the rules, for pages and metrics. Times are microseconds since the Unix epoch. */
  status() {
    return {
      /** When the set in force was loaded; undefined without one. */
      loadedAtUs: this.#loadedAtUs,
      /** The last refusal that no good load has replaced; undefined if there isn't one. */
      lastError: [...this.#errors.values()].at(-1),
      /** Attempts that put a set in force, and attempts that were refused. */
      loads: this.#loads,
      failures: this.#failures,
    };
  }

  /** The version of the next set. */
  protected get nextVersion(): number {
    return (this.#current?.version ?? 0) + 1;
  }

  /** Puts a good set in force, unless it is in force already. `part` is what has been found good. */
  protected accept(part: RulesPart, ruleSet: RuleSet): "loaded" | "unchanged" {
    const { clock, log, origin } = this.#options;
    const wasRefused = this.#errors.has(part);
    this.forgetError(part);
    if (ruleSet.hash === this.#current?.hash) {
      const { version, hash } = this.#current;
      const says = wasRefused
        ? `the rules are usable again; unchanged since version ${version}`
        : "rules are unchanged";
      log.info({ ...origin, hash, version }, says);
      return "unchanged";
    }
    this.#current = ruleSet;
    this.#loadedAtUs = clock.nowUs();
    this.#loads++;
    const { version, hash, files, domains, warnings } = ruleSet;
    for (const warning of warnings.slice(0, LOGGED_MAX)) log.warn(origin, formatProblem(warning));
    const more = warnings.length - LOGGED_MAX;
    if (more > 0) log.warn({ ...origin, more }, "the rules have more warnings; see /config");
    const names = { files: firstOf(files), domains: firstOf([...domains.keys()]) };
    log.info({ ...origin, version, hash, ...names }, "rules are in force");
    for (const listener of this.#listeners) listener(ruleSet);
    return "loaded";
  }

  /** What was refused of `part` is no longer there. */
  protected forgetError(part: RulesPart): void {
    this.#errors.delete(part);
  }

  /** Records and logs a refused attempt; the set in force stays. */
  protected refuse(part: RulesPart, error: ConfigError, all: readonly Problem[]): void {
    const { log, origin } = this.#options;
    const { code, message, problems } = error;
    const state = this.#current === undefined ? "no rules are in force" : "the last good rules stay in force";
    const lines = problems.slice(0, LOGGED_MAX);
    log.error({ code, ...origin, problems: lines, more: problems.length - lines.length }, `${message}; ${state}`);
    this.#remember(part, message, all);
  }

  /** Records and logs an unexpected error. The set in force is still good, so the process goes on. */
  protected fault(part: RulesPart, cause: unknown): void {
    const { log, origin } = this.#options;
    log.error({ err: cause, ...origin }, "loading the rules failed unexpectedly");
    this.#remember(part, `loading failed unexpectedly: ${String(cause)}`, []);
  }

  #remember(part: RulesPart, message: string, problems: readonly Problem[]): void {
    this.#failures++;
    this.#errors.delete(part);
    this.#errors.set(part, { atUs: this.#options.clock.nowUs(), part, message, problems });
  }
}

function firstOf(names: readonly string[]): readonly string[] {
  const more = names.length - LOGGED_MAX;
  return more > 0 ? [...names.slice(0, LOGGED_MAX), `and ${more} more`] : names;
}
