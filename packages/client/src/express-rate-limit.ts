// The exports of "@headgate/client/express-rate-limit": a store for express-rate-limit, so that all processes of a
// service share one limit.

import { AsyncLocalStorage } from "node:async_hooks";
import { HitCounter, type HitWindow, type StoreOptions } from "./hit-counter.ts";
import type { Limiter } from "./limiter.ts";
import { describeValue } from "./misuse.ts";

export type { StoreOptions } from "./hit-counter.ts";

/** What express-rate-limit shows of a key. */
interface HitInfo {
  readonly totalHits: number;
  readonly resetTime: Date;
}

/** What it tells stores of its own options. */
interface MiddlewareOptions {
  readonly windowMs: number;
  readonly limit: unknown;
  readonly skipFailedRequests?: boolean;
  readonly skipSuccessfulRequests?: boolean;
  /** From 8.4.1 on. */
  readonly logger?: unknown;
}

/**
 * `rateLimit({ windowMs, limit, store: headgateStore(limiter, { domain, entry }) })`. Throws TypeError for invalid
 * options; `rateLimit` throws one for a window or limit that can't be expressed.
 */
export function headgateStore(limiter: Pick<Limiter, "check">, options: StoreOptions): HeadgateStore {
  return new HeadgateStore(limiter, options);
}

class HeadgateStore {
  readonly prefix: string;
  readonly #counter: HitCounter;
  /**
   * The hit of the request that is being handled. A decrement names only its key. The middleware makes it in a promise
   * of its request, so its context is right; versions that `checkSkips` refuses made it in an event, in the context of
   * whatever answered.
   */
  readonly #ownHit = new AsyncLocalStorage<{ readonly key: string; wasPaid: boolean }>();
  #window: HitWindow | TypeError = new TypeError("the store is not initialized: pass it to rateLimit() first");

  constructor(limiter: Pick<Limiter, "check">, options: StoreOptions) {
    this.#counter = new HitCounter(limiter, options, ["limit", "windowMs"]);
    this.prefix = options.entry;
  }

  // express-rate-limit logs what `init` throws, and goes on. So the mistake is kept for `get`, which it reads next,
  // outside of any try block.
  init(options: MiddlewareOptions): void {
    const { windowMs, limit } = options;
    try {
      checkSkips(options);
      if (typeof limit !== "number") {
        throw new TypeError(
          `limit: expected a number, got ${describeValue(limit)}: stores are not told its result. ` +
            'Use expressLimit of "@headgate/client", with a rule for each kind of caller',
        );
      }
      this.#counter.overrideOf({ limit, windowMs });
      this.#window = { limit, windowMs };
    } catch (error) {
      this.#window = error as TypeError;
    }
  }

  /** What a key has used; undefined if nothing. */
  get get(): (key: string) => Promise<HitInfo | undefined> {
    const window = this.#checkedWindow();
    return async (key) => {
      const { total, resetMs } = await this.#counter.peek(key, window);
      return total === 0 ? undefined : infoOf(total, resetMs);
    };
  }

  async increment(key: string): Promise<HitInfo> {
    const window = this.#checkedWindow();
    const own = { key, wasPaid: false };
    // Before the first await, so that the middleware has it, too, when it goes on.
    this.#ownHit.enterWith(own);
    const { total, resetMs, wasPaid } = await this.#counter.hit(key, window);
    own.wasPaid = wasPaid;
    return infoOf(total, resetMs);
  }

  /** Gives a hit back, unless this request's own hit was refused and so never paid. */
  async decrement(key: string): Promise<void> {
    const own = this.#ownHit.getStore();
    if (own?.key === key && !own.wasPaid) return;
    await this.#counter.giveBack(key, this.#checkedWindow(), 1);
  }

  async resetKey(key: string): Promise<void> {
    await this.#counter.giveBack(key, this.#checkedWindow());
  }

  #checkedWindow(): HitWindow {
    if (this.#window instanceof TypeError) throw this.#window;
    return this.#window;
  }
}

// Before 8.3.2 a request's decrement ran in the context of another one if requests were pipelined, or answered from a
// queue.
function checkSkips(options: MiddlewareOptions): void {
  const name = SKIPS.find((skip) => options[skip] === true);
  if (name === undefined || options.logger !== undefined) return;
  throw new TypeError(
    `${name}: expected false with express-rate-limit before 8.4.1, whose refused requests would give back what others paid. ` +
      "Install express-rate-limit 8.4.1 or newer",
  );
}

const SKIPS = ["skipFailedRequests", "skipSuccessfulRequests"] as const;

function infoOf(totalHits: number, resetMs: number): HitInfo {
  return { totalHits, resetTime: new Date(Date.now() + resetMs) };
}
