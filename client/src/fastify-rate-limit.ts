// The exports of "@headgate/client/fastify-rate-limit": a store for @fastify/rate-limit, so that all processes of a service share one limit.

import { type HitCount, HitCounter, type StoreOptions } from "./hit-counter.ts";
import type { Limiter } from "./limiter.ts";
import { describeValue } from "./misuse.ts";

export type { StoreOptions } from "./hit-counter.ts";

/** Gets an error, or what a key has used and the milliseconds until it is reset. */
type HitCallback = (error: Error | null, result?: { readonly current: number; readonly ttl: number }) => void;

/** The members of @fastify/rate-limit's store. */
export interface HeadgateStore {
  incr(key: string | number, callback: HitCallback, timeWindow: number, max: number): void;
  read(key: string | number, callback: HitCallback, timeWindow: number, max: number): void;
  /** The store of a route with numbers of its own; throws like the constructor. */
  child(params: object): HeadgateStore;
}

/** A class as @fastify/rate-limit makes its store of. Throws TypeError for numbers and options that can't be expressed. */
interface HeadgateStoreClass {
  new (params: object): HeadgateStore;
}

/** `register(rateLimit, { max, timeWindow, store: headgateStore(limiter, { domain, entry }) })`. Throws TypeError for invalid options. */
export function headgateStore(limiter: Pick<Limiter, "check">, options: StoreOptions): HeadgateStoreClass {
  const root = new HitCounter(limiter, options, NAMES);
  const childOf = (params: Params) => new HitCounter(limiter, options, NAMES, routeOf(params));
  return class extends FastifyStore {
    constructor(params: object) {
      super(root, params, childOf);
    }
  };
}

const NAMES = ["max", "timeWindow"] as const;
/** What needs the hits beyond the limit, with its value if it is off. */
const UNCOUNTED = { ban: -1, continueExceeding: false, exponentialBackoff: false } as const;

interface Params extends Partial<Record<keyof typeof UNCOUNTED, unknown>> {
  readonly max?: unknown;
  readonly timeWindow?: unknown;
  readonly groupId?: string;
  readonly routeInfo?: { readonly method?: string | readonly string[]; readonly url?: string };
}

class FastifyStore implements HeadgateStore {
  readonly #counter: HitCounter;
  readonly #childOf: (params: Params) => HitCounter;

  constructor(counter: HitCounter, params: Params, childOf: (params: Params) => HitCounter) {
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
    if (typeof timeWindow !== "function") counter.check({ limit, windowMs: timeWindow as number });
    this.#counter = counter;
    this.#childOf = childOf;
  }

  incr(key: string | number, callback: HitCallback, windowMs: number, limit: number): void {
    answer(this.#counter.hit(key, { limit, windowMs }), callback);
  }

  read(key: string | number, callback: HitCallback, windowMs: number, limit: number): void {
    answer(this.#counter.peek(key, { limit, windowMs }), callback);
  }

  child(params: Params): HeadgateStore {
    return new FastifyStore(this.#childOf(params), params, this.#childOf);
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
