// Logs that can't be written, as on a full disk: the service answers, reloads and ends as if it could, and counts what it lost.

import { type ChildProcess, execFileSync, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { PROGRAM } from "../support/built-program.ts";
import { freePort } from "../support/redis-server.ts";
import { spawnService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/** Only for a service that never does it: a busy machine may take long. */
const DONE_MS = 45_000;
vi.setConfig({ testTimeout: 3 * DONE_MS });

const RULES = "descriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]";

/** A service whose rules lie in this folder; its HTTP port is `port`. */
function serve(
  rulesDir: string,
  port: number,
  env: Readonly<Record<string, string>>,
  stdio: StdioOptions,
): ChildProcess {
  return spawnService({ PORT: String(port), RULES_DIR: rulesDir, LOG_LEVEL: "debug", ...env }, { stdio });
}

// Promise(operators): A full log disk, a log pipe that nobody reads or a log file that hangs costs no call, no reload and no orderly end.
test("with a full log the service answers, reloads, and ends with 0 at SIGTERM", async () => {
  const rulesDir = temporaryFolder("headgate-full-log");
  const write = (domain: string) => {
    // Renamed in, so that nobody reads half a file.
    writeFileSync(join(rulesDir, "beside"), `domain: ${domain}\n${RULES}\n`);
    renameSync(join(rulesDir, "beside"), join(rulesDir, "rules.yaml"));
  };
  write("first");
  const port = await freePort();
  const full = openSync("/dev/full", "w");
  const child = serve(rulesDir, port, {}, ["ignore", full, "inherit"]);
  closeSync(full);
  const rules = async () =>
    await fetch(`http://127.0.0.1:${port}/rlconfig`).then(
      (answer) => answer.text(),
      () => "",
    );
  await vi.waitFor(async () => expect(await rules()).toContain("first.a"), { timeout: DONE_MS, interval: 100 });
  write("second");
  child.kill("SIGHUP");
  await vi.waitFor(async () => expect(await rules()).toContain("second.a"), { timeout: DONE_MS, interval: 100 });
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});

// Promise(operators): Decisions that a full disk does not take are written whole once it has room.
test("decisions wait for room on a full disk, and none is cut", async () => {
  const rulesDir = temporaryFolder("headgate-full-decisions");
  writeFileSync(join(rulesDir, "rules.yaml"), `domain: full\n${RULES}\n`);
  const file = join(temporaryFolder("headgate-decisions"), "decisions.jsonl");
  const port = await freePort();
  const env = { DECISION_LOG: "all", DECISION_LOG_FILE: file, DECISION_LOG_RATE: "1000" };
  const child = serve(rulesDir, port, env, ["ignore", "ignore", "inherit"]);
  const url = `http://127.0.0.1:${port}`;
  const isReady = async () => (await fetch(`${url}/healthcheck`)).status;
  await vi.waitFor(async () => expect(await isReady()).toBe(200), { timeout: DONE_MS, interval: 100 });
  const ask = async (count: number) => {
    const body = JSON.stringify({ domain: "full", descriptors: [{ entries: [{ key: "a", value: "b" }] }] });
    for (let i = 0; i < count; i++) await (await fetch(`${url}/json`, { method: "POST", body })).text();
  };
  // No file of this process may become longer, as on a disk that gets full within a line.
  const BYTES = 2_000;
  execFileSync("prlimit", [`--pid=${child.pid}`, `--fsize=${BYTES}:unlimited`]);
  await ask(30);
  await vi.waitFor(() => expect(readFileSync(file)).toHaveLength(BYTES), { timeout: DONE_MS, interval: 100 });
  execFileSync("prlimit", [`--pid=${child.pid}`, "--fsize=unlimited:unlimited"]);
  await ask(7);
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
  const lines = readFileSync(file, "utf8").split("\n").slice(0, -1);
  expect(lines.map((line) => (JSON.parse(line) as { code: string }).code)).toHaveLength(37);
});

/** A pipe's two ends. Whoever opens both is never made to wait. */
function openPipe(): { readonly path: string; readonly fd: number } {
  const path = join(temporaryFolder("headgate-pipe"), "pipe");
  execFileSync("mkfifo", [path]);
  return { path, fd: openSync(path, constants.O_RDWR | constants.O_NONBLOCK) };
}

function fill(fd: number): void {
  const bytes = Buffer.alloc(65_536, "x");
  expect(() => {
    for (;;) writeSync(fd, bytes);
  }).toThrow("EAGAIN");
}

// Promise(operators): A full log disk, a log pipe that nobody reads or a log file that hangs costs no call, no reload and no orderly end.
test.each([
  { name: "a pipe that nobody reads", to: "log", isFull: false, isClosed: false },
  { name: "a pipe that is full from the start", to: "log", isFull: true, isClosed: false },
  { name: "a pipe that its reader closes", to: "log", isFull: false, isClosed: true },
  { name: "a pipe that DECISION_LOG_FILE names", to: "file", isFull: false, isClosed: false },
  { name: "a full disk that DECISION_LOG_FILE names", to: "disk", isFull: true, isClosed: false },
])("with $name the service answers, reloads, counts lost lines, and ends", async ({ to, isFull, isClosed }) => {
  const rulesDir = temporaryFolder("headgate-full-pipe");
  writeFileSync(join(rulesDir, "rules.yaml"), `domain: first\n${RULES}\n`);
  const { path, fd } = openPipe();
  if (isFull) fill(fd);
  const port = await freePort();
  const files: Readonly<Record<string, string>> = { file: path, disk: "/dev/full" };
  const file: Record<string, string> = to === "log" ? {} : { DECISION_LOG_FILE: files[to] ?? "" };
  const env = { ...file, DECISION_LOG: "all", DECISION_LOG_RATE: "100000" };
  const out = to === "log" ? openSync(path, constants.O_WRONLY) : ("ignore" as const);
  const child = serve(rulesDir, port, env, ["ignore", out, "inherit"]);
  if (typeof out === "number") closeSync(out);
  const url = `http://127.0.0.1:${port}`;
  const status = () =>
    fetch(`${url}/healthcheck`).then(
      ({ status }) => status,
      () => 0,
    );
  await vi.waitFor(async () => expect(await status()).toBe(200), { timeout: DONE_MS, interval: 100 });
  if (isClosed) closeSync(fd);
  const value = "v".repeat(10_000);
  const body = JSON.stringify({ domain: "first", descriptors: [{ entries: [{ key: "a", value }] }] });
  const CALLS = 300;
  for (let i = 0; i < CALLS; i++) await (await fetch(`${url}/json`, { method: "POST", body })).text();
  const page = await (await fetch(`${url}/metrics`)).text();
  const metric = (name: string) => Number(new RegExp(`^${name} (\\d+)`, "m").exec(page)?.[1]);
  const left = metric('headgate_decision_log_lines_total\\{result="left_out"\\}');
  // 1 MB waits, and at most another one is in the pipe; a closed pipe has lost all since.
  expect(left).toBeGreaterThan(isClosed ? CALLS - 10 : CALLS - 200);
  const written = metric('headgate_decision_log_lines_total\\{result="written"\\}');
  expect(written).toBeLessThan(110);
  writeFileSync(join(rulesDir, "rules.yaml"), `domain: second\n${RULES}\n`);
  child.kill("SIGHUP");
  const rules = async () => await (await fetch(`${url}/rlconfig`)).text();
  await vi.waitFor(async () => expect(await rules()).toContain("second.a"), { timeout: DONE_MS, interval: 100 });
  const state = (await (await fetch(`${url}/state`)).json()) as { conditions: readonly { id: string }[] };
  expect(state.conditions.map(({ id }) => id)).toContain("logLost");
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
  if (!isClosed) closeSync(fd);
});

// Promise(operators): A full log disk, a log pipe that nobody reads or a log file that hangs costs no call, no reload and no orderly end.
test("with a terminal whose output is stopped the service answers, and ends", async () => {
  const rulesDir = temporaryFolder("headgate-stopped-terminal");
  writeFileSync(join(rulesDir, "rules.yaml"), `domain: first\n${RULES}\n`);
  const { path, fd } = openPipe();
  fill(fd);
  const out = openSync(path, constants.O_WRONLY);
  const port = await freePort();
  const env = { PORT: String(port), RULES_DIR: rulesDir, DECISION_LOG: "all", DECISION_LOG_RATE: "100000" };
  // `script` gives it a terminal, and passes on what it writes to a pipe that is full.
  const service = `exec '${process.execPath}' '${PROGRAM.join("' '")}' serve`;
  const child = spawnService(env, {
    command: ["script", "--quiet", "--command", service, "/dev/null"],
    stdio: ["ignore", out, "inherit"],
  });
  closeSync(out);
  const url = `http://127.0.0.1:${port}`;
  const status = () =>
    fetch(`${url}/healthcheck`).then(
      (answer) => answer.status,
      () => 0,
    );
  await vi.waitFor(async () => expect(await status()).toBe(200), { timeout: DONE_MS, interval: 100 });
  const body = JSON.stringify({
    domain: "first",
    descriptors: [{ entries: [{ key: "a", value: "v".repeat(10_000) }] }],
  });
  for (let i = 0; i < 200; i++) await (await fetch(`${url}/json`, { method: "POST", body })).text();
  const page = await (await fetch(`${url}/metrics`)).text();
  expect(Number(/^headgate_log_lines_dropped_total (\d+)/m.exec(page)?.[1])).toBeGreaterThan(50);
  const [pid = ""] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").split(" ");
  process.kill(Number(pid), "SIGTERM");
  // Nobody has heard of its end yet, as `script` hangs itself.
  const state = () => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.[0];
  await vi.waitFor(() => expect(state()).toBe("Z"), { timeout: DONE_MS, interval: 100 });
  closeSync(fd);
});
