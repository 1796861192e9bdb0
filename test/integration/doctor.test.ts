// `headgate doctor` asks running services.

import { createServer } from "node:http";
import { expect, test } from "vitest";
import { listen } from "../support/listen.ts";
import { runProgram } from "../support/run-program.ts";
import { startService } from "../support/service-process.ts";
import { startTestApp } from "../support/test-app.ts";

const RULES = "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 3, unit: hour } }]\n";
const TOKEN = "a-token-of-the-operators";

test("compares services that differ in rules and settings, and ends with 1", async () => {
  const one = await startService({}, { rules: RULES });
  const other = await startService({ SHADOW_MODE: "true" }, { rules: RULES.replace("3", "4") });
  const [a, b] = [one, other].map(({ httpPort }) => `127.0.0.1:${httpPort}`);
  const alone = await runProgram(["doctor", "--server", `${a}`]);
  expect(alone.out).toMatch(/^well: 1 server, 0 problems, 0 differences\n/);
  expect([alone.exitCode, alone.err]).toEqual([0, ""]);
  const both = await runProgram(["doctor", "--json", "-s", `${a}, http://${b}`]);
  const { servers, differences } = JSON.parse(both.out);
  expect(servers.map(({ server }: { server: string }) => server)).toEqual([a, b]);
  const named = new Set(differences.map(({ what }: { what: string }) => what));
  expect(["rules", "setting SHADOW_MODE"].filter((what) => !named.has(what))).toEqual([]);
  expect(both.exitCode).toBe(1);
});

test("a program whose answers only look like Headgate's can't be asked: 2", async () => {
  const port = await listen(createServer((_, answer) => answer.end('{"conditions":[]}')));
  const { out, exitCode } = await runProgram(["doctor", "-s", `127.0.0.1:${port}`]);
  expect(out).toContain("can't be asked: the answer is not from a Headgate of this version");
  expect(exitCode).toBe(2);
});

test("a service that wants a token, and one that is away, are named: 2", async () => {
  const guarded = await startTestApp(RULES, { ADMIN_TOKEN: TOKEN });
  const server = `127.0.0.1:${guarded.httpPort}`;
  const refused = await runProgram(["doctor", "-s", `${server},127.0.0.1:1`]);
  expect(refused.out).toMatch(/can't be asked: .* answered 401/);
  expect(refused.out).toContain(
    "127.0.0.1:1  can't be asked: can't ask http://127.0.0.1:1/state?scope=process: connect ECONNREFUSED",
  );
  expect(refused.exitCode).toBe(2);
  const { exitCode } = await runProgram(["doctor", "-s", server], { env: { ADMIN_TOKEN: TOKEN } });
  expect(exitCode).toBe(0);
});
