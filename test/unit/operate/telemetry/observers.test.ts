// What observers count and what they say in the log.

import { expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, Source, type Take, TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { CallCounts, StoreCounts } from "../../../../src/operate/telemetry/observers.ts";
import { makeLimit } from "../../../support/builders.ts";
import { recordedLog } from "../../../support/recorded-log.ts";

function makeObservers() {
  const { lines, log } = recordedLog();
  return { lines, calls: new CallCounts(log), store: new StoreCounts(log) };
}

const TIMEOUT = new StoreError("STORE_TIMEOUT", "no reply within 10 ms", new Error("late"));

test("a store that fails a thousand calls in a second is one line, and every call is counted", () => {
  const { lines, calls, store } = makeObservers();
  for (let i = 0; i < 1_000; i++) {
    store.failed(TIMEOUT);
    calls.degraded(OnStoreFailure.allow, TIMEOUT, new TakeGroup());
  }
  expect(lines).toEqual([
    {
      level: "warn",
      message: "the store failed calls",
      code: "STORE_TIMEOUT",
      reason: "no reply within 10 ms",
      cause: "late",
    },
    {
      level: "warn",
      message: "answered without the store",
      policy: "allow",
      reason: "STORE_TIMEOUT",
      cause: "no reply within 10 ms",
    },
  ]);
  expect(store.failures.STORE_TIMEOUT).toBe(1_000);
  expect(calls.degradedByPolicy[OnStoreFailure.allow]?.STORE_TIMEOUT).toBe(1_000);
});

test.each<[string, Verdict, Partial<Take>, boolean]>([
  ["a payment without an answer", Verdict.allowed, {}, true],
  ["a peek without an answer", Verdict.allowed, { mode: Mode.peek }, true],
  ["a call that another limit refuses", Verdict.refused, {}, false],
  ["a take that local counting has answered", Verdict.allowed, { outcome: Outcome.room }, false],
  ["a report, which nothing refuses", Verdict.allowed, { mode: Mode.postPaid }, false],
  ["shadow mode, which refuses nothing", Verdict.allowed, { kind: Kind.shadow }, false],
])(
  "of degraded calls those count as undecided that a limit should have judged: %s",
  (_, verdict, fields, isCounted) => {
    const { calls } = makeObservers();
    const group = new TakeGroup();
    const take = group.add(makeLimit({ id: "edge/a" }));
    Object.assign(take, { mode: Mode.pay, outcome: Outcome.unanswered }, fields);
    group.verdict = verdict;
    calls.degraded(OnStoreFailure.allow, TIMEOUT, group);
    const counted = calls.undecided().filter(([, count]) => count > 0);
    expect(counted).toEqual(isCounted ? [["STORE_TIMEOUT, on_store_failure: allow", 1]] : []);
    expect([...calls.undecidedLimits]).toEqual(isCounted ? ["edge/a"] : []);
  },
);

test("calls that were decided say nothing", () => {
  const { lines, calls } = makeObservers();
  calls.decided(true, Source.store, 10);
  calls.domainNotFound("nowhere", 1);
  calls.requestFailed("REQUEST_MALFORMED");
  expect(lines).toEqual([]);
});

test("suspected reports tell what to change", () => {
  const { lines, calls } = makeObservers();
  for (const missing of ["post_paid", "charge_given_hits", "asking"] as const)
    calls.suspectedReport("edge/llm", missing);
  expect(calls.lateReports).toBe(3);
  expect(lines).toMatchObject(
    ["post_paid: true", "charge_given_hits: true", "ask with hits 0"].map((words) => {
      return { level: "warn", limit: "edge/llm", message: expect.stringContaining(words) };
    }),
  );
});

test("a fault of ours is logged with its error", () => {
  const { lines, calls } = makeObservers();
  const fault = new Error("bug");
  calls.internalFailed(fault);
  expect(lines).toMatchObject([{ level: "error", err: fault }]);
});

test("the worst breaker of all servers is counted and said, a probe quietly", () => {
  const { lines, store } = makeObservers();
  store.breakerChanged("a", "open");
  store.breakerChanged("b", "open");
  store.breakerChanged("b", "probing");
  expect([store.breakerState, [...store.serverBreakers]]).toEqual([
    "open",
    [
      ["a", "open"],
      ["b", "probing"],
    ],
  ]);
  store.breakerChanged("a", "closed");
  store.breakerChanged("b", "closed");
  store.breakerChanged("never open", "closed");
  expect([store.breakerState, store.serverBreakers.size]).toEqual(["closed", 0]);
  expect(store.breakerChanges).toEqual({ open: 1, probing: 1, closed: 1 });
  expect(lines.map((line) => line.level)).toEqual(["warn", "info", "warn"]);
});
