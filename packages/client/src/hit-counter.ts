// Counts for the stores of other rate limit middleware. Their limit and window are sent as the call's own limit, unless
// a rule decides.

import type { CheckDecision } from "./decision.ts";
import type { Limiter } from "./limiter.ts";
import { checkMembers, checkType, checkWhole, describeValue } from "./misuse.ts";
import type { Algorithm, EntryValue, FullDescriptor, Override } from "./request.ts";
import type { Unit } from "./unit.ts";
import { checkAlgorithm, UINT32_MAX } from "./write-request.ts";

export interface StoreOptions {
  /** The domain of a rule file. */
  readonly domain: string;
  /** Names the limit: key of the entry whose value is the middleware's key. Stores with one name count together. */
  readonly entry: string;
  /**
   * True: the rule for this entry decides, and the middleware's numbers are only shown. For windows other than units.
   */
  readonly ruleDecides?: boolean;
  /**
   * How the middleware's limit counts. Default: up to a limit of 1,000 `sliding_log`, which lets callers who keep the
   * pace pass; above that `sliding_window`.
   */
  readonly algorithm?: Algorithm;
}

/** The middleware's numbers. */
export interface HitWindow {
  readonly limit: number;
  readonly windowMs: number;
}

/** What a key has used. */
export interface HitCount {
  /** At most the limit; one more if the hit was refused, because Headgate does not count what it refuses. */
  readonly total: number;
  /** Until the limit is full again; if refused, until the hit could pass. */
  readonly resetMs: number;
  readonly wasPaid: boolean;
}

/**
 * What the middleware's `keyGenerator` returns. Callers without a key share one limit, as in the middleware's own
 * stores.
 */
export type HitKey = EntryValue | null | undefined;

type Hits = Pick<FullDescriptor, "hits" | "peek" | "refund">;

const SECOND_MS = 1_000;
/** Most hits of a sliding log. */
const LOG_LIMIT_MAX = 1_000;
const DAY_MS = 86_400_000;
/** The protocol's month and year have 30 and 365 days. */
const UNIT_OF_MS: ReadonlyMap<number, Unit> = new Map([
  [SECOND_MS, "second"],
  [60_000, "minute"],
  [3_600_000, "hour"],
  [DAY_MS, "day"],
  [7 * DAY_MS, "week"],
  [30 * DAY_MS, "month"],
  [365 * DAY_MS, "year"],
]);

/** Counts the hits of one limit. */
export class HitCounter {
  readonly #limiter: Pick<Limiter, "check">;
  readonly #options: StoreOptions;
  readonly #names: readonly [limit: string, window: string];
  readonly #route: string | undefined;

  /** `names` are the middleware's words for its numbers. Throws TypeError for invalid options. */
  constructor(
    limiter: Pick<Limiter, "check">,
    options: StoreOptions,
    names: readonly [limit: string, window: string],
    route?: string,
  ) {
    checkMembers("headgateStore", options, ["domain", "entry", "ruleDecides", "algorithm"]);
    for (const name of ["domain", "entry"] as const) {
      if (typeof options[name] === "string" && options[name] !== "") continue;
      throw new TypeError(`${name}: expected text, got ${describeValue(options[name])}`);
    }
    checkType("ruleDecides", options.ruleDecides, "boolean");
    checkAlgorithm("algorithm", options.algorithm);
    this.#limiter = limiter;
    this.#options = options;
    this.#names = names;
    this.#route = route;
  }

  /** One for a route with counts and rules of its own. */
  ofRoute(route: string): HitCounter {
    return new HitCounter(this.#limiter, this.#options, this.#names, route);
  }

  /** Pays a hit. */
  async hit(key: HitKey, window: HitWindow): Promise<HitCount> {
    const decision = await this.#ask(key, window, {});
    const wasPaid = decision.allowed && decision.degraded?.by !== "client";
    const total = decision.allowed ? Math.max(1, usedOf(decision, window.limit)) : window.limit + 1;
    return { total, resetMs: resetMsOf(decision, window), wasPaid };
  }

  /** What is used now, without a hit. */
  async peek(key: HitKey, window: HitWindow): Promise<HitCount> {
    const decision = await this.#ask(key, window, { peek: true });
    return { total: usedOf(decision, window.limit), resetMs: resetMsOf(decision, window), wasPaid: false };
  }

  /** Gives back as many hits, or all that are used. */
  async giveBack(key: HitKey, window: HitWindow, hits = UINT32_MAX): Promise<void> {
    await this.#ask(key, window, { hits, refund: true });
  }

  async #ask(key: HitKey, window: HitWindow, hits: Hits): Promise<CheckDecision> {
    const { domain, entry } = this.#options;
    const override = this.overrideOf(window);
    const route = this.#route === undefined ? [] : [["route", this.#route] as const];
    const descriptor = { entries: [[entry, key ?? ""] as const, ...route], ...hits };
    const decision = await this.#limiter.check({
      domain,
      descriptors: [override === undefined ? descriptor : { ...descriptor, override }],
    });
    const { unmatched, unknown_domain } = decision.metadata;
    if (unmatched === undefined && unknown_domain === undefined) return decision;
    // Without the error nothing would be limited, and nobody would know.
    throw new Error(
      `Headgate has no such ${unmatched === undefined ? "domain" : "rule"}. Write this rule file:\n${this.#ruleFor(window)}`,
    );
  }

  /** The call's own limit; undefined if a rule decides. Throws TypeError for what neither can express. */
  overrideOf(window: HitWindow): Override | undefined {
    const { limit, windowMs } = window;
    const [limitName, windowName] = this.#names;
    checkWhole(limitName, limit, 0, UINT32_MAX);
    checkWhole(windowName, windowMs, 1, Number.MAX_SAFE_INTEGER);
    const algorithm = this.#algorithmOf(limit);
    if (algorithm === "sliding_log") checkWhole(`${limitName} of a sliding_log`, limit, 0, LOG_LIMIT_MAX);
    if (this.#options.ruleDecides === true) return undefined;
    const unit = UNIT_OF_MS.get(windowMs);
    if (unit !== undefined) return { requestsPerUnit: limit, unit, algorithm };
    throw new TypeError(
      `${windowName}: expected a ${[...UNIT_OF_MS.values()].join(", ")} in milliseconds, got ${windowMs}. ` +
        `For other windows write a rule and set \`ruleDecides: true\`:\n${this.#ruleFor(window)}`,
    );
  }

  #algorithmOf(limit: number): Algorithm {
    return this.#options.algorithm ?? (limit <= LOG_LIMIT_MAX ? "sliding_log" : "sliding_window");
  }

  /** A rule file for this limit. */
  #ruleFor({ limit, windowMs }: HitWindow): string {
    const { domain, entry } = this.#options;
    const window = `window: ${Math.ceil(windowMs / SECOND_MS)}s, algorithm: ${this.#algorithmOf(limit)}`;
    const rule = `rate_limit: { requests_per_unit: ${limit}, ${window} }`;
    const head = `domain: ${JSON.stringify(domain)}\ndescriptors:\n  - key: ${JSON.stringify(entry)}\n`;
    if (this.#route === undefined) return `${head}    ${rule}`;
    return `${head}    descriptors:\n      - key: route\n        value: ${JSON.stringify(this.#route)}\n        ${rule}`;
  }
}

// A rule or a limit at run time may allow more than the middleware knows. A decision without a limit used nothing.
function usedOf({ remaining }: CheckDecision, limit: number): number {
  return remaining === undefined ? 0 : Math.max(0, limit - remaining);
}

function resetMsOf({ retryAfterSeconds, resetSeconds }: CheckDecision, { windowMs }: HitWindow): number {
  const seconds = retryAfterSeconds ?? resetSeconds;
  return seconds === undefined ? windowMs : seconds * SECOND_MS;
}
