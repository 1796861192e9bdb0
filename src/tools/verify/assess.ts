// What a run showed of each limit of its plan.

import type { Call } from "./call.ts";
import { type Fit, type Fits, fitLimits, type Group } from "./fit.ts";
import type { Use } from "./judge.ts";
import { type Algorithm, type Limit, quotaOf } from "./limit.ts";
import { type Bound, createMeter } from "./meters.ts";
import { entriesOf, entriesText, isStarred, type Plan } from "./plan.ts";
import type { FaultRun, Run } from "./run-plan.ts";

/** What a run showed. */
export type Report = ReturnType<typeof assess>;
/** A limit, with all calls that pay it. */
export type LimitReport = ReturnType<typeof limitReport>;
/** What a fault cost until the next one. */
export type FaultReport = ReturnType<typeof faultReport>;

/** Judges the calls of a run, and sums up. */
export function assess(plan: Plan, { calls, faults, startMs, name }: Run) {
  const groups = groupsOf(plan, calls, name);
  const found = fitLimits(groups);
  const limits = groups.map((group, at) => limitReport(group, found.fits[at] as Fit, found));
  const lost = new Map<string, number>();
  for (const { answer } of calls) if (answer.outcome === "lost") lost.set(answer.why, (lost.get(answer.why) ?? 0) + 1);
  const answered = calls.filter(({ answer }) => answer.outcome !== "lost");
  const waits = answered.map(({ receivedMs, dueMs }) => receivedMs - startMs - dueMs).sort((a, b) => a - b);
  const share = (part: number) => waits[Math.min(waits.length - 1, Math.floor(waits.length * part))] ?? 0;
  return {
    plan,
    startMs,
    calls: calls.length,
    answered: answered.length,
    /** Of answered calls, from when they were due; in ms. */
    latency: { p50: share(0.5), p99: share(0.99), longest: share(1) },
    /** The latest that this machine sent a call. */
    lateMs: calls.reduce((late, { sentMs, dueMs }) => Math.max(late, sentMs - startMs - dueMs), 0),
    /** Calls without an answer, by reason. */
    lost,
    limits,
    faults: faults.map((fault, at) => faultReport(fault, faults[at + 1]?.atMs, calls, limits)),
    /** Windows begin so much after this machine's. */
    phaseMs: found.phaseMs,
    /** Whether each limit refused something; otherwise nothing is proven. */
    isReached: limits.every(({ refused }) => refused > 0),
    /** Whether every bound was kept. */
    isKept: found.faults === 0,
  };
}

function groupsOf(plan: Plan, calls: readonly Call[], run: string): Group[] {
  const groups = new Map<string, Omit<Group, "keys"> & { readonly keys: Map<string, Use[]> }>();
  const add = (name: string, limit: Limit, isFresh: boolean, key: string, use: Use) => {
    const id = `${limit.text} ${limit.algorithm} ${name}`;
    const group = groups.get(id) ?? { name, limit, isFresh, keys: new Map<string, Use[]>() };
    const uses = group.keys.get(key) ?? [];
    uses.push(use);
    groups.set(id, group);
    group.keys.set(key, uses);
  };
  for (const call of calls) {
    const descriptors = plan.kinds[call.kind]?.descriptors ?? [];
    descriptors.forEach(({ entries, limits }, at) => {
      const key = entriesText(entriesOf(entries, run, call.kind, call.caller));
      const isTold = limits.length === 1 && plan.global === undefined;
      const told = isTold && call.answer.outcome !== "lost" ? call.answer.told[at] : undefined;
      for (const limit of limits)
        add(entriesText(entries) || "any caller", limit, isStarred(entries), key, { call, told });
    });
    if (plan.global !== undefined) add("all calls", plan.global, false, "", { call, told: undefined });
  }
  return [...groups.values()];
}

function limitReport(group: Group, fit: Fit, { phaseMs, wrongRefusals: allWrong }: Fits) {
  const { name, limit, keys } = group;
  const uses = [...keys.values()].flat();
  const isOnly = uses.every(({ call }) => call.limits === 1);
  const calls = uses.map(({ call }) => call);
  const paying = calls.filter(({ isRefund }) => !isRefund);
  const answered = paying.flatMap(({ answer }) => (answer.outcome === "lost" ? [] : [answer]));
  const granted = hitsOf(paying.filter(({ answer }) => answer.outcome === "granted"));
  const wrongRefusals = fit.roomyRefusals.filter((call) => allWrong.has(call)).sort(bySending);
  const exact = { least: grantedBy(group, fit, phaseMs, "most"), most: grantedBy(group, fit, phaseMs, "least") };
  const most = fit.excesses.length > 0 ? exact.most : Math.max(exact.most, granted);
  const least = wrongRefusals.length > 0 ? exact.least : Math.min(exact.least, granted);
  return {
    ...fit,
    name: `${name}  ${limit.text}`,
    calls: calls.length,
    answered: answered.length,
    refused: answered.filter(({ outcome }) => outcome === "refused").length,
    granted,
    // What an exact limiter would grant of these calls. Calls that pay other limits too may be refused by those.
    least: isOnly ? Math.min(least, most) : 0,
    most,
    wrongGrants: [...fit.excesses].sort((a, b) => bySending(a.call, b.call)),
    wrongRefusals,
    /** Answers that named no limit. */
    unnamed: answered.filter(({ told }) => told.every(({ quota }) => quota === undefined)).length,
  };
}

/** Hits that an exact limiter would grant: at the most deciding at sending, from a full limit; at the least at receiving, from an empty one. */
function grantedBy({ keys, limit, isFresh }: Group, fit: Fit, phaseMs: number, bound: Bound): number {
  const algorithm = fit.algorithms[0] as Algorithm;
  const quota = quotaOf(limit) + (bound === "least" ? 1 : -1) * limit.tolerance;
  let granted = 0;
  for (const uses of keys.values()) {
    const meter = createMeter(limit, algorithm, bound, phaseMs);
    const timeOf = ({ sentMs, receivedMs }: Call) => (bound === "least" ? sentMs : receivedMs);
    const calls = uses.map(({ call }) => call).sort((a, b) => timeOf(a) - timeOf(b));
    calls.forEach((call, at) => {
      meter.advance(timeOf(call));
      if (at === 0 && bound === "most" && !isFresh) meter.fill(quota);
      if (call.isRefund) meter.giveBack(call.cost);
      else if (meter.used + call.cost <= quota && call.answer.outcome !== "lost") {
        meter.pay(call.cost);
        granted += call.cost;
      }
    });
  }
  return granted;
}

function hitsOf(calls: readonly Call[]): number {
  return calls.reduce((sum, { cost }) => sum + cost, 0);
}

function bySending(a: Call, b: Call): number {
  return a.sentMs - b.sentMs;
}

function faultReport(
  fault: FaultRun,
  untilMs = Number.POSITIVE_INFINITY,
  calls: readonly Call[],
  limits: readonly LimitReport[],
) {
  const { atMs } = fault;
  const within = ({ receivedMs }: Call) => receivedMs >= atMs && receivedMs < untilMs;
  const lost = calls.filter((call) => call.answer.outcome === "lost" && within(call));
  const excesses = limits.flatMap(({ wrongGrants }) => wrongGrants).filter(({ call }) => within(call));
  const refusals = [...new Set(limits.flatMap(({ wrongRefusals }) => wrongRefusals))].filter(within);
  const wrong = [...lost, ...refusals, ...excesses.map(({ call }) => call)];
  return {
    ...fault,
    lost: lost.length,
    excessHits: excesses.reduce((sum, { hits }) => sum + hits, 0),
    wrongRefusals: refusals.length,
    /** From the fault to the last call that was lost or wrong. */
    exactAfterMs: wrong.reduce((last, { receivedMs }) => Math.max(last, receivedMs), atMs) - atMs,
  };
}
