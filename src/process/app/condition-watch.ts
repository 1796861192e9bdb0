// Looks once a second for what is wrong with this process, so that its pages can say since when.

import type { Condition } from "../../operate/condition.ts";
import { ConditionBook, GrowthBook } from "../../operate/http/condition-book.ts";
import { findConditions, mishapsOf, type ProcessFacts } from "../../operate/http/find-conditions.ts";
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
    const grown = (id: string, count: number) => this.#growth.grown(id, count, nowUs);
    const missing = health.notes().get("workers");
    return {
      troubles: own.troubles,
      notes: missing === undefined ? own.notes : new Map([...own.notes, ["workers", missing]]),
      breakers: storeCounts.serverBreakers,
      rules: { areInForce: reloader.current !== undefined, lastFailure: reloader.status().lastError },
      planeRefusal: xds?.xdsStatus().lastRefusal,
      certificate: tlsNumbers(running.tls),
      unmatched: [...calls.unmatched.entries()].filter(
        ({ domain, stats }) => grown(`unmatched ${domain}`, stats.descriptors) > 0,
      ),
      mishaps: mishapsOf({ calls, store: storeCounts }, grown),
    };
  }
}
