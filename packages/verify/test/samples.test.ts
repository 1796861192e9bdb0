// The judge on limiters in virtual time: it accuses no right one, whatever limits, network and clock, and finds the
// wrong ones.

import { expect, test } from "vitest";
import { runs } from "../../../test/support/runs.ts";
import { WRONG } from "../../../test/support/sample-limiter.ts";
import { limitOf, planFor, planOf, RIGHT_PLANS } from "../../../test/support/sample-plans.ts";
import { runOnSample } from "../../../test/support/sample-run.ts";
import { assess } from "../src/assess.ts";
import type { Call } from "../src/call.ts";
import { randomBy } from "../src/draw.ts";
import { parseRate } from "../src/limit.ts";
import type { Plan } from "../src/plan.ts";
import { reportText } from "../src/report-text.ts";
import type { Run } from "../src/run-plan.ts";

const ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window"] as const;

/** A plan, and what the judge is told of it. */
function drawPlan(seed: number): {
  readonly served: Plan;
  readonly told: Plan;
  readonly meanMs: number;
  readonly lost: number;
} {
  const random = randomBy(seed * 7_919);
  const pick = <T>(...values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const amount = 1 + Math.floor(random() * random() * 120);
  const algorithm = pick(...ALGORITHMS);
  const burst = algorithm === "token_bucket" ? Math.max(1, Math.floor(amount * random() * 4)) : undefined;
  const limit = limitOf(amount, algorithm, { windowMs: pick(700, 1_000, 1_000, 3_000, 10_000, 60_000), burst });
  const entries = [{ key: "tenant", value: pick("one", "*", "*") }];
  const others = ["path", "user"].slice(0, pick(0, 0, 1, 2)).map((key) => ({
    entries: [{ key, value: pick("shared", "*") }],
    limits: [limitOf(1 + Math.floor(amount * random() * 2), pick(...ALGORITHMS))],
  }));
  const all = limitOf(Math.ceil(amount * 1.5), pick(...ALGORITHMS));
  const global = pick(undefined, undefined, { ...all, countsHits: pick(true, false) });
  const settings = { seed, forMs: 3_000 + random() * 8_000, hasRefunds: pick(true, false, false), global };
  const served = { ...planOf({ descriptors: [{ entries, limits: [limit] }, ...others] }), ...settings };
  const isTold = global !== undefined || others.length > 0 || random() < 0.7;
  const unsaid = { descriptors: [{ entries, limits: [{ ...limit, algorithm: undefined }] }] };
  return {
    served,
    told: isTold ? served : { ...served, kinds: [unsaid] },
    meanMs: pick(0.3, 2, 10, 60),
    lost: pick(0, 0, 0.02),
  };
}

/** The run, of a limiter that tells nothing of its limit. */
function muted({ calls, ...run }: Run): Run {
  const tell = ({ answer, ...call }: Call): Call => ({
    ...call,
    answer: answer.outcome === "lost" ? answer : { ...answer, told: answer.told.map(() => ({})) },
  });
  return { ...run, calls: calls.map(tell) };
}

test("right limiters are not accused", () => {
  for (let seed = 1; seed <= runs(100); seed++) {
    const { served, told, ...world } = drawPlan(seed);
    const report = assess(told, runOnSample(served, world));
    expect(report.isKept, `seed ${seed}\n${reportText(report)}`).toBe(true);
  }
});

test("the clock of long windows is found by few calls, too", () => {
  const limits = [limitOf(20, "fixed_window", { windowMs: 60_000 })];
  const plan = planOf({ descriptors: [{ entries: [{ key: "tenant", value: "one" }], limits }] });
  for (let seed = 1; seed <= 10; seed++) {
    const report = assess(plan, runOnSample({ ...plan, forMs: 2_000, seed }, { meanMs: 10 }));
    expect(report.isKept, `seed ${seed}\n${reportText(report)}`).toBe(true);
  }
});

test.each(["1000/h", "20/30s", "1/d"])("calls often enough to reach %s, and goes on to the end", (text) => {
  const limit = limitOf(1, "token_bucket", { text, ...parseRate(text) });
  const plan = planOf({ descriptors: [{ entries: [{ key: "tenant", value: "*" }], limits: [limit] }] });
  const { calls, startMs, ...run } = runOnSample({ ...plan, forMs: 20_000 });
  expect(assess(plan, { calls, startMs, ...run })).toMatchObject({ unproven: [], isKept: true });
  expect(calls.at(-1)?.sentMs).toBeGreaterThan(startMs + 10_000);
});

test("a page that tells no limit is not asked why, though calls were lost", () => {
  const plan = { ...RIGHT_PLANS["token bucket"], isHttp: true };
  expect(reportText(assess(plan, muted(runOnSample(plan, { lost: 0.05 }))))).not.toContain("named no limit");
});

test("a page that the proxy let pass without a decision breaks no limit", () => {
  const plan = { ...RIGHT_PLANS["token bucket"], isHttp: true };
  const run = runOnSample(plan);
  const at = run.calls.findIndex(({ answer }) => answer.outcome === "refused");
  const passed = { outcome: "granted", told: [{}] } as const;
  const calls = run.calls.map((call, index) => (index === at ? { ...call, answer: passed } : call));
  expect(assess(plan, { ...run, calls })).toMatchObject({ isKept: true, unproven: [], undecided: 1 });
  const most = run.calls.map((call, index) => (index % 5 === 0 ? { ...call, answer: passed } : call));
  expect(assess(plan, { ...run, calls: most }).unproven).toEqual([
    expect.stringMatching(/^\d+ calls passed undecided$/),
  ]);
});

test("a limit that other limits of the same calls keep from being reached is not proven", () => {
  const [tenant, path] = [limitOf(20, "token_bucket", { burst: 20 }), limitOf(600, "fixed_window")];
  const descriptors = [tenant, path].map((limit, at) => ({
    entries: [{ key: `k${at}`, value: "*" }],
    limits: [limit],
  }));
  const { isKept, unproven, limits } = assess(planOf({ descriptors }), runOnSample(planOf({ descriptors })));
  expect({ isKept, unproven, reached: limits.map(({ isReached }) => isReached) }).toEqual({
    isKept: true,
    unproven: ["a limit was never reached"],
    reached: [true, false],
  });
});

test("answers that name another limit are shown", () => {
  const plan = RIGHT_PLANS["token bucket"];
  const { calls, ...run } = runOnSample(plan);
  const named = calls.map(
    ({ answer, ...call }): Call => ({
      ...call,
      answer:
        answer.outcome === "lost" ? answer : { ...answer, told: answer.told.map((one) => ({ ...one, quota: 30 })) },
    }),
  );
  expect(reportText(assess(plan, { ...run, calls: named }))).toContain("named another limit, the first 30:");
});

test("a service that refuses everything is found, however little it may grant", () => {
  const limits = [limitOf(1, "fixed_window", { windowMs: 86_400_000, algorithm: undefined })];
  const plan = planOf({ descriptors: [{ entries: [{ key: "tenant", value: "*" }], limits }] });
  expect(assess(plan, muted(runOnSample(plan, { wrong: "refuses the last hit" }))).isKept).toBe(false);
});

test("calls with two descriptors that a right limiter refuses are not held against either limit", () => {
  const plan = RIGHT_PLANS["two descriptors"];
  expect(assess(plan, runOnSample(plan, { meanMs: 15 })).isKept).toBe(true);
});

test.each(WRONG)("finds: %s", (wrong) => {
  const plan = planFor(wrong);
  const { isKept, limits } = assess(plan, runOnSample(plan, { wrong }));
  expect(isKept).toBe(false);
  for (const { least, most } of limits) expect(least).toBeLessThanOrEqual(most);
});
