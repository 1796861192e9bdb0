// The way of docs/simulate.md from a recording to rules that are tested, each step by its one command, on real sockets.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SimulationReport } from "../../src/tools/simulate/report.ts";
import { runProgram } from "../support/run-program.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient, startTestApp } from "../support/test-app.ts";

const RULES = "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 6, unit: hour } }]\n";

// Promise(simulations): A recording of the mirror becomes suggested, simulated and tested rules, each by one command.
test("a recording of the mirror is suggested from, simulated and tested", async () => {
  const folder = temporaryFolder("headgate-newcomer");
  const recording = join(folder, "calls.jsonl.gz");
  const app = await startTestApp(RULES);
  const answers: string[] = [];
  const args = ["mirror", "--answer-from", `127.0.0.1:${app.grpcPort}`, "--record", recording];
  await runProgram([...args, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"], {
    async untilStopped({ errText }) {
      const client = openClient(`127.0.0.1:${/grpc\W+127\.0\.0\.1:(\d+)/.exec(errText)?.[1]}`);
      for (let i = 0; i < 10; i++) {
        const descriptors = [{ entries: [{ key: "user", value: i === 0 ? "bob" : "ann" }] }];
        answers.push((await askOnce(client, { domain: "edge", descriptors }, 20_000)).overall_code);
      }
      client.close();
    },
  });
  await app.stop();

  // What the service answered then is what a simulation by its rules answers now.
  const rules = join(folder, "rules.yaml");
  writeFileSync(rules, RULES);
  const { out } = await runProgram(`simulate --rules ${rules} --json ${recording}`);
  const simulated = JSON.parse(out) as SimulationReport;
  const refused = answers.filter((code) => code === "OVER_LIMIT").length;
  expect(simulated.calls).toMatchObject({ read: 10, refused, allowed: 10 - refused });
  expect(refused).toBe(3);

  const suggested = await runProgram(["suggest", "--percentile", "100", recording]);
  mkdirSync(join(folder, "new"));
  writeFileSync(join(folder, "new", "edge.yaml"), suggested.out);
  expect((await runProgram(["check", "--strict", join(folder, "new")])).exitCode).toBe(0);
  const changed = await runProgram(`simulate --rules ${folder}/new --against ${rules} ${recording} --tolerate 0%`);
  expect(changed.out).toContain("0 newly refused, 3 newly allowed");
  expect(changed.exitCode).toBe(0);

  const cases = join(folder, "cases.yaml");
  writeFileSync(
    cases,
    "rules: new\ndomain: edge\ncases: [{ name: ann, steps: [{ call: user=ann, times: 9, expect: OK }] }]\n",
  );
  expect((await runProgram(["test", cases])).out).toContain("1 of 1 case passed");
  expect(readFileSync(recording).subarray(0, 2)).toEqual(Buffer.from([0x1f, 0x8b]));
});
