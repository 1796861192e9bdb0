// The exports of "@headgate/client/fastify-rate-limit": a store for @fastify/rate-limit, so that all processes of a
// service share one limit.

import { type HitCount, HitCounter, type HitKey, type StoreOptions } from "./hit-counter.ts";
import type { Limiter } from "./limiter.ts";
import { describeValue } from "./misuse.ts";

export type { StoreOptions } from "./hit-counter.ts";

/** Gets an error, or what a key has used and the milliseconds until it is reset. */
type HitCallback = (error: Error | null, result?: { readonly current: number; readonly ttl: number }) => void;

/**
 * `register(rateLimit, { max, timeWindow, store: headgateStore(limiter, { domain, entry }) })`. Throws TypeError for
 * invalid options; the class does so for numbers and options of the middleware that can't be expressed.
 */
export function headgateStore(
  limiter: Pick<Limiter, "check">,
  options: StoreOptions,
): new (
  params: object,
) => HeadgateStore {
  const counter = new HitCounter(limiter, options, ["max", "timeWindow"]);
  return class extends HeadgateStore {
    constructor(params: object) {
      super(counter, params);
    }
  };
}

/** What needs the hits beyond the limit, with its value if it is off. */
const UNCOUNTED = { ban: -1, continueExceeding: false, exponentialBackoff: false } as const;

interface Params extends Partial<Record<keyof typeof UNCOUNTED, unknown>> {
  readonly max?: unknown;
  readonly timeWindow?: unknown;
  readonly groupId?: string;
  readonly routeInfo?: { readonly method?: string | readonly string[]; readonly url?: string };
}

class HeadgateStore {
  readonly #counter: HitCounter;

  constructor(counter: HitCounter, params: Params) {
    for (const [name, off] of Object.entries(UNCOUNTED)) {
      const value = params[name as keyof typeof UNCOUNTED] ?? off;
      if (value === off) continue;
      throw new TypeError(
        `${name}: expected ${off}, got ${describeValue(value)}: Headgate counts no hits beyond the limit`,
      );
    }
    const { max, timeWindow } = params;
    // What a function returns is checked in each call.
    const limit = typeof max === "function" ? 0 : (max as number);
    if (typeof timeWindow !== "function") counter.overrideOf({ limit, windowMs: timeWindow as number });
    this.#counter = counter;
  }

  incr(key: HitKey, callback: HitCallback, windowMs: number, limit: number): void {
    answer(this.#counter.hit(key, { limit, windowMs }), callback);
  }

  read(key: HitKey, callback: HitCallback, windowMs: number, limit: number): void {
    answer(this.#counter.peek(key, { limit, windowMs }), callback);
  }

  /** The store of a route with numbers of its own; throws like the constructor. */
  child(params: object): HeadgateStore {
    return new HeadgateStore(this.#counter.ofRoute(routeOf(params)), params);
  }
}

function answer(counted: Promise<HitCount>, callback: HitCallback): void {
  counted.then(({ total, resetMs }) => callback(null, { current: total, ttl: resetMs }), callback);
}

// fastify.rateLimit() and createRateLimit() with options belong to no route, so their groupId names them.
function routeOf({ routeInfo, groupId }: Params): string {
  if (routeInfo?.url !== undefined) return `${String(routeInfo.method)} ${routeInfo.url}`;
  if (groupId !== undefined) return groupId;
  throw new TypeError(
    "groupId: expected a name for a limit that belongs to no route, which tells its counts and rule from others",
  );
}
