// Workers that hang before they serve, with the supervisor in this process so that its looks are moved on by hand. The
// program that it starts is a stand-in: it serves, unless told to hang by a file beside it.

import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { readSettings } from "../../src/process/settings.ts";
import { Supervisor } from "../../src/process/workers/supervisor.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { isAlive } from "../support/worker-rig.ts";

const WORKER = `
import { existsSync, renameSync, writeFileSync } from "node:fs";
const hangs = existsSync(new URL("./hang", import.meta.url));
process.on("message", (message) => {
  if (message.kind === "start") tell(process.pid);
  if (hangs) return;
  if (message.kind === "start") process.send({ kind: "open", listener: "grpc" });
  if (message.kind === "stop") process.exit(0);
});
process.on("disconnect", () => process.exit(1));
// Whole or not at all: somebody reads it all the time.
function tell(pid) {
  writeFileSync(new URL("./pid.new", import.meta.url), String(pid));
  renameSync(new URL("./pid.new", import.meta.url), new URL("./pid", import.meta.url));
}
`;
const LOOK_MS = 1_000;
const STARTING_LOOKS_MAX = 60;
const WHY = "a worker does not serve 60 s after it was started; it is ended";

let folder: string;
let supervisor: Supervisor;
let lines: string[];

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  folder = temporaryFolder("headgate-hangs");
  await writeFile(join(folder, "worker.mjs"), WORKER);
  lines = [];
  const clock = new SystemClock();
  const settings = readSettings({ HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0" });
  const write = (line: string) => lines.push(line);
  const logger = createLogger({ level: "info", format: "json", clock, secrets: [], write });
  supervisor = new Supervisor({ settings, clock, logger, count: 1, env: {}, file: join(folder, "worker.mjs") });
});
afterEach(async () => {
  await supervisor.stop({ delays: false });
  vi.useRealTimers();
  await rm(folder, { recursive: true });
});

const hang = () => writeFile(join(folder, "hang"), "");
const recover = () => rm(join(folder, "hang"));

/** Waits for a worker other than `before` to be told its number; resolves to its id. */
async function workerAfter(before: number): Promise<number> {
  let pid = before;
  await expect
    .poll(async () => (pid = Number(await readFile(join(folder, "pid"), "utf8").catch(() => before))), {
      timeout: 10_000,
    })
    .not.toBe(before);
  return pid;
}

test("a start whose worker hangs ends with why, a minute later and not sooner", async () => {
  await hang();
  const start = supervisor.start().then(
    () => "started",
    (error: Error) => error.message,
  );
  const pid = await workerAfter(0);
  vi.advanceTimersByTime((STARTING_LOOKS_MAX - 1) * LOOK_MS);
  expect(isAlive(pid)).toBe(true);
  vi.advanceTimersByTime(LOOK_MS);
  expect(await start).toBe(`worker 1 could not start: ${WHY}`);
});

// Promise(processes): A worker that hangs, even while it starts, is replaced.
test("a replacement that hangs before it serves is ended, said, and replaced by one that serves", async () => {
  await supervisor.start();
  const first = await workerAfter(0);
  await hang();
  process.kill(first, "SIGKILL");
  const stuck = await workerAfter(first);
  await recover();
  vi.advanceTimersByTime(STARTING_LOOKS_MAX * LOOK_MS);
  const second = await workerAfter(stuck);
  expect([isAlive(stuck), isAlive(second)]).toEqual([false, true]);
  expect(lines.filter((line) => line.includes(WHY) && line.includes(`"pid":${stuck}`))).not.toEqual([]);
});
