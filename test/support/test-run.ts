// One run of the tests: it has one temporary folder, in which all that tests write lies, and when it ends nothing may be left
// of it: no file, no process, no listening port. Set up once per run, whichever projects take part.

import { chmodSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { processesOf } from "./run-processes.ts";

/** Names the run's folder to all processes of the run; whoever has it in its environment belongs to the run. */
const RUN_FOLDER = "HEADGATE_TEST_RUN";
/** How long what was told to end may take to do so. */
const END_MS_MAX = 5_000;

/** Vitest's hook: makes the folder, and has it be everybody's temporary folder. */
export default function startRun(): (() => Promise<void>) | undefined {
  // Another project of the same run has done it.
  if (process.env[RUN_FOLDER] !== undefined) return undefined;
  const outer = process.env.TMPDIR;
  const folder = mkdtempSync(join(tmpdir(), "headgate-"));
  // PostgreSQL runs as somebody else if we are root.
  chmodSync(folder, 0o711);
  process.env[RUN_FOLDER] = folder;
  process.env.TMPDIR = folder;
  return async () => {
    if (outer === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = outer;
    delete process.env[RUN_FOLDER];
    await endRun(folder);
  };
}

/**
 * What is there at every look for that long. One look is not enough: it may meet a process of Vitest's at its end, without its command
 * line, which looks like anybody's.
 */
export async function leftAfter<T>(look: () => readonly T[], maxMs: number): Promise<readonly T[]> {
  const endMs = performance.now() + maxMs;
  let found = look();
  while (found.length > 0 && performance.now() < endMs) {
    await sleep(50);
    found = look();
  }
  return found;
}

async function endRun(folder: string): Promise<void> {
  const processes = await leftAfter(() => processesOf(folder), END_MS_MAX);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  for (const { pid } of processes) process.kill(pid, "SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  const left = [
    ...files.map((file) => `file or folder ${file}`),
    ...processes.map(({ pid, command, ports }) => {
      const listening = ports.length === 0 ? "" : `, listening on ${ports.join(", ")}`;
      return `process ${pid}${listening}: ${command}`;
    }),
  ];
  if (left.length === 0) return;
  process.exitCode = 1;
  process.stderr.write(`\nThe tests left behind:\n${left.map((each) => `  ${each}\n`).join("")}`);
}
