// What is to be given back while the server refuses: it travels again until the server takes it, or is counted.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openConnection } from "../../src/stores/redis/connect.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";
import { debtOf, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, ledgerOn, Reports, settle, until } from "./store-rig.ts";

/** Above what the faults here hold a call for; nothing is about time. */
const options = { deadlineMs: 100, silenceMsMax: 2_000 } as const;
/** Long enough for several attempts. */
const REFUSED_MS = 300;

interface Fault {
  readonly name: string;
  /** Has the server refuse; resolves with what ends that. */
  readonly begin: () => Promise<() => Promise<unknown>>;
}

/** Pays twice, has one of the payments given back during the fault, and looks what is owed once it is over. */
async function giveBackDuring({ begin }: Fault, store: SharedStore, reports: Reports, owed: () => Promise<number>) {
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  await settle(store, groupOn("k", LEDGER, 5));
  const groups = await Promise.all([3, 4].map((cost) => settle(store, groupOn("k", LEDGER, cost))));
  const end = await begin();
  for (const group of groups) store.giveBack(group);
  await sleep(REFUSED_MS);
  const owedMeanwhile = await end().then(owed);
  await until("it is given back", async () => reports.takesGivenBack === 2);
  expect([owedMeanwhile === 12 || owedMeanwhile === 5, await owed()]).toEqual([true, 5]);
  expect([reports.takesKeptPaid, reports.unknownGroups]).toEqual([0, 0]);
}

describe("a Redis that refuses gives back later: it", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await RedisServer.start();
  });

  const set = (name: string, value: number | string) => server.command("CONFIG", "SET", name, value);
  const setFor = (name: string, during: number | string, after: number | string) => async () => {
    await set(name, during);
    return () => set(name, after);
  };

  test.each<Fault>([
    { name: "has no memory left (OOM)", begin: setFor("maxmemory", 1, 0) },
    { name: "has too few replicas (NOREPLICAS)", begin: setFor("min-replicas-to-write", 1, 0) },
    {
      name: "is a replica for a while (READONLY)",
      begin: async () => {
        await server.command("REPLICAOF", "127.0.0.1", 1);
        return () => server.command("REPLICAOF", "NO", "ONE");
      },
    },
    {
      name: "runs somebody's endless script (BUSY)",
      begin: async () => {
        await set("busy-reply-threshold", 1);
        const other = await openConnection(server.target(), () => undefined);
        const killed = other.command("eval", ["while true do end", "0"]).catch(() => undefined);
        await sleep(20); // so that it counts as busy
        return async () => {
          await server.command("SCRIPT", "KILL");
          await killed;
          other.drop();
        };
      },
    },
  ])("$name", async (fault) => {
    await server.flush();
    const reports = new Reports();
    const store = closedWithTest(openRedisStore({ target: server.target(), observer: reports, ...options }));
    await giveBackDuring(fault, store, reports, () => ledgerOn(server, "k"));
  });

  test("is counted where the connection is cut with the call under way", async () => {
    await server.flush();
    const proxy = await FaultProxy.start(server.port);
    const reports = new Reports();
    const target = server.target({ address: { kind: "tcp", host: "127.0.0.1", port: proxy.port } });
    const store = closedWithTest(openRedisStore({ target, observer: reports, ...options }));
    if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
    const group = await settle(store, groupOn("k", LEDGER, 3));
    proxy.hold();
    store.giveBack(group);
    await until("it has arrived", async () => (await ledgerOn(server, "k")) === 0);
    proxy.cutAll();
    await until("it is counted", () => reports.takesKeptPaid === 1);
    proxy.release();
    expect(await whenUp(store, 20_000)).toBe(true);
    await settle(store, groupOn("k", LEDGER, 1));
    expect([await ledgerOn(server, "k"), reports.takesGivenBack]).toEqual([1, 0]);
  });
});

// Promise(outages): A give-back that the server refuses is sent again.
describe("a PostgreSQL that refuses gives back later: it", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
    await (await openPostgresRig({ target: server.target(), deadlineMs: 1_000 })).store.close();
  }, 60_000);

  const holding = (statement: string) => async () => {
    await server.query("BEGIN");
    await server.query(statement);
    return () => server.query("ROLLBACK");
  };
  const setReadOnly = async (value: string) => {
    await server.query("SET default_transaction_read_only = off");
    await server.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    await server.query("SELECT pg_reload_conf()");
    await sleep(50); // until its processes have heard of it
  };

  test.each<Fault>([
    { name: "has the table held by somebody else", begin: holding("LOCK TABLE headgate.bucket IN EXCLUSIVE MODE") },
    {
      name: "takes no writes",
      begin: async () => {
        await setReadOnly("on");
        return () => setReadOnly("off");
      },
    },
  ])("$name", async (fault) => {
    await flush(server);
    const reports = new Reports();
    const target = server.target();
    const store = closedWithTest(openPostgresStore({ target, observer: reports, sweeps: false, ...options }));
    await giveBackDuring(fault, store, reports, () => debtOf(server, "k"));
  });
});
