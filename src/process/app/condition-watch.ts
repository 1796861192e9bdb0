// Looks once a second for what is wrong with this process, so that its pages can say since when.

import type { Condition } from "../../operate/condition.ts";
import { ConditionBook, GrowthBook } from "../../operate/http/condition-book.ts";
import { findConditions, type Mishap, type ProcessFacts } from "../../operate/http/find-conditions.ts";
import type { AppParts } from "./app-parts.ts";
import { tlsNumbers } from "./tls-watch.ts";

/** Times of conditions are exact to this, in milliseconds. */
const LOOK_MS = 1_000;

/** Knows what is wrong with the process, and since when. */
export class ConditionWatch {
  readonly #parts: AppParts;
  readonly #book = new ConditionBook();
  readonly #growth = new GrowthBook();

  constructor(parts: AppParts) {
    this.#parts = parts;
  }

  /** Looks until the returned timer is cleared. */
  start(): NodeJS.Timeout {
    return setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** Looks, and returns what is wrong now. */
  look(): readonly Condition[] {
    const nowUs = this.#parts.clock.nowUs();
    return this.#book.note(findConditions(this.#facts(nowUs)), nowUs);
  }

  #facts(nowUs: number): ProcessFacts {
    const { health, reloader, calls, storeCounts, running, xds } = this.#parts;
    const own = health.own();
    const missing = health.notes().get("workers");
    return {
      troubles: own.troubles,
      notes: missing === undefined ? own.notes : new Map([...own.notes, ["workers", missing]]),
      breakers: storeCounts.serverBreakers,
      rules: { areInForce: reloader.current !== undefined, lastFailure: reloader.status().lastError },
      planeRefusal: xds?.xdsStatus().lastRefusal,
      certificate: tlsNumbers(running.tls),
      unmatched: [...calls.unmatched.entries()].filter(
        ({ domain, descriptors }) => this.#growth.grown(`unmatched ${domain}`, descriptors, nowUs) > 0,
      ),
      mishaps: this.#mishaps(nowUs),
    };
  }

  #mishaps(nowUs: number): Record<Mishap, number> {
    const { calls, storeCounts } = this.#parts;
    const grown = (id: Mishap, count: number) => this.#growth.grown(id, count, nowUs);
    return {
      degraded: grown("degraded", calls.degradedCalls()),
      overloaded: grown("overloaded", calls.overloadedCalls),
      internalErrors: grown("internalErrors", calls.internalErrors),
      loopLate: grown("loopLate", storeCounts.lateGroups),
      damaged: grown("damaged", storeCounts.damagedBuckets),
      evicted: grown("evicted", storeCounts.evictedBuckets),
      lateReports: grown("lateReports", calls.lateReports),
    };
  }
}
