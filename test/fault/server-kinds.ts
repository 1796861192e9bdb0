// A server of each kind that processes share, and a store on it: for suites that are written once and hold for both.

import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { openPostgresRig, debts as postgresDebts, flush as postgresFlush } from "./postgres-rig.ts";
import { ledgersOn, openRig, type Reports, until } from "./store-rig.ts";

/** Options of a store that both kinds have. */
export interface KindOptions {
  readonly deadlineMs?: number;
  readonly silenceMsMax?: number;
  readonly takesInFlightMax?: number;
  /** Port of a proxy before the server. */
  readonly port?: number;
  /** Has nothing but takes pass, over one connection. */
  readonly isQuiet?: boolean;
}

/** A running server of one kind. */
export interface KindServer {
  readonly port: number;
  pause(): void;
  resume(): void;
  /** Has another process let it run on after so many milliseconds, whatever this one does meanwhile; to be called after `pause`. */
  resumeAside(afterMs: number): void;
  kill(): Promise<void>;
  restart(): Promise<unknown>;
  stop(): Promise<unknown>;
  /** A store, what it reports, and its connection awaited. */
  open(options: KindOptions): Promise<{ readonly store: SharedStore; readonly reports: Reports }>;
  /** A store that connects in the background. */
  openLater(options: KindOptions): SharedStore;
  /** What the token buckets hold, by key. */
  debts(): Promise<ReadonlyMap<string, number>>;
  flush(): Promise<unknown>;
}

async function startRedis(): Promise<KindServer> {
  const server = await RedisServer.start();
  const optionsOf = ({ port = server.port, isQuiet: _, ...options }: KindOptions) => ({
    deadlineMs: 15,
    ...options,
    target: server.target({ address: { kind: "tcp", host: "127.0.0.1", port } }),
  });
  return Object.assign(server, {
    open: (options: KindOptions) => openRig(optionsOf(options)),
    openLater: (options: KindOptions) => closedWithTest(openRedisStore(optionsOf(options))),
    debts: () => ledgersOn(server),
  });
}

async function startPostgres(): Promise<KindServer> {
  const server = await PostgresServer.start();
  const optionsOf = ({ port = server.port, isQuiet = false, ...options }: KindOptions) => ({
    deadlineMs: 15,
    ...options,
    ...(isQuiet ? { connections: 1, sweeps: false } : {}),
    target: server.target({ port }),
  });
  const open = async (options: KindOptions) => {
    const opened = await openPostgresRig(optionsOf(options));
    if (options.isQuiet) await until("both its connections are up and quiet", async () => (await quiet()) >= 2);
    return opened;
  };
  const quiet = async () => {
    const idle = "SELECT FROM pg_stat_activity WHERE application_name = 'headgate' AND state = 'idle'";
    return (await server.query(`${idle} AND state_change < clock_timestamp() - interval '50 milliseconds'`)).length;
  };
  // Makes the tables.
  await (await open({})).store.close();
  return Object.assign(server, {
    open,
    openLater: (options: KindOptions) => closedWithTest(openPostgresStore(optionsOf(options))),
    debts: () => postgresDebts(server),
    flush: () => postgresFlush(server),
  });
}

/**
 * Each kind, by the name that messages give it. `refundsInSteps`: a refund reads and then writes, so nothing is given back where the
 * first answer does not arrive.
 */
export const SERVER_KINDS = [
  { name: "Redis", start: startRedis, refundsInSteps: false },
  { name: "PostgreSQL", start: startPostgres, refundsInSteps: true },
] as const;
