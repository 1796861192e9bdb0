// Takes secrets out of the environment of the process once they are read: a diagnostic report of Node.js holds all of it.

import { tableRows } from "../settings.ts";

/**
 * Deletes the variables that hold secrets, and where Node.js can (22.13, 23.3 and later) leaves the environment out of
 * reports altogether, so that what others keep in it stays out too.
 */
export function deleteSecrets(): void {
  for (const [, { name, secret }] of tableRows()) if (secret) delete process.env[name];
  if ("excludeEnv" in process.report) process.report.excludeEnv = true;
}
