// Records what many callers of several processes were answered, and when; and has it checked (checker/main.go).

import { execFileSync, spawnSync } from "node:child_process";
import { resolve } from "node:path";
import type * as grpc from "@grpc/grpc-js";
import { Caller } from "../support/callers.ts";
import { loadProto } from "../support/load-proto.ts";

const CHECKER = resolve(import.meta.dirname, "checker");
const BIN = resolve(import.meta.dirname, "../../.cache/bin/linearizable");
const OVER_LIMIT = 2;

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
  readonly cost: number;
  readonly answer: "ok" | "over" | "unknown";
}

export interface Recording {
  /** Ports of the processes; calls go to one of those that `isUp` says are there. */
  readonly ports: readonly number[];
  readonly isUp: (port: number) => boolean;
  readonly callers: number;
  readonly calls: number;
  readonly keys: number;
  /** A whole number from 0 to below `end`. */
  readonly chance: (end: number) => number;
  /** Called before each call, with its number. */
  readonly before: (call: number) => void;
}

/** Has the callers call, each when its last call has ended. */
export async function record({
  ports,
  isUp,
  callers,
  calls,
  keys,
  chance,
  before,
}: Recording): Promise<RecordedCall[]> {
  const recorded: RecordedCall[] = [];
  const startNs = process.hrtime.bigint();
  const now = () => Number(process.hrtime.bigint() - startNs);
  let made = 0;
  const callOn = async (client: number) => {
    const connections = new Map(ports.map((port) => [port, new Caller(`127.0.0.1:${port}`)]));
    while (made < calls) {
      before(made++);
      const up = ports.filter(isUp);
      const caller = connections.get(up[chance(up.length)] as number) as Caller;
      const key = `k${chance(keys)}`;
      const cost = 1 + chance(3);
      const descriptors = [{ entries: [{ key: "who", value: key }] }];
      const request = requestSerialize({ domain: "edge", descriptors, hits_addend: cost, hitsAddend: cost });
      const beganNs = now();
      const { message } = await caller.ask(request);
      recorded.push({ key, client, beganNs, endedNs: now(), cost, answer: answerOf(message) });
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, client) => callOn(client)));
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
