// The decision log of a running service: to a file that a simulation reads, with the caller's trace, on both transports.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { SimulationReport } from "../../src/tools/simulate/report.ts";
import { runProgram } from "../support/run-program.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient, startTestApp } from "../support/test-app.ts";

const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 2, unit: hour, algorithm: fixed_window } }
`;
const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";

/** Asks once, as Envoy does for a request that is traced. */
async function askTraced(port: number, user: string): Promise<string> {
  const request = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: user }] }] };
  const traced = [`00-${TRACE_ID}-b7ad6b7169203331-01`];
  return (await askOnce(openClient(`127.0.0.1:${port}`), request, 10_000, traced)).overall_code;
}

/** What a simulation of the file counts, by the same rules. */
async function simulatedCalls(file: string): Promise<SimulationReport["calls"]> {
  const rules = join(temporaryFolder("headgate-decision-rules"), "rules.yaml");
  writeFileSync(rules, RULES);
  const { out } = await runProgram(["simulate", "--rules", rules, "--json", file]);
  return (JSON.parse(out) as SimulationReport).calls;
}

describe.each(["fast-lane", "grpc-js"])("on the transport %s", (transport) => {
  // Promise(simulations): The decision log carries the caller's trace on both transports.
  test("refusals go to a file with the caller's trace, and a simulation reads them", async () => {
    const file = join(temporaryFolder("headgate-decision-log"), "decisions.jsonl");
    const env = { GRPC_TRANSPORT: transport, DECISION_LOG: "refusals", DECISION_LOG_FILE: file };
    const app = await startTestApp(RULES, env);
    const codes: string[] = [];
    for (let i = 0; i < 5; i++) codes.push(await askTraced(app.grpcPort, "ann"));
    expect((await app.hit({ user: "ann" })).overall_code).toBe("OVER_LIMIT");
    await app.stop();
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT", "OVER_LIMIT", "OVER_LIMIT"]);
    const lines = readFileSync(file, "utf8").trimEnd().split("\n");
    const traces = lines.map((line) => (JSON.parse(line) as { trace_id?: string }).trace_id);
    expect(traces).toEqual([TRACE_ID, TRACE_ID, TRACE_ID, undefined]);
    expect(await simulatedCalls(file)).toMatchObject({ read: 4, allowed: 2, refused: 2 });
  });
});

// Promise(operators): Decisions that were asked for are logged, whatever LOG_LEVEL leaves out.
test("all decisions go to the process's log, whatever LOG_LEVEL leaves out, and a simulation reads them too", async () => {
  const app = await startTestApp(RULES, { DECISION_LOG: "all", LOG_LEVEL: "error" });
  for (let i = 0; i < 3; i++) await app.hit({ user: "bob" });
  const metrics = await (await app.http("/metrics")).text();
  expect(metrics).toContain('headgate_decision_log_lines_total{result="written"} 3');
  const log = [...app.log];
  await app.stop();
  const decisions = log.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(decisions.map(({ msg, code, remaining, limit }) => ({ msg, code, remaining, limit }))).toEqual([
    { msg: "decision", code: "OK", remaining: 1, limit: "edge/user" },
    { msg: "decision", code: "OK", remaining: 0, limit: "edge/user" },
    { msg: "decision", code: "OVER_LIMIT", remaining: 0, limit: "edge/user" },
  ]);
  const file = join(temporaryFolder("headgate-process-log"), "log.jsonl");
  writeFileSync(file, log.map((line) => (line.endsWith("\n") ? line : `${line}\n`)).join(""));
  expect(await simulatedCalls(file)).toMatchObject({ read: 3, allowed: 2, refused: 1 });
});
