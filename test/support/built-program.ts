// The built program, as tests start it in processes of their own. `npm test` builds it first.

import { existsSync } from "node:fs";
import { resolve } from "node:path";

/** The file that is run. */
export const MAIN = resolve(import.meta.dirname, "../../dist/main.js");

/**
 * Node's arguments that run it. V8 compiles a function for speed only after several times the work that it asks for otherwise:
 * a process that a test starts lives for some seconds, and half of its start's processor time would go into that. Node 24 has no such flag.
 */
const FLAGS = Number(process.versions.node.split(".")[0]) < 24 ? ["--interrupt-budget=1000000"] : [];
export const PROGRAM: readonly string[] = [...FLAGS, MAIN];

/** Throws with the command that builds it if it is missing. */
export function requireProgram(): void {
  if (!existsSync(MAIN)) throw new Error("dist/main.js is missing: run `npm run build` first (npm test does)");
}
