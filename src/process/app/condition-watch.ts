// Checks once a second what is wrong with this process, so that its pages can say since when.

import type { Clock } from "../../base/clock.ts";
import { runInTurns } from "../../base/long-work.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { DomainRules, RuleSet } from "../../engine/rules/rule-set.ts";
import type { Condition } from "../../operate/condition.ts";
import { ConditionBook, GrowthBook } from "../../operate/http/condition-book.ts";
import { findConditions, type ProcessFacts } from "../../operate/http/find-conditions.ts";
import type { LimitCounts } from "../../operate/http/limit-pages.ts";
import type { AppParts } from "./app-parts.ts";
import { tlsNumbers } from "./tls-watch.ts";

/** Times of conditions are exact to this, in milliseconds. */
const LOOK_MS = 1_000;

/** The domains that require entries of calls. */
export function requiringDomains(rules: RuleSet | undefined): DomainRules[] {
  return [...(rules?.domains.values() ?? [])].filter(({ required }) => required !== undefined);
}

function clockSet({ shift }: Clock, nowUs: number): ProcessFacts["clockSet"] {
  if (shift === undefined || shift.changedAtUs === 0) return undefined;
  return { seconds: shift.us / MICROS_PER_SECOND, secondsAgo: (nowUs - shift.changedAtUs) / MICROS_PER_SECOND };
}

/** Starts to check, as one of `running.watches`. Returns a function that checks now and says what is wrong. */
export function watchConditions(parts: AppParts): () => readonly Condition[] {
  const { clock, health, reloader, calls, storeCounts: store, limitWatch, undecided, events } = parts;
  const book = new ConditionBook();
  const growth = new GrowthBook();
  let limitCounts: LimitCounts | undefined;
  const look = () => {
    const nowUs = clock.nowUs();
    if (limitWatch.isDue(nowUs))
      runInTurns(limitWatch.look(reloader.current, nowUs)).catch((error: unknown) => calls.internalFailed(error));
    parts.runtimeLimits.source.counts().then(
      (counts) => {
        limitCounts = counts;
      },
      (error: unknown) => calls.internalFailed(error),
    );
    undecided.look(calls.undecided(), [...calls.undecidedLimits].map(textOf), nowUs);
    calls.undecidedLimits.clear();
    const findings = findConditions({
      troubles: health.troubles(),
      notes: health.notes(),
      breakers: store.serverBreakers,
      rules: { areInForce: reloader.current !== undefined, lastFailure: reloader.status().lastError },
      planeRefusal: parts.xds?.xdsStatus().lastRefusal,
      certificate: tlsNumbers(parts.running.tls),
      limitsTrouble: parts.runtimeLimits.sync.trouble,
      idleLimits: parts.runtimeLimits.source.idle,
      clockSet: clockSet(clock, nowUs),
      counts: { calls, store, logLinesLost: (parts.logOutput?.dropped ?? 0) + (parts.decisionLog?.lost() ?? 0) },
      deadLimits: limitWatch.dead,
      undecided: { rows: undecided.list(nowUs), limits: undecided.limits() },
      requiring: requiringDomains(reloader.current),
      grown: (id, count) => growth.grown(id, count, nowUs),
    });
    const { current } = reloader;
    const criticals = findings.filter(({ severity, causedBy }) => severity === "critical" && causedBy === undefined);
    if (limitCounts !== undefined) events.look({ rules: current, limits: limitCounts, criticals }, nowUs);
    return book.note([...findings, ...parts.quota.findings()], nowUs);
  };
  parts.running.watches.push(setInterval(look, LOOK_MS).unref());
  return look;
}
