// Runs once before the tests with Envoy Gateway: builds it and fetches its Envoy, or says why the tests are skipped.

import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

const FETCH = resolve(import.meta.dirname, "../fetch.mjs");
const MISSING = "HEADGATE_GATEWAY_MISSING";

/** Vitest's hook. */
export default function requireGateway(): void {
  const { status, stderr } = spawnSync(process.execPath, [FETCH], { stdio: ["ignore", "inherit", "pipe"] });
  if (status === 0) return;
  process.env[MISSING] = "true";
  process.stdout.write(`not tried, all tests with Envoy Gateway are skipped: ${stderr.toString().trim()}\n`);
}

/** Whether the gateway and its Envoy are there. */
export const hasGateway = process.env[MISSING] === undefined;
