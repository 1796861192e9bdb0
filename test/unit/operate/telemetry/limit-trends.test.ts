// What is told for information of limits that work as written, though perhaps not as meant.

import { expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import type { RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import { LimitWatch } from "../../../../src/operate/telemetry/limit-watch.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const MINUTE = 60;
const DAY = 86_400;

/** A watch over one domain, whose counters are moved by hand. */
function watched(rules: string) {
  const set: RuleSet = rulesFromYaml(`domain: edge\n${rules}`);
  const clock = new ManualClock();
  const watch = new LimitWatch({ shapesOf: () => [] });
  const stats = set.domains.get("edge")?.limits[0]?.stats;
  if (stats === undefined) throw new Error("expected a limit");
  const look = () => runThrough(watch.look(set, clock.nowUs()));
  look();
  return {
    told: () => watch.information.map(({ says, details }) => [says.slice(0, 24), details.length]),
    watch,
    /** Counts these after some seconds, and looks. */
    later(seconds: number, counted: { hits?: number; over?: number; shadow?: number } = {}) {
      clock.advanceSeconds(seconds);
      stats.totalHits += counted.hits ?? 0;
      stats.overLimit += counted.over ?? 0;
      stats.shadowMode += counted.shadow ?? 0;
      look();
    },
  };
}

const rule = (limit: string) => `descriptors: [{ key: a, rate_limit: { ${limit} } }]`;
const UNUSED = ["Limits that came above 1", 1];

test.each<[string, string, number, boolean]>([
  ["1 % of a second's limit in any two minutes", "requests_per_unit: 1000, unit: second", 5, true],
  ["more than that", "requests_per_unit: 1000, unit: second", 6, false],
  ["1 % of a day's limit in all", "requests_per_unit: 1000, unit: day", 3, true],
  ["more than that", "requests_per_unit: 1000, unit: day", 4, false],
  ["1 % of the burst in all", "tokens_per_second: 1, burst: 600", 2, true],
  ["more than that, while it fills", "tokens_per_second: 1, burst: 600", 3, false],
  ["a limit without hits", "requests_per_unit: 1000, unit: day", 0, false],
  ["a block", "requests_per_unit: 0, unit: day", 1, false],
])(
  "reports a limit that stays below after a day, with these hits in each of three minutes: %s",
  (_, limit, hits, isTold) => {
    const { later, told } = watched(rule(limit));
    for (let i = 0; i < 3; i++) later(MINUTE, { hits });
    later(DAY - 4 * MINUTE);
    expect(told()).toEqual([]);
    later(MINUTE);
    expect(told()).toEqual(isTold ? [UNUSED] : []);
  },
);

test("stops reporting it once a day has seen more", () => {
  const { later, told } = watched(rule("requests_per_unit: 1000, unit: second"));
  later(DAY, { hits: 1 });
  expect(told()).toEqual([UNUSED]);
  later(DAY, { hits: 500 });
  expect(told()).toEqual([]);
});

test.each<[string, string, number, number, boolean]>([
  ["all", "requests_per_unit: 10, unit: second", 50, 50, true],
  ["all but one", "requests_per_unit: 10, unit: second", 50, 49, false],
  ["all, as it says", "requests_per_unit: 0, unit: second", 50, 50, false],
  ["none, of none", "requests_per_unit: 10, unit: second", 0, 0, false],
])("reports a limit that refuses all hits of a day: %s", (_, limit, hits, over, isTold) => {
  const { later, told } = watched(rule(limit));
  later(DAY, { hits, over });
  expect(told()).toEqual(isTold ? [["Limits that refused all ", 1]] : []);
});

test("reports a limit of one key above the global limit at once, with both", () => {
  const global = "global_limit: { requests_per_unit: 100, unit: minute }\n";
  const above = watched(global + rule("requests_per_unit: 2, unit: second"));
  expect(above.watch.information).toEqual([
    {
      says: "Limits of one key that allow more than the global_limit allows all keys together:",
      details: ["edge/a: 2 hits per second, sliding window; all together 100 hits per minute, sliding window"],
    },
  ]);
  expect(watched(global + rule("requests_per_unit: 100, unit: minute")).told()).toEqual([]);
});

test("reports refusals that shadow mode hides after two weeks, until it hides none for a day", () => {
  const { later, told, watch } = watched(
    rule("requests_per_unit: 10, unit: second").replace("key: a", "key: a, shadow_mode: true"),
  );
  later(MINUTE, { hits: 5_000, over: 5, shadow: 5 });
  later(14 * DAY - MINUTE, { hits: 5_000, over: 5, shadow: 5 });
  expect(told()).toEqual([]);
  later(MINUTE);
  expect(watch.information).toEqual([
    {
      says: "Limits whose refusals shadow mode has hidden for weeks:",
      details: ["edge/a: 10 hits per second, sliding window, since 2026-01-01T00:01:00.000Z"],
    },
  ]);
  later(DAY, { hits: 5_000 });
  expect(told()).toEqual([]);
});

test("of very many limits the first are named", () => {
  const many = Array.from(
    { length: 30 },
    (_, i) => `{ key: k${i}, rate_limit: { requests_per_unit: 9, unit: second } }`,
  );
  const { watch } = watched(`global_limit: { requests_per_unit: 1, unit: second }\ndescriptors: [${many.join(", ")}]`);
  expect(watch.information[0]?.details).toHaveLength(21);
  expect(watch.information[0]?.details.at(-1)).toBe("and 10 more");
});
