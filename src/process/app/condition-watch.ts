// Looks once a second for what is wrong with this process, so that its pages can say since when.

import type { Condition } from "../../operate/condition.ts";
import { ConditionBook, GrowthBook } from "../../operate/http/condition-book.ts";
import { findConditions } from "../../operate/http/find-conditions.ts";
import type { AppParts } from "./app-parts.ts";
import { tlsNumbers } from "./tls-watch.ts";

/** Times of conditions are exact to this, in milliseconds. */
const LOOK_MS = 1_000;

/** Looks from now on, as one of `running.watches`. Returns what looks, too, and says what is wrong now. */
export function watchConditions(parts: AppParts): () => readonly Condition[] {
  const { clock, health, reloader, calls, storeCounts: store, running, runtimeLimits, xds } = parts;
  const book = new ConditionBook();
  const growth = new GrowthBook();
  const look = () => {
    const nowUs = clock.nowUs();
    const own = health.own();
    const missing = health.notes().get("workers");
    const findings = findConditions({
      troubles: own.troubles,
      notes: missing === undefined ? own.notes : new Map([...own.notes, ["workers", missing]]),
      breakers: store.serverBreakers,
      rules: { areInForce: reloader.current !== undefined, lastFailure: reloader.status().lastError },
      planeRefusal: xds?.xdsStatus().lastRefusal,
      certificate: tlsNumbers(running.tls),
      limitsTrouble: runtimeLimits.sync?.trouble,
      counts: { calls, store },
      grown: (id, count) => growth.grown(id, count, nowUs),
    });
    return book.note(findings, nowUs);
  };
  running.watches.push(setInterval(look, LOOK_MS).unref());
  return look;
}
