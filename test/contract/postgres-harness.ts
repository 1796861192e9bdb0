// The PostgreSQL store over a real server, under a clock moved by hand.

import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import type { PostgresServer } from "../support/postgres-server.ts";
import { whenUp } from "../support/when-up.ts";
import { contractOptions, harnessOver } from "./redis-harness.ts";
import type { StoreHarness } from "./store-harness.ts";

type PostgresStoreOptions = Parameters<typeof openPostgresStore>[0];

/** A fresh store under a key prefix of its own, connected. */
export async function postgresHarness(
  server: PostgresServer,
  options: Partial<Omit<PostgresStoreOptions, "target" | "injectedTime">> = {},
): Promise<StoreHarness> {
  const own = contractOptions();
  const store = openPostgresStore({
    target: server.target(),
    ...own,
    // Time is moved to and fro, also by other tests of the same server: what looks expired may yet mean something.
    sweeps: false,
    connections: 1,
    ...options,
  });
  if (!(await whenUp(store, 10_000))) throw new Error(store.trouble());
  return harnessOver(store, own.injectedTime, options.keyPrefix ?? own.keyPrefix);
}
