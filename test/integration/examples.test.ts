// The examples as people run them: one command each, on a Headgate of the test's or on one that the command starts itself.

import { execFile, spawnSync } from "node:child_process";
import { cpSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { requireProgram } from "../support/built-program.ts";
import { addressOf } from "../support/limiters.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** The first build compiles grpc-go. */
const GO_MS = 600_000;

let app: TestApp;
beforeAll(async () => {
  requireProgram();
  app = await startTestApp(readFileSync(join(ROOT, "deploy/rules/edge.yaml"), "utf8"));
});

/** What the command says of the example; its packages are the repository's. */
async function said(name: string, env: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(temporaryFolder("headgate-example"), name);
  cpSync(join(ROOT, "examples", name), folder, { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const args = [join(ROOT, "examples/run.mjs"), folder];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } });
  return stderr + stdout;
}

test.each(["express-rate-limit", "fastify-rate-limit"])("%s shares 50 calls between two processes", async (name) => {
  const out = await said(name, { HEADGATE: addressOf(app) });
  const [, passed = "0"] = /^60 requests to 2 processes: (\d+) times 200, \d+ times 429$/m.exec(out) ?? [];
  // A check that comes too late on a busy machine lets its request pass, and may have paid.
  const unchecked = out.match(/^not checked: /gm)?.length ?? 0;
  expect(Number(passed), out).toBeGreaterThanOrEqual(50);
  expect(Number(passed), out).toBeLessThanOrEqual(50 + unchecked);
});

// How many of them pass depends on how long they take.
test.each(["express", "fastify"])("%s serves its calls", async (name) => {
  expect(await said(name, { HEADGATE: addressOf(app) })).toMatch(/^60 requests to 2 processes: \d\d times 200/m);
});

test(
  "go asks without the client, and the limit holds",
  async () => {
    if (spawnSync("go", ["version"]).status !== 0) throw new Error("The test of examples/go needs Go on the PATH.");
    const own = await startTestApp(readFileSync(join(ROOT, "deploy/rules/edge.yaml"), "utf8"));
    const out = await said("go", { HEADGATE: addressOf(own) });
    const [, allowed, refused, unanswered] =
      /^60 calls: (\d+) allowed, (\d+) refused, (\d+) without an answer$/m.exec(out) ?? [];
    expect(Number(allowed) + Number(refused) + Number(unanswered), out).toBe(60);
    expect(Number(allowed), out).toBeGreaterThanOrEqual(50 - Number(unanswered));
    expect(Number(refused), out).toBeGreaterThan(0);
  },
  GO_MS,
);

test("outbound makes 30 calls to an API of 10 a second, and none is refused; its Headgate is started and ended", async () => {
  const lines = (await said("outbound", {})).trimEnd().split("\n");
  // Headgate warns of the variables of a test run.
  const [served = "", hurried, ...more] = lines.filter((line) => !line.startsWith("{"));
  expect(Number(/^30 of 30 calls served in (\d+\.\d) s$/.exec(served)?.[1]), served).toBeGreaterThanOrEqual(2);
  expect(hurried).toBe("can't pass within maxWaitMs: sliding_log_exceeded, again in 1 s");
  expect(more).toEqual([]);
});
