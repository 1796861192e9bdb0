// Small rate limiters to verify: right ones, and twenty-four that are wrong in a way of their own. Nothing here is shared with src, whose
// judge would otherwise share their mistakes.

import type { Limit } from "../../packages/verify/src/limit.ts";
import type { Plan } from "../../packages/verify/src/plan.ts";

/** What a limiter does wrong. */
export type Wrong = (typeof WRONG)[number];
export const WRONG = [
  "reads, then writes",
  "window that resets late",
  "window that resets early",
  "refunds twice",
  "limit per process",
  "loses one update in a hundred",
  "remaining off by one",
  "wait too short",
  "wait too long",
  "burst a tenth too large",
  "rate a tenth too high",
  "refills only on whole seconds",
  "counts refused calls",
  "forgets a key after ten seconds",
  "shares a bucket between two keys",
  "clock that steps",
  "allows on every error",
  "ignores the addend",
  "charges the first descriptor when the second refuses",
  "global limit per connection",
  "edge of a window grants twice",
  "refuses the last hit",
  "tells the wait of the whole call",
  "refunds above the burst",
] as const;

export interface SampleQuestion {
  readonly descriptors: readonly string[];
  readonly cost: number;
  readonly isRefund: boolean;
  readonly process: number;
  readonly connection: number;
}

export interface SampleStatus {
  readonly isOver: boolean;
  readonly quota: number;
  readonly remaining: number;
  resetMs: number;
}

export interface SampleDecision {
  readonly isGranted: boolean;
  /** For each descriptor. */
  readonly statuses: readonly SampleStatus[];
  /** To be done a little later, before the answer is sent. */
  readonly later: (() => void) | undefined;
}

/** How long a limiter that reads, then writes takes between both. */
export const WRITE_MS = 3;

interface Bucket {
  used(now: number): number;
  pay(cost: number): void;
  /** Milliseconds until at most `used` are used. */
  wait(used: number, now: number): number;
}

export class SampleLimiter {
  readonly #plan: Plan;
  readonly #wrong: Wrong | undefined;
  readonly #buckets = new Map<string, { readonly bucket: Bucket; readonly since: number }>();
  #calls = 0;
  #startMs: number | undefined;

  constructor(plan: Plan, wrong?: Wrong) {
    this.#plan = plan;
    this.#wrong = wrong;
  }

  decide(question: SampleQuestion, realNow: number): SampleDecision {
    this.#startMs ??= realNow;
    const now = this.#is("clock that steps") && realNow > this.#startMs + 1_500 ? realNow + 1_300 : realNow;
    const cost = this.#is("ignores the addend") ? 1 : question.cost;
    const limits = this.#limitsOf(question);
    const buckets = limits.map(({ key, limit }) => this.#bucket(key, limit, now));
    const { global } = this.#plan;
    const costs = limits.map(({ limit }) => (limit === global && !global.countsHits ? 1 : cost));
    this.#calls++;
    if (question.isRefund) {
      limits.forEach(({ limit }, at) => {
        // The global limit isn't refunded.
        if (limit === global) return;
        buckets[at]?.used(now);
        buckets[at]?.pay(-cost * (this.#is("refunds twice") ? 2 : 1));
      });
      return { isGranted: true, statuses: [], later: undefined };
    }
    const isError = this.#is("allows on every error") && this.#calls % 50 === 0;
    const isOver = limits.map(
      ({ limit }, at) => !isError && (buckets[at]?.used(now) ?? 0) + (costs[at] ?? 0) > this.#room(limit) + 1e-9,
    );
    const isGranted = !isOver.includes(true);
    const pay = () =>
      buckets.forEach((bucket, at) => {
        const cost = costs[at] ?? 0;
        if (isGranted && !isError && !(this.#is("loses one update in a hundred") && this.#calls % 100 === 0))
          bucket.pay(cost);
        else if (!isGranted && this.#is("counts refused calls")) bucket.pay(Math.min(cost, 0.5));
        else if (
          !isGranted &&
          at === 0 &&
          !isOver[0] &&
          this.#is("charges the first descriptor when the second refuses")
        )
          bucket.pay(cost);
      });
    const isLate = this.#is("reads, then writes");
    if (!isLate) pay();
    const told = limits.slice(0, question.descriptors.length);
    const statuses = told.map(({ limit }, at) => this.#status(buckets[at], limit, isOver[at] === true, cost, now));
    const longestMs = Math.max(...statuses.map(({ isOver, resetMs }) => (isOver ? resetMs : 0)));
    if (!isGranted && this.#is("tells the wait of the whole call"))
      for (const status of statuses) status.resetMs = longestMs;
    return { isGranted, statuses, later: isLate ? pay : undefined };
  }

  #is(wrong: Wrong): boolean {
    return this.#wrong === wrong;
  }

  #limitsOf({ descriptors, process, connection }: SampleQuestion): { readonly key: string; readonly limit: Limit }[] {
    const part = this.#is("limit per process") ? `${process} ` : "";
    const limits = descriptors.flatMap((descriptor) => {
      const key = descriptor.split("=")[0];
      const limit = this.#plan.kinds.flatMap((kind) => kind.descriptors).find(({ entries }) => entries[0]?.key === key)
        ?.limits[0];
      const name = this.#is("shares a bucket between two keys") ? descriptor.replace(/1$/, "0") : descriptor;
      return limit === undefined ? [] : [{ key: part + name, limit }];
    });
    const { global } = this.#plan;
    const connected = this.#is("global limit per connection") ? ` ${process} ${connection}` : "";
    return global === undefined ? limits : [...limits, { key: `all${connected}`, limit: global }];
  }

  #quota({ burst, amount }: Limit): number {
    return (burst ?? amount) * (this.#is("burst a tenth too large") ? 1.1 : 1);
  }

  #room(limit: Limit): number {
    return this.#quota(limit) - (this.#is("refuses the last hit") ? 1 : 0);
  }

  #bucket(key: string, limit: Limit, now: number): Bucket {
    const kept = this.#buckets.get(key);
    if (kept !== undefined && !(this.#is("forgets a key after ten seconds") && now > kept.since + 10_000))
      return kept.bucket;
    const bucket = this.#newBucket(limit);
    this.#buckets.set(key, { bucket, since: now });
    return bucket;
  }

  #newBucket({ algorithm, amount, windowMs }: Limit): Bucket {
    if (algorithm === "token_bucket") {
      const rate = (amount / windowMs) * (this.#is("rate a tenth too high") ? 1.1 : 1);
      const least = this.#is("refunds above the burst") ? Number.NEGATIVE_INFINITY : 0;
      return tokenBucket(rate, this.#is("refills only on whole seconds") ? 1_000 : 0, least);
    }
    const factor = this.#is("window that resets late") ? 1.1 : this.#is("window that resets early") ? 0.9 : 1;
    return window(
      windowMs * factor,
      algorithm === "sliding_window",
      this.#is("edge of a window grants twice") ? 50 : 0,
    );
  }

  #status(bucket: Bucket | undefined, limit: Limit, isOver: boolean, cost: number, now: number): SampleStatus {
    const quota = limit.burst ?? limit.amount;
    const used = bucket?.used(now) ?? 0;
    const wait = bucket?.wait(isOver ? quota - cost : 0, now) ?? 0;
    const factor = this.#is("wait too short") ? 0.5 : this.#is("wait too long") ? 1.5 : 1;
    const more = this.#is("remaining off by one") ? 1 : 0;
    return { isOver, quota, remaining: Math.max(0, Math.floor(quota - used + 1e-9)) + more, resetMs: wait * factor };
  }
}

/** `stepMs`: it refills only at multiples of that. `least`: what refunds can bring its use down to. */
function tokenBucket(perMs: number, stepMs: number, least: number): Bucket {
  let debt = 0;
  let at = 0;
  return {
    used: (now) => {
      const until = stepMs === 0 ? now : Math.floor(now / stepMs) * stepMs;
      debt = Math.max(Math.min(debt, 0), debt - Math.max(0, until - at) * perMs);
      at = Math.max(at, until);
      return debt;
    },
    pay: (cost) => {
      debt = Math.max(least, debt + cost);
    },
    wait: (used) => Math.max(0, debt - used) / perMs,
  };
}

/** `looseMs`: calls so soon after an edge count apart. */
function window(windowMs: number, slides: boolean, looseMs: number): Bucket {
  let index = 0;
  let counts = { current: 0, previous: 0, loose: 0 };
  let isLoose = false;
  const elapsed = (now: number) => now / windowMs - Math.floor(now / windowMs);
  const used = (now: number) => {
    const passed = Math.floor(now / windowMs) - index;
    if (passed > 0) counts = { current: 0, previous: passed === 1 ? counts.current : 0, loose: 0 };
    index += passed;
    isLoose = elapsed(now) * windowMs < looseMs;
    if (isLoose) return counts.loose;
    return counts.current + (slides ? counts.previous * (1 - elapsed(now)) : 0);
  };
  return {
    used,
    pay: (cost) => {
      if (isLoose) counts.loose += cost;
      else counts.current = Math.max(0, counts.current + cost);
    },
    wait: (allowed, now) => {
      if (used(now) <= allowed) return 0;
      const toEdge = (1 - elapsed(now)) * windowMs;
      if (!slides) return toEdge;
      const { current, previous } = counts;
      if (current <= allowed) return (1 - (allowed - current) / previous - elapsed(now)) * windowMs;
      return toEdge + (1 - allowed / current) * windowMs;
    },
  };
}
