// Processes that tests have started: none outlives its test file, and what servers said of themselves is shown when a test fails.

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

const LINES_MAX = 15;
const LOGS_MAX = 12;

const running = new Set<ChildProcess>();
const logs: { readonly name: string; readonly read: () => string }[] = [];

// A run that is ended early leaves none behind.
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Has the process end with this test file at the latest. */
export function ownProcess<C extends ChildProcess>(child: C): C {
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

/** Ends those that are still there; called by the last hook of each file. */
export async function endProcesses(): Promise<void> {
  const ended = [...running].map((child) => once(child, "exit"));
  for (const child of running) child.kill("SIGKILL");
  await Promise.all(ended);
}

/** Has the log of a server shown if a test of this file fails. */
export function showOnFailure(name: string, read: () => string): void {
  logs.push({ name, read });
  if (logs.length > LOGS_MAX) logs.shift();
}

/** The ends of the logs of the servers that were started last. */
export function endsOfLogs(): string {
  return logs
    .map(({ name, read }) => ({ name, lines: read().trim().split("\n").slice(-LINES_MAX) }))
    .filter(({ lines }) => lines.join("") !== "")
    .map(({ name, lines }) => `${name} said last:\n${lines.map((line) => `  ${line}\n`).join("")}`)
    .join("");
}

/** Forgets the logs, when another file begins in the same process. */
export function forgetLogs(): void {
  logs.length = 0;
}
