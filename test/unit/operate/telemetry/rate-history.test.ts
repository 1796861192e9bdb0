// Rates of the last fifteen minutes, of calls and of the busiest limits, out of counters that are moved by hand.

import { expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { Source } from "../../../../src/engine/domain/take.ts";
import { callTotals } from "../../../../src/operate/telemetry/deployment.ts";
import { LimitWatch } from "../../../../src/operate/telemetry/limit-watch.ts";
import { CallCounts, StoreCounts } from "../../../../src/operate/telemetry/observers.ts";
import { RateHistory } from "../../../../src/operate/telemetry/rate-history.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { recordedLog } from "../../../support/recorded-log.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const rulesOf = (keys: readonly string[]) =>
  rulesFromYaml(
    `domain: edge\ndescriptors:\n${keys.map((key) => `  - { key: ${key}, rate_limit: { requests_per_unit: 5, unit: hour } }\n`).join("")}`,
  );

/** A history of rules, and what moves their counters. */
function watched(keys: readonly string[], looks = 1) {
  const clock = new ManualClock();
  const { log } = recordedLog();
  const [calls, storeCounts] = [new CallCounts(log), new StoreCounts(log)];
  const history = new RateHistory({ calls, totals: () => callTotals(calls, marked), storeCounts }, looks);
  const marked = { blocked: 0, shadowed: 0 };
  const watch = new LimitWatch({ histories: [history], shapesOf: () => [] });
  const rules = { current: rulesOf(keys) };
  const look = (seconds = 5) => {
    clock.advanceSeconds(seconds);
    runThrough(watch.look(rules.current, clock.nowUs()));
  };
  const limits = () => rules.current.domains.get("edge")?.limits ?? [];
  const hit = (place: number, hits: number, refused = 0) => {
    const stats = limits()[place]?.stats;
    if (stats === undefined) throw new Error(`expected a limit at ${place}`);
    stats.totalHits += hits;
    stats.overLimit += refused;
  };
  look();
  return {
    history,
    watch,
    calls,
    storeCounts,
    look,
    hit,
    limits,
    rules,
    clock,
    limitsOf: () => history.view()?.limits ?? {},
  };
}

test("a sample has what was counted since the last one, of calls and of each limit that was hit", () => {
  const { history, watch, calls, storeCounts, look, hit, clock } = watched(["a", "b"]);
  expect(history.view()).toBe(undefined);
  expect(watch.isDue(clock.nowUs() + 4_999_999)).toBe(false);
  expect(watch.isDue(clock.nowUs() + 5_000_000)).toBe(true);
  for (let i = 0; i < 98; i++) calls.decided(i < 8, Source.store, 90);
  for (let i = 0; i < 2; i++) calls.decided(false, Source.store, 9_000);
  storeCounts.answered(700, 1);
  hit(0, 30, 8);
  look();
  hit(0, 1);
  look(7.5);
  expect(history.view()).toEqual({
    at: "2026-01-01T00:00:17.500Z",
    span_seconds: 900,
    seconds: [5, 7.5],
    calls: {
      allowed: [92, 0],
      refused: [8, 0],
      degraded: [0, 0],
      errors: [0, 0],
      blocked: [0, 0],
      shadowed: [0, 0],
      passed: [0, 0],
    },
    times_us: {
      decision_p50: [76, null],
      decision_p99: [7_500, null],
      store_p50: [750, null],
      store_p99: [995, null],
    },
    limits: { "edge/a": { hits: [30, 1], refused: [8, 0] } },
  });
});

test("fifteen minutes are kept, the newest last", () => {
  const { history, look, hit, limitsOf } = watched(["a"]);
  for (let i = 1; i <= 200; i++) {
    hit(0, i);
    look();
  }
  expect(history.view()?.seconds).toHaveLength(180);
  expect(limitsOf()["edge/a"]?.hits).toEqual(Array.from({ length: 180 }, (_, i) => 21 + i));
});

test("a sample of several looks adds them up, and the last one may be short", () => {
  const { history, calls, look, hit } = watched(["a"], 4);
  for (let i = 1; i <= 9; i++) {
    hit(0, i);
    for (let call = 0; call < i; call++) calls.decided(false, Source.store, i < 5 ? 90 : 9_000);
    look();
  }
  const view = history.view();
  expect([view?.seconds, view?.calls.allowed, view?.limits["edge/a"]?.hits]).toEqual([
    [20, 20, 5],
    [10, 26, 9],
    [10, 26, 9],
  ]);
  expect(view?.times_us.decision_p99.map((us) => (us ?? 0) > 5_000)).toEqual([false, true, true]);
});

test("rules that are loaded again keep their samples, those that are gone lose them, new ones begin at once", () => {
  const { look, hit, rules, limits, limitsOf } = watched(["a", "b"]);
  hit(0, 3);
  hit(1, 4);
  look();
  const kept = limits()[1]?.stats;
  const next = rulesOf(["c", "b"]);
  const domain = next.domains.get("edge");
  const again = domain?.limits.map((limit, i) => (i === 1 && kept !== undefined ? { ...limit, stats: kept } : limit));
  rules.current = { ...next, domains: new Map(domain && again && [["edge", { ...domain, limits: again }]]) };
  hit(1, 5);
  look();
  hit(0, 2);
  look();
  expect(limitsOf()).toEqual({
    "edge/b": { hits: [4, 5, 0], refused: [0, 0, 0] },
    "edge/c": { hits: [0, 0, 2], refused: [0, 0, 0] },
  });
});

test("of many limits the busiest are kept: a flood takes the place of a limit that is hardly hit, and what it was before is not known", () => {
  const { look, hit, limitsOf } = watched(Array.from({ length: 1_100 }, (_, i) => `k${i}`));
  for (let i = 0; i < 1_099; i++) hit(i, 1 + i);
  look();
  const shown = Object.keys(limitsOf());
  expect([shown.length, shown[0], shown.at(-1)]).toEqual([200, "edge/k1098", "edge/k899"]);
  hit(1_099, 900, 900);
  look();
  expect(limitsOf()["edge/k1099"]).toEqual({ hits: [null, 900], refused: [null, 900] });
});
