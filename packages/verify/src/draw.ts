// Draws calls by a seed: bursts, steady rates, silence, and crowds at the edges of windows.

import type { Planned } from "./call.ts";
import { type Limit, quotaOf } from "./limit.ts";
import { callersOf, limitsOf, type Plan } from "./plan.ts";

/** Most calls a second, all callers together. */
const CALLS_PER_SECOND_MAX = 1_500;
/** Most calls of a crowd. */
const BURST_MAX = 200;
/** Least calls of a steady caller in a run: shows that what was used of a slow limit stays used. */
const CALLS_MIN = 20;
const COST_MAX = 5;
/** What shows most in a short run: a burst, then steady calls; with refunds quiet calls first. */
const FIRST_SHAPES = { without: [0, 0.3], withRefunds: [0.6, 0] };
/** How far from an edge calls crowd. */
const EDGE_MS = 40;

/** A generator of numbers from 0 to 1 that a seed repeats (mulberry32). */
export function randomBy(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/**
 * All calls in the order of their times. `startMs`: when the run begins, in ms since the Unix epoch; windows have their
 * edges by it.
 */
export function drawCalls(plan: Plan, startMs: number): Planned[] {
  const callers = plan.kinds.map(callersOf);
  const all = callers.reduce((sum, number) => sum + number, 0);
  const world = { plan, startMs, random: randomBy(plan.seed), perMsMax: CALLS_PER_SECOND_MAX / 1_000 / all };
  const calls = callers.flatMap((number, kind) =>
    Array.from({ length: number }, (_, caller) => {
      const drawn = new Caller(limitsOf(plan, kind), world).calls(caller / number);
      return drawn.map((call) => ({ ...call, kind, caller }));
    }).flat(),
  );
  return calls.sort((a, b) => a.dueMs - b.dueMs);
}

interface World {
  readonly plan: Plan;
  readonly startMs: number;
  readonly random: () => number;
  readonly perMsMax: number;
}

class Caller {
  readonly #limits: readonly Limit[];
  readonly #world: World;
  readonly #calls: Omit<Planned, "kind" | "caller">[] = [];
  #at: number;

  constructor(limits: readonly Limit[], world: World) {
    this.#limits = limits;
    this.#world = world;
    this.#at = world.random() * 100;
  }

  /** `rest`: how much of its time the caller is silent, in addition to what is drawn; not all are equally busy. */
  calls(rest: number): readonly Omit<Planned, "kind" | "caller">[] {
    const { random } = this.#world;
    const { forMs, hasRefunds } = this.#world.plan;
    for (let turn = 0; this.#at < forMs; turn++) {
      const limit = this.#limits[Math.floor(random() * this.#limits.length)];
      if (limit === undefined) break;
      const quota = quotaOf(limit);
      const perMs = Math.max(limit.amount / limit.windowMs, CALLS_MIN / forMs);
      const spanMs = Math.min(quota / perMs, forMs / 6) * (0.5 + random());
      const shape = (hasRefunds ? FIRST_SHAPES.withRefunds : FIRST_SHAPES.without)[turn] ?? random() * (1 + rest);
      if (shape < 0.25) this.#burst(quota);
      else if (shape < 0.55) this.#steady(spanMs, Math.min(perMs * (0.6 + 2 * random()), this.#world.perMsMax));
      else if (shape < 0.7) this.#quiet(spanMs / 2, Math.min(perMs / 3, this.#world.perMsMax / 3), quota);
      else if (shape < 0.85) this.#edges(limit.windowMs, quota);
      else this.#at += spanMs * (0.1 + 1.5 * random());
    }
    return this.#calls.filter(({ dueMs }) => dueMs < forMs);
  }

  #burst(quota: number): void {
    const calls = quota * (1.1 + 0.6 * this.#world.random());
    for (let left = calls; left > 0 && this.#at < this.#world.plan.forMs; left -= BURST_MAX) this.#crowd(left, 5);
    this.#at += 20 + 200 * this.#world.random();
  }

  /** Calls within `spreadMs`, then a pause that keeps the overall rate. */
  #crowd(calls: number, spreadMs: number): void {
    const number = Math.min(BURST_MAX, Math.ceil(calls));
    for (let left = number; left > 0; left--) this.#call(this.#at + this.#world.random() * spreadMs);
    this.#at += Math.max(0, number / this.#world.perMsMax - 2 * EDGE_MS);
  }

  /** Calls one by one; with refunds at a limit that is used up, and at one that is full. */
  #quiet(forMs: number, perMs: number, quota: number): void {
    if (!this.#world.plan.hasRefunds) this.#steady(forMs, perMs);
    else {
      this.#burst(quota);
      this.#steady(forMs, perMs * 2, 0.5);
      this.#refundWhenFull(quota / (3 * perMs));
      this.#burst(quota);
    }
  }

  /** What comes back to a full limit must not count. */
  #refundWhenFull(fullMs: number): void {
    if (fullMs > this.#world.plan.forMs / 4) return;
    this.#at += fullMs;
    for (let refunds = 0; refunds < 3; refunds++) this.#call(this.#at + refunds, true);
    this.#at += 200 * this.#world.random();
  }

  #steady(forMs: number, perMs: number, refunds = 0): void {
    for (const endMs = this.#at + forMs; this.#at < endMs; ) {
      this.#call(this.#at);
      this.#at += (0.5 + this.#world.random()) / perMs;
      if (this.#world.random() >= refunds) continue;
      this.#call(this.#at, true);
      this.#at += (0.5 + this.#world.random()) / perMs;
    }
  }

  /** Crowds before and after the next two edges. */
  #edges(windowMs: number, quota: number): void {
    const { random, startMs } = this.#world;
    for (let edges = 0; edges < 2; edges++) {
      const toEdge = windowMs - ((startMs + this.#at) % windowMs);
      if (toEdge > this.#world.plan.forMs / 3) break;
      this.#at += Math.max(0, toEdge - EDGE_MS * random());
      this.#crowd(quota * (0.3 + random()), 5);
      this.#at += Math.min(toEdge, EDGE_MS) + EDGE_MS * random();
      this.#crowd(quota * (0.3 + random()), 5);
      this.#at += windowMs * 0.2 * random() + 1;
    }
    this.#at += 10 + 100 * random();
  }

  #call(dueMs: number, isRefund = false): void {
    const most = Math.min(COST_MAX, ...this.#limits.map(quotaOf));
    const isMore = !this.#world.plan.isHttp && !isRefund && this.#world.random() < 0.2;
    const cost = isMore ? 1 + Math.ceil(this.#world.random() * (most - 1)) : 1;
    this.#calls.push({ dueMs, cost, isRefund });
  }
}
