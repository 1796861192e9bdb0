// The rules in force and what became of the attempts to replace them, wherever rules come from: told to who needs them, to
// pages, metrics and the log.

import type { Clock } from "../core/clock.ts";
import type { ConfigError } from "../core/errors.ts";
import { formatProblem } from "../rules/problems.ts";
import type { Problem, RuleSet } from "../rules/rule-set.ts";

/** Where rules come from, for everyone who needs them or shows them. */
export interface RuleSource {
  /** The set in force; undefined until the first good load. */
  readonly current: RuleSet | undefined;
  /** Calls `listener` with the set in force, if any, and with each new one. Returns how to stop. */
  subscribe(listener: (ruleSet: RuleSet) => void): () => void;
  status(): RulesStatus;
  /** Has the first rules, or knows why there are none, when it resolves. Never rejects. */
  start(): Promise<unknown>;
  /** Looks now, whatever was noticed by itself. Never rejects. */
  reload(): Promise<unknown>;
  /** Looks no more. The set in force stays. */
  close(): void;
}

/** The state of the rules, for pages and metrics. Times are microseconds since the Unix epoch. */
export interface RulesStatus {
  /** When the set in force was loaded; undefined without one. */
  readonly loadedAtUs: number | undefined;
  /** What refused the last attempt; undefined if it went well. */
  readonly lastError: RulesFailure | undefined;
  /** Attempts that put a set in force, and attempts that were refused. */
  readonly loads: number;
  readonly failures: number;
}

/** A load that was refused. */
export interface RulesFailure {
  readonly atUs: number;
  /** One sentence. */
  readonly message: string;
  /** Errors and warnings of that load. */
  readonly problems: readonly Problem[];
}

/** What it writes its log with; pino's loggers are of this shape. */
export interface ReloadLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

// Lines of one refusal in the log; /config has them all.
const PROBLEMS_LOGGED_MAX = 20;

interface RuleKeeperOptions {
  readonly clock: Clock;
  readonly log: ReloadLog;
  /** Says in the log where rules come from. */
  readonly origin: object;
}

/** Holds the last good set. */
export class RuleKeeper {
  readonly #options: RuleKeeperOptions;
  readonly #listeners = new Set<(ruleSet: RuleSet) => void>();
  #current: RuleSet | undefined;
  #loadedAtUs: number | undefined;
  #lastError: RulesFailure | undefined;
  #loads = 0;
  #failures = 0;

  constructor(options: RuleKeeperOptions) {
    this.#options = options;
  }

  get current(): RuleSet | undefined {
    return this.#current;
  }

  /** The version that the next set takes. */
  get nextVersion(): number {
    return (this.#current?.version ?? 0) + 1;
  }

  subscribe(listener: (ruleSet: RuleSet) => void): () => void {
    this.#listeners.add(listener);
    if (this.#current !== undefined) listener(this.#current);
    return () => this.#listeners.delete(listener);
  }

  status(): RulesStatus {
    return {
      loadedAtUs: this.#loadedAtUs,
      lastError: this.#lastError,
      loads: this.#loads,
      failures: this.#failures,
    };
  }

  /** Puts a good set in force, unless it is the one in force already. `isWhole`: nothing that belongs to it is refused still. */
  accept(ruleSet: RuleSet, isWhole = true): "loaded" | "unchanged" {
    const { clock, log, origin } = this.#options;
    if (isWhole) this.#lastError = undefined;
    if (ruleSet.hash === this.#current?.hash) {
      log.info({ ...origin, hash: ruleSet.hash, version: this.#current.version }, "rules are unchanged");
      return "unchanged";
    }
    this.#current = ruleSet;
    this.#loadedAtUs = clock.nowUs();
    this.#loads++;
    const { version, hash, files, domains, warnings } = ruleSet;
    for (const warning of warnings) log.warn(origin, formatProblem(warning));
    log.info({ ...origin, version, hash, files, domains: [...domains.keys()] }, "rules are in force");
    for (const listener of this.#listeners) listener(ruleSet);
    return "loaded";
  }

  /** Remembers and logs what was refused; the set in force stays. */
  refuse(error: ConfigError, all: readonly Problem[]): void {
    const { log, origin } = this.#options;
    const { code, message, problems } = error;
    const state = this.#current === undefined ? "no rules are in force" : "the last good rules stay in force";
    const lines = problems.slice(0, PROBLEMS_LOGGED_MAX);
    log.error({ code, ...origin, problems: lines, more: problems.length - lines.length }, `${message}; ${state}`);
    this.#remember(message, all);
  }

  /** Remembers a fault of ours: whatever is in force is good, so this must not end the process. */
  fault(cause: unknown): void {
    const { log, origin } = this.#options;
    log.error({ err: cause, ...origin }, "loading the rules failed unexpectedly");
    this.#remember(`loading failed unexpectedly: ${String(cause)}`, []);
  }

  #remember(message: string, problems: readonly Problem[]): void {
    this.#failures++;
    this.#lastError = { atUs: this.#options.clock.nowUs(), message, problems };
  }
}
