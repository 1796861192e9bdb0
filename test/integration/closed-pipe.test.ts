// Commands in a pipeline: their output may have no reader, as behind `| head -1`, and rules, calls and cases may come from standard input.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { PROGRAM } from "../support/built-program.ts";
import { ownProcess } from "../support/child-processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");

interface Ended {
  readonly code: number | null;
  /** What came out of the end that was left open. */
  readonly said: string;
}

/** Runs the built program with one of its outputs closed before it can write. */
async function runWithout(closed: "stdout" | "stderr", args: readonly string[]): Promise<Ended> {
  const child = ownProcess(
    spawn(process.execPath, [...PROGRAM, ...args], { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] }),
  );
  child[closed].destroy();
  const open = child[closed === "stdout" ? "stderr" : "stdout"];
  let said = "";
  open.setEncoding("utf8").on("data", (text: string) => {
    said += text;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, said };
}

// Promise(operators): A command whose output nobody reads ends without an error message.
test.each([
  { args: ["--help"], code: 0 },
  { args: ["check", "deploy/rules"], code: 0 },
  { args: ["check", "no-such-folder"], code: 1 },
  { args: ["config_check", "-config_dir", "deploy/rules"], code: 0 },
  // Nothing was found out when its output broke off.
  { args: ["explain", "--rules", "deploy/rules", "--domain", "edge", "tenant=a"], code: 141 },
])("a command whose standard output is closed says nothing and ends with $code: $args", async ({ args, code }) => {
  expect(await runWithout("stdout", args)).toEqual({ code, said: "" });
});

test.each([
  { args: ["no-such-command"], code: 2 },
  { args: ["ask", "--domain", "edge", "--server", "127.0.0.1:1", "tenant=a"], code: 2 },
  { args: ["client", "-domain", "edge"], code: 2 },
])("a command whose standard error is closed ends with its own exit code $code: $args", async ({ args, code }) => {
  expect(await runWithout("stderr", args)).toEqual({ code, said: "" });
});

test.each(["-", "/dev/stdin"])("rules are read from standard input: %s", (path) => {
  const input = "domain: d\ndescriptors: [{ ky: a }]\n";
  const { stdout, status } = spawnSync(process.execPath, [...PROGRAM, "check", path], { input, encoding: "utf8" });
  expect(stdout).toMatch(/^stdin:2:17: error: unknown key 'ky'.*\n {4}2 \| descriptors: \[\{ ky: a \}\]\n/);
  expect(status).toBe(1);
});

const CALL = `{"at":"2026-01-01T00:00:00Z","domain":"d","descriptors":[{"entries":[{"key":"a","value":"b"}]}]}\n`;
const INLINE = "rules: { domain: d, descriptors: [{ key: a, rate_limit: { unlimited: true } }] }\ndomain: d\n";
test.each([
  { command: "simulate", rest: ["-r", "deploy/rules", "-"], input: CALL.repeat(3), says: /^3 calls: / },
  { command: "suggest", rest: ["-"], input: CALL.repeat(3), says: /suggest from -:/ },
  {
    command: "test",
    rest: ["-"],
    input: `${INLINE}cases: [{ name: c, steps: [{ call: a=b, expect: OK }] }]`,
    says: /^1 of 1 case passed/m,
  },
])("$command reads standard input, and leaves no file behind", ({ command, rest, input, says }) => {
  const env = { ...process.env, TMPDIR: temporaryFolder("headgate-stdin") };
  const { stdout, stderr, status } = spawnSync(process.execPath, [...PROGRAM, command, ...rest], {
    input,
    env,
    encoding: "utf8",
  });
  expect([stdout, stderr, status]).toEqual([expect.stringMatching(says), "", 0]);
  expect(readdirSync(env.TMPDIR)).toEqual([]);
});
