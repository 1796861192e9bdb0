// Runs once before all tests with servers: two of them can't install PostgreSQL at the same time.

import { requirePostgres } from "./postgres-server.ts";

export function setup(): void {
  try {
    requirePostgres();
  } catch (error) {
    // Those that need it will fail with the same words; all others can do without.
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  }
}
