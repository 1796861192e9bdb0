// Workers that hang, with the supervisor in this thread so that its looks are moved on by hand. The program that it starts is a
// stand-in: it serves, unless a file next to it says that it hangs, and never shows that it lives.

import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { readSettings } from "../../src/process/settings.ts";
import { Supervisor } from "../../src/process/workers/supervisor.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const WORKER = `
import { existsSync, writeFileSync } from "node:fs";
import { parentPort } from "node:worker_threads";
writeFileSync(new URL("./began", import.meta.url), "x", { flag: "a" });
while (existsSync(new URL("./hang", import.meta.url)));
parentPort.on("message", ({ kind }) => kind === "stop" && process.exit(0));
parentPort.postMessage({ kind: "open", listener: "grpc" });
`;
const LOOK_MS = 1_000;
const SILENT_LOOKS_MAX = 10;
const STARTING_LOOKS_MAX = 60;
const WHY = "a worker does not serve 60 s after its start; ending it";

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
  const logger = createLogger({ level: "debug", format: "json", clock, secrets: [], write });
  const file = pathToFileURL(join(folder, "worker.mjs"));
  supervisor = new Supervisor({ settings, clock, logger, version: "1", count: 1, env: {}, file });
});
afterEach(async () => {
  await supervisor.stop({ delays: false });
  vi.useRealTimers();
});

const hang = () => writeFile(join(folder, "hang"), "");
const recover = () => rm(join(folder, "hang"));

/** Resolves when so many workers have begun. */
const begun = (count: number) =>
  expect.poll(() => readFile(join(folder, "began"), "utf8").catch(() => ""), { timeout: 10_000 }).toHaveLength(count);
const said = (text: string) => lines.filter((line) => line.includes(`"msg":"${text}`));

test("a start whose worker hangs ends with why, a minute later and not sooner", async () => {
  await hang();
  let why = "";
  const start = supervisor.start().catch((error: Error) => {
    why = error.message;
  });
  await begun(1);
  vi.advanceTimersByTime((STARTING_LOOKS_MAX - 1) * LOOK_MS);
  expect(said(WHY)).toEqual([]);
  vi.advanceTimersByTime(LOOK_MS);
  await start;
  expect(why).toBe(`worker 1 could not start: ${WHY}`);
});

// Promise(processes): A worker that hangs, even while it starts, is replaced.
test("a replacement that hangs before it serves is ended, said, and replaced by one that serves", async () => {
  await supervisor.start();
  await hang();
  vi.advanceTimersByTime(SILENT_LOOKS_MAX * LOOK_MS);
  await begun(2);
  expect(said("a worker does not respond")).toHaveLength(1);
  vi.advanceTimersByTime(STARTING_LOOKS_MAX * LOOK_MS);
  expect(said(WHY)).toHaveLength(1);
  await recover();
  await begun(3);
  await expect.poll(() => said("a worker serves")).toHaveLength(2);
});
