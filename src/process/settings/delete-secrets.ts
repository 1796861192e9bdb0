// Removes secrets from the process's environment after they are read, because diagnostic reports of Node.js contain the environment.

import { tableRows } from "../settings.ts";

/**
 * Deletes the variables of secret settings. From Node.js 22.13 and 23.3 on, also leaves the whole environment out of reports, so that
 * other programs' secrets are not in them either.
 */
export function deleteSecrets(): void {
  for (const [, { name, secret }] of tableRows()) if (secret) delete process.env[name];
  if ("excludeEnv" in process.report) process.report.excludeEnv = true;
}
