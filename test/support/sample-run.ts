// A run of a plan against a sample limiter in virtual time, over a network that delays.

import type { Call } from "../../packages/verify/src/call.ts";
import { drawCalls, randomBy } from "../../packages/verify/src/draw.ts";
import { entriesOf, entriesText, limitsOf, type Plan } from "../../packages/verify/src/plan.ts";
import type { Run } from "../../packages/verify/src/run-plan.ts";
import { SampleLimiter, WRITE_MS, type Wrong } from "./sample-limiter.ts";

const START_MS = 1_790_000_000_123;
const NAME = "run";
/** Most that the limiter's clock is ahead of the callers', or behind. */
const APART_MS = 700;
const TIMEOUT_MS = 2_000;

interface World {
  readonly wrong?: Wrong;
  /** How long a message travels in the mean. */
  readonly meanMs?: number;
  /** Share of questions, and of answers, that are lost. */
  readonly lost?: number;
}

/** All calls of the plan, decided by a sample limiter whose clock is not the callers'. */
export function runOnSample(plan: Plan, { wrong, meanMs = 1, lost = 0 }: World = {}): Run {
  const random = randomBy(plan.seed + 99);
  const limiter = new SampleLimiter(plan, wrong);
  const aheadMs = (2 * random() - 1) * APART_MS;
  const travel = () => (random() < lost ? Number.POSITIVE_INFINITY : -Math.log(1 - random()) * meanMs);
  const sent = drawCalls(plan, START_MS).map((planned) => {
    const sentMs = START_MS + planned.dueMs + random() * 0.3;
    return { planned, sentMs, at: sentMs + travel(), process: Math.floor(random() * plan.servers.length) };
  });
  const writes: { readonly at: number; readonly write: () => void }[] = [];
  const calls = sent
    .toSorted((a, b) => a.at - b.at)
    .map(({ planned, sentMs, at, process }): Call => {
      while (writes[0] !== undefined && writes[0].at <= at) writes.shift()?.write();
      const { kind, caller, cost, isRefund } = planned;
      const call = { ...planned, sentMs, server: `${process}`, limits: limitsOf(plan, kind).length };
      const gone: Call = { ...call, receivedMs: sentMs + TIMEOUT_MS, answer: { outcome: "lost", why: "lost" } };
      if (at === Number.POSITIVE_INFINITY) return gone;
      const descriptors =
        plan.kinds[kind]?.descriptors.map(({ entries }) => entriesOf(entries, NAME, kind, caller)) ?? [];
      const question = { descriptors: descriptors.map(entriesText), cost, isRefund, process };
      const decision = limiter.decide({ ...question, connection: Math.floor(random() * 2) }, at + aheadMs);
      const { isGranted, statuses, later } = decision;
      if (later !== undefined) writes.push({ at: at + WRITE_MS, write: later });
      const receivedMs = at + travel() + (later === undefined ? 0 : WRITE_MS);
      if (receivedMs > sentMs + TIMEOUT_MS) return gone;
      return { ...call, receivedMs, answer: { outcome: isGranted ? "granted" : "refused", told: statuses } };
    });
  return { calls: calls.toSorted((a, b) => a.sentMs - b.sentMs), faults: [], startMs: START_MS, name: NAME };
}
