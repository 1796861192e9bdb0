// The soak's verdict: what must hold after any run, and what is printed of it. `npm run soak -- --minutes 10 --seed 7 --store redis`.

import { describe, expect, test } from "vitest";
import { slopePerMinute } from "./figures.ts";
import { CALL_DEADLINE_MS, type CallNote, LATE_MS_MAX } from "./load.ts";
import { report, say, settled } from "./report.ts";
import { type SoakTale, soak } from "./run.ts";
import { STORE_NAMES, type StoreName } from "./soak-stores.ts";

const minutes = Number(process.env.SOAK_MINUTES ?? 1);
const seed = Number(process.env.SOAK_SEED ?? Math.floor(Date.now() / 1_000) % 100_000);
const store = (process.env.SOAK_STORE ?? "redis") as StoreName;
if (!STORE_NAMES.includes(store))
  throw new Error(`SOAK_STORE: expected one of ${STORE_NAMES.join(", ")}, got ${store}`);
if (!(minutes > 0)) throw new Error(`SOAK_MINUTES: expected a number above 0, got ${process.env.SOAK_MINUTES}`);

/** Memory may move by this much; a run is too short to tell a slope before MINUTES_FOR_SLOPE. */
const GROWTH_MB_PER_MINUTE_MAX = 4;
const MINUTES_FOR_SLOPE = 4;
const GROWTH_RATIO_MAX = 1.5;
/** Sockets of the page that is read, and a connection to the store that is just being opened. */
const RESOURCES_SPARE = 4;

/** A call in which this process itself stood still for longer says nothing about the service. */
const LATENESS_MS_MAX = 300;
/** A machine that is busy elsewhere holds up a process of ours now and then, and its callers give the connection up. */
const UNEXPLAINED_SHARE_MAX = 0.001;
const SHOWN_MAX = 10;
/** From when on all must be well again, and what a busy machine may spoil of that. */
const HEALED_AFTER_MS = 5_000;
const SICK_SHARE_MAX = 0.02;

function sickShare({ notes, calmStartMs, callsInCalm }: SoakTale): number {
  const sick = notes.filter(({ startMs }) => startMs > calmStartMs + HEALED_AFTER_MS);
  return sick.length / Math.max(1, callsInCalm);
}

/** Connections that a fault between clients and service has spoilt are given up this long after it, by the clients' pings. */
const CLIENTS_HEAL_MS = 4_000;

/** Calls that got no answer although nothing stood between client and service, and no process was started again. */
function unexplained({ notes, faults, lateness }: SoakTale): readonly CallNote[] {
  const spoilt = faults.filter(({ fault: { where, what } }) => {
    return where === "clients" || what.kind === "restart" || what.kind === "crash";
  });
  return notes.filter(({ ending, startMs, endMs }) => {
    if (ending === "degraded" || lateness.between(startMs, endMs) > LATENESS_MS_MAX) return false;
    return !spoilt.some((tale) => endMs >= tale.startMs && startMs <= tale.endMs + CLIENTS_HEAL_MS);
  });
}

describe(`a soak of ${minutes} minutes on ${store}, seed ${seed}`, () => {
  test("holds what is promised", async () => {
    const tale = await soak({ store, seed, minutes, say });
    report(tale);
    const late = tale.notes.filter(({ startMs, endMs }) => {
      const overMs = endMs - startMs - CALL_DEADLINE_MS - LATE_MS_MAX;
      return overMs > 0 && overMs > tale.lateness.between(startMs, endMs);
    });
    expect
      .soft(late, "calls answered later than their deadline and 5 ms, the lateness of the caller's own loop taken off")
      .toEqual([]);
    const left = unexplained(tale);
    for (const { why, startMs, endMs } of left.slice(0, SHOWN_MAX))
      say(`no answer in ${(endMs - startMs).toFixed(0)} ms: ${why}`);
    expect.soft(left.length / tale.calls, "share of calls left without an answer").toBeLessThan(UNEXPLAINED_SHARE_MAX);
    for (const tally of tale.tallies) {
      const { seen, counted, unanswered } = tally;
      expect
        .soft(counted, `degraded answers that were seen are counted: ${JSON.stringify(tally)}`)
        .toBeGreaterThanOrEqual(seen);
      expect
        .soft(counted, `none is counted that was not given: ${JSON.stringify(tally)}`)
        .toBeLessThanOrEqual(seen + unanswered);
    }
    for (const { name, granted, most } of tale.grants) {
      expect.soft(granted, `hits granted on ${name}`).toBeLessThanOrEqual(most);
      expect.soft(granted, `hits granted on ${name}`).toBeGreaterThan(0);
    }
    expect
      .soft(sickShare(tale), "share of calls not answered by the store although all is well")
      .toBeLessThan(SICK_SHARE_MAX);
    const last = settled(tale.memory);
    if (minutes >= MINUTES_FOR_SLOPE)
      expect.soft(slopePerMinute(last), "MB per minute").toBeLessThan(GROWTH_MB_PER_MINUTE_MAX);
    expect.soft(last.at(-1)?.bytes, "resident bytes").toBeLessThan((last[0]?.bytes ?? 0) * GROWTH_RATIO_MAX);
    expect
      .soft(tale.resourcesAfter.resources, `what the process holds open: ${tale.resourcesAfter.resourceLine}`)
      .toBeLessThanOrEqual(tale.resourcesBefore.resources + RESOURCES_SPARE);
    expect.soft(tale.rulesLoaded, "the last rules are in force").toBe(true);
  });
});
