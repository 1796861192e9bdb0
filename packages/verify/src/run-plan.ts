// Makes the calls of a plan when they are due, whether or not earlier ones are answered, and runs its faults.

import { exec } from "node:child_process";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type { Asked, Call, Planned } from "./call.ts";
import { drawCalls, randomBy } from "./draw.ts";
import { entriesOf, limitsOf, type Plan } from "./plan.ts";

/** A fault that was run. */
export interface FaultRun {
  readonly run: string;
  /** When it began, in ms since the Unix epoch. */
  readonly atMs: number;
  /** Its output if it failed. */
  readonly failure: string | undefined;
}

export interface Run {
  readonly calls: readonly Call[];
  readonly faults: readonly FaultRun[];
  readonly startMs: number;
  /** Names the callers of this run. */
  readonly name: string;
}

/** Most calls that are sent in one turn of the event loop. */
const TURN_CALLS = 16;
const TIMEOUT_MS = 2_000;
/** A fault's command may run this long after the last call. */
const FAULT_MS = 60_000;
/** Between the drawing and the first call. */
const LEAD_MS = 20;

/** `now`: milliseconds since the Unix epoch that never step back. */
export async function runPlan(plan: Plan, servers: readonly Asked[], now: () => number): Promise<Run> {
  const startMs = now() + LEAD_MS;
  const name = Math.floor(startMs).toString(36);
  const pick = randomBy(plan.seed + 1);
  const faults = plan.faults.map(({ atMs, run }) =>
    runFault(run, startMs + atMs, startMs + plan.forMs + FAULT_MS, now),
  );
  const calls: Promise<Call>[] = [];
  for (const one of drawCalls(plan, startMs)) {
    const wait = startMs + one.dueMs - now();
    if (wait > 0) await sleep(wait);
    // Lets answers be read while many calls are due.
    else if (calls.length % TURN_CALLS === 0) await setImmediate();
    const server = servers[Math.floor(pick() * servers.length)];
    if (server !== undefined) calls.push(call(one, plan, server, name, now));
  }
  return { calls: await Promise.all(calls), faults: await Promise.all(faults), startMs, name };
}

async function call(planned: Planned, plan: Plan, server: Asked, run: string, now: () => number): Promise<Call> {
  const { kind, caller, cost, isRefund } = planned;
  const descriptors = plan.kinds[kind]?.descriptors.map(({ entries }) => entriesOf(entries, run, kind, caller)) ?? [];
  const sentMs = now();
  const answer = await server.ask({ domain: plan.domain, descriptors, cost, isRefund }, TIMEOUT_MS);
  return { ...planned, limits: limitsOf(plan, kind).length, sentMs, receivedMs: now(), server: server.name, answer };
}

/** Runs a command, until `untilMs` at most. */
export async function runFault(run: string, atMs: number, untilMs: number, now: () => number): Promise<FaultRun> {
  await sleep(Math.max(0, atMs - now()));
  const beganMs = now();
  const failure = await new Promise<string | undefined>((resolve) => {
    exec(run, { timeout: Math.max(1, Math.ceil(untilMs - beganMs)) }, (error, _out, said) => {
      const why = error?.killed ? `it did not end within ${FAULT_MS / 1_000} s of the last call` : said.trim();
      resolve(error === null ? undefined : why || error.message);
    });
  });
  return { run, atMs: beganMs, failure };
}
