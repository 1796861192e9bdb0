// Records what many callers of several processes were answered, and when; and has it checked (checker/main.go, and `grantedTooMuch`).

import { execFileSync, spawnSync } from "node:child_process";
import { resolve } from "node:path";
import type * as grpc from "@grpc/grpc-js";
import { type BudgetsCaller, callBudgets } from "../support/budgets.ts";
import { Caller } from "../support/callers.ts";
import { loadProto } from "../support/load-proto.ts";

const CHECKER = resolve(import.meta.dirname, "checker");
const BIN = resolve(import.meta.dirname, "../../.cache/bin/linearizable");
const OVER_LIMIT = 2;
/** Calls of a bucket without an answer, as in checker/main.go. */
const UNKNOWN_MAX = 10;
/** Most that a call takes, and that a settlement uses beyond what was held. */
const COST_MAX = 3;

const service = loadProto()["envoy.service.ratelimit.v3.RateLimitService"] as grpc.ServiceDefinition;
const { requestSerialize, responseDeserialize } = service.ShouldRateLimit as grpc.MethodDefinition<
  object,
  { readonly overall_code?: number; readonly overallCode?: number }
>;

/** A call, when it began and ended, and what it was answered. */
export interface RecordedCall {
  readonly key: string;
  readonly client: number;
  readonly beganNs: number;
  readonly endedNs: number;
  /** What is taken; of a settlement what it adds to what was held. */
  readonly cost: number;
  /** The hold that is settled. */
  readonly settles?: string;
  /** A settlement is "ok", or "already" settled. */
  readonly answer: "ok" | "over" | "already" | "unknown";
}

/** Buckets of a kind: calls take from them, or hold and settle. */
export interface Buckets {
  readonly entry: string;
  readonly keys: number;
  readonly hasHolds: boolean;
}

export interface Recording {
  /** Ports of the processes; calls go to one of those that `isUp` says are there. */
  readonly ports: readonly number[];
  readonly isUp: (port: number) => boolean;
  readonly callers: number;
  readonly calls: number;
  readonly buckets: readonly Buckets[];
  /** A whole number from 0 to below `end`. */
  readonly chance: (end: number) => number;
  /** Awaited before each call, with its number. */
  readonly before: (call: number) => Promise<void> | undefined;
}

interface Hold {
  readonly key: string;
  readonly id: string;
  readonly held: number;
  readonly used: number;
}

/** One of the callers: calls when its last call has ended. */
class RecordedCaller {
  readonly #client: number;
  readonly #connections: ReadonlyMap<number, Caller>;
  readonly #budgets: ReadonlyMap<number, BudgetsCaller>;
  /** What it holds; a settlement without an answer is made again. */
  readonly #holds: Hold[] = [];
  #named = 0;

  constructor(client: number, ports: readonly number[], budgets: ReadonlyMap<number, BudgetsCaller>) {
    this.#client = client;
    this.#connections = new Map(ports.map((port) => [port, new Caller(`127.0.0.1:${port}`)]));
    this.#budgets = budgets;
  }

  async call(port: number, { entry, hasHolds }: Buckets, key: string, chance: Recording["chance"]) {
    const hold = this.#holds.findIndex((each) => each.key === key);
    if (hold >= 0 && chance(2) === 0) return await this.#settle(port, entry, this.#holds.splice(hold, 1)[0] as Hold);
    const cost = 1 + chance(COST_MAX);
    const answer = hasHolds
      ? await this.#reserve(port, entry, { key, held: cost, used: chance(cost + COST_MAX) })
      : await this.#take(port, entry, key, cost);
    return { cost, answer };
  }

  async #take(port: number, entry: string, key: string, cost: number): Promise<RecordedCall["answer"]> {
    const descriptors = [{ entries: [{ key: entry, value: key }] }];
    const request = requestSerialize({ domain: "edge", descriptors, hits_addend: cost, hitsAddend: cost });
    const { message } = await (this.#connections.get(port) as Caller).ask(request);
    return answerOf(message);
  }

  async #reserve(port: number, entry: string, hold: Omit<Hold, "id">): Promise<RecordedCall["answer"]> {
    const id = `${this.#client}-${this.#named++}`;
    const asked = { entries: { [entry]: hold.key }, id, number: hold.held };
    const reply = await (this.#budgets.get(port) as BudgetsCaller).reserve(asked).catch(() => undefined);
    if (reply === undefined) return "unknown";
    if (reply.code === "OK") this.#holds.push({ ...hold, id });
    return reply.code === "OK" ? "ok" : "over";
  }

  async #settle(port: number, entry: string, hold: Hold) {
    const { key, id, held, used } = hold;
    const asked = { entries: { [entry]: key }, id, number: used };
    const found = await (this.#budgets.get(port) as BudgetsCaller).settle(asked).then(
      (reply) => reply.found,
      () => undefined,
    );
    if (found === undefined) this.#holds.unshift(hold);
    else if (found === "UNKNOWN") throw new Error(`the hold ${id} of ${key} is lost`);
    const answer = found === undefined ? "unknown" : found === "SETTLED" ? "ok" : "already";
    return { cost: used - held, settles: id, answer } as const;
  }
}

/** Has the callers call, each when its last call has ended. At most ten calls of a bucket get no answer. */
export async function record(recording: Recording): Promise<RecordedCall[]> {
  const { ports, isUp, calls, chance, before } = recording;
  const recorded: RecordedCall[] = [];
  const startNs = process.hrtime.bigint();
  const now = () => Number(process.hrtime.bigint() - startNs);
  const all = recording.buckets.flatMap((kind) =>
    Array.from({ length: kind.keys }, (_, i) => ({ kind, key: `${kind.entry}${i}`, unknown: 0, underWay: 0 })),
  );
  const budgets = new Map(ports.map((port) => [port, callBudgets(`127.0.0.1:${port}`)]));
  let made = 0;
  const callOn = async (client: number) => {
    const caller = new RecordedCaller(client, ports, budgets);
    while (made < calls) {
      await before(made++);
      const up = ports.filter(isUp);
      const free = all.filter(({ unknown, underWay }) => unknown + underWay < UNKNOWN_MAX);
      const bucket = free[chance(free.length)];
      if (bucket === undefined) return;
      bucket.underWay++;
      const beganNs = now();
      const call = await caller.call(up[chance(up.length)] as number, bucket.kind, bucket.key, chance);
      recorded.push({ key: bucket.key, client, beganNs, endedNs: now(), ...call });
      bucket.underWay--;
      if (call.answer === "unknown") bucket.unknown++;
    }
  };
  await Promise.all(Array.from({ length: recording.callers }, (_, client) => callOn(client)));
  return recorded;
}

function answerOf(message: Buffer | undefined): RecordedCall["answer"] {
  if (message === undefined) return "unknown";
  const { overallCode, overall_code: code = overallCode } = responseDeserialize(message);
  return code === OVER_LIMIT || String(code) === "OVER_LIMIT" ? "over" : "ok";
}

/** Builds the checker; false, said aloud, where there is no Go. */
export function buildChecker(): boolean {
  if (spawnSync("go", ["version"]).status !== 0) {
    process.stdout.write("not tried: the checker of histories must be built, and Go is not installed\n");
    return false;
  }
  execFileSync("go", ["build", "-o", BIN, "."], { cwd: CHECKER, stdio: "pipe" });
  return true;
}

/** Why the history is not linearizable, a line per bucket; empty if it is. `limit`: what a bucket holds. */
export function notLinearizable(calls: readonly RecordedCall[], limit: number): string {
  const input = calls.map((call) => JSON.stringify(call)).join("\n");
  const { status, stdout, stderr } = spawnSync(BIN, [String(limit)], { input, encoding: "utf8" });
  if (status !== 0 && status !== 1) throw new Error(`the checker ended with ${status}: ${stderr}`);
  return stdout;
}

/** An interval in which a bucket that refills granted more than its burst and what came back meanwhile; undefined if there is none. */
export function grantedTooMuch(calls: readonly RecordedCall[], burst: number, perSecond: number): string | undefined {
  const granted = calls.filter(({ answer }) => answer === "ok").toSorted((one, other) => one.endedNs - other.endedNs);
  for (const { key, beganNs } of granted) {
    let sum = 0;
    for (const call of granted) {
      if (call.key !== key || call.beganNs < beganNs) continue;
      sum += call.cost;
      const most = burst + (perSecond * (call.endedNs - beganNs)) / 1e9;
      if (sum > most)
        return `${key} granted ${sum} from ${beganNs} to ${call.endedNs} ns, and ${most.toFixed(2)} may be`;
    }
  }
  return undefined;
}
