// What a run showed of each limit of its plan.

import type { Answer, Call } from "./call.ts";
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

/** Above this share of calls that passed without a decision, nothing is proven. */
const UNDECIDED_SHARE_MAX = 0.01;

/** Judges the calls of a run, and sums up. */
export function assess(plan: Plan, { calls: all, faults, startMs, name }: Run) {
  const calls = plan.isHttp ? setUndecidedAside(all) : all;
  const undecided = calls.filter((call, at) => call !== all[at]).length;
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
    /** Calls that a proxy let pass without a decision. */
    undecided,
    limits,
    faults: faults.map((fault, at) => faultReport(fault, faults[at + 1]?.atMs, calls, limits)),
    /** Windows begin so much after this machine's. */
    phaseMs: found.phaseMs,
    /** Why nothing is proven even if every bound was kept. */
    unproven: [
      ...(limits.every(({ isReached }) => isReached) ? [] : ["a limit was never reached"]),
      ...(faults.every(({ failure }) => failure === undefined) ? [] : ["a fault's command failed"]),
      ...(undecided <= calls.length * UNDECIDED_SHARE_MAX ? [] : [`${undecided} calls passed undecided`]),
    ],
    /** Whether every bound was kept. */
    isKept: found.faults === 0,
  };
}

/**
 * Where most answers name their limit, a page without one was let pass by the proxy: such a call counts as unanswered.
 */
function setUndecidedAside(calls: readonly Call[]): readonly Call[] {
  const answered = calls.flatMap(({ answer }) => (answer.outcome === "lost" ? [] : [answer]));
  const isUnnamed = ({ told }: Answer) => told.every(({ quota }) => quota === undefined);
  if (answered.filter(isUnnamed).length * 2 >= answered.length) return calls;
  return calls.map((call) =>
    call.answer.outcome === "granted" && isUnnamed(call.answer)
      ? { ...call, answer: { outcome: "lost", why: "passed without a decision (the proxy failed open)" } }
      : call,
  );
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
        add(entriesText(entries) || "any caller", limit, isStarred(entries), key, { call, cost: call.cost, told });
    });
    if (plan.global === undefined || call.isRefund) continue;
    const cost = plan.global.countsHits ? call.cost : 1;
    add("all calls", plan.global, false, "", { call, cost, told: undefined });
  }
  return [...groups.values()];
}

function limitReport(group: Group, fit: Fit, { phaseMs, wrongRefusals: allWrong }: Fits) {
  const { name, limit, keys } = group;
  const uses = [...keys.values()].flat();
  const isOnly = uses.every(({ call }) => call.limits === 1);
  const paying = uses.filter(({ call }) => !call.isRefund);
  const answered = paying.flatMap(({ call: { answer } }) => (answer.outcome === "lost" ? [] : [answer]));
  const granted = hitsOf(paying.filter(({ call }) => call.answer.outcome === "granted"));
  const quotas = isOnly ? uses.flatMap(({ told }) => told?.quota ?? []) : [];
  const wrongRefusals = fit.roomyRefusals.filter((call) => allWrong.has(call)).sort(bySending);
  const exact = { least: grantedBy(group, fit, phaseMs, "most"), most: grantedBy(group, fit, phaseMs, "least") };
  const most = fit.excesses.length > 0 ? exact.most : Math.max(exact.most, granted);
  const least = wrongRefusals.length > 0 ? exact.least : Math.min(exact.least, granted);
  return {
    ...fit,
    name: `${name}  ${limit.text}`,
    calls: uses.length,
    answered: answered.length,
    refused: answered.filter(({ outcome }) => outcome === "refused").length,
    granted,
    /** Whether this limit refused a call, and not only others that the same calls pay. */
    isReached: fit.refused > 0,
    // What an exact limiter would grant of these calls. Calls that pay other limits too may be refused by those.
    least: isOnly ? Math.min(least, most) : 0,
    most,
    wrongGrants: [...fit.excesses].sort((a, b) => bySending(a.call, b.call)),
    wrongRefusals,
    /** Answers that named no limit. */
    unnamed: answered.filter(({ told }) => told.every(({ quota }) => quota === undefined)).length,
    /** Other limits that answers named. */
    otherQuotas: quotas.filter((told) => told !== quotaOf(limit) && told !== limit.amount),
  };
}

/**
 * Hits that an exact limiter would grant: at the most deciding at sending, from a full limit; at the least at
 * receiving, from an empty one.
 */
function grantedBy({ keys, limit, isFresh }: Group, fit: Fit, phaseMs: number, bound: Bound): number {
  const algorithm = fit.algorithms[0] as Algorithm;
  const quota = quotaOf(limit) + (bound === "least" ? 1 : -1) * limit.tolerance;
  let granted = 0;
  for (const uses of keys.values()) {
    const meter = createMeter(limit, algorithm, bound, phaseMs);
    const timeOf = ({ call }: Use) => (bound === "least" ? call.sentMs : call.receivedMs);
    [...uses]
      .sort((a, b) => timeOf(a) - timeOf(b))
      .forEach((use, at) => {
        const { call, cost } = use;
        meter.advance(timeOf(use));
        if (at === 0 && bound === "most" && !isFresh) meter.fill(quota);
        if (call.isRefund) meter.giveBack(cost);
        else if (meter.used + cost <= quota && call.answer.outcome !== "lost") {
          meter.pay(cost);
          granted += cost;
        }
      });
  }
  return granted;
}

function hitsOf(uses: readonly Use[]): number {
  return uses.reduce((sum, { cost }) => sum + cost, 0);
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
