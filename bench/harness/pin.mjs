// Which core a process of the bench runs on: the server that is measured alone on one, what asks it on another, and what
// stands beside (Redis, Envoy) on further ones, as far as there are any.

import { execFileSync } from "node:child_process";
import os from "node:os";

const cores = os.cpus().length;

/** Cores by who runs there. With two of them, all but the server share the second. */
export const CORE = {
  server: 0,
  load: Math.min(1, cores - 1),
  redis: Math.min(2, cores - 1),
  envoy: Math.min(3, cores - 1),
};

let hasTaskset;

/** The command that runs `command` on a core only, where the system can. */
export function pinned(core, command) {
  hasTaskset ??= works("taskset", ["-c", `0,${CORE.load}`, "true"]);
  return hasTaskset && cores > 1 ? ["taskset", "-c", String(core), ...command] : command;
}

/** Whether servers and load run on cores of their own. */
export function isPinned() {
  return pinned(CORE.server, []).length > 0;
}

/** Whether `command` can be run and ends well. */
export function works(command, args) {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
