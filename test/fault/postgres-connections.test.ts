// Connections to PostgreSQL that are ended, busy or silent, while others are well; and what a crash leaves of payments.

import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { endWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { areUp, debtOf, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, settle, until } from "./store-rig.ts";

/** Long enough for a server on a busy machine to answer. */
const DEADLINE_MS = 250;

let server: PostgresServer;
let proxy: FaultProxy;
let store: SharedStore;

beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target(), deadlineMs: 1_000 })).store.close();
}, 60_000);
beforeEach(async () => {
  await flush(server);
  proxy = await FaultProxy.start(server.port);
  const target = server.target({ port: proxy.port });
  ({ store } = await openPostgresRig({ target, deadlineMs: DEADLINE_MS, connections: 1, sweeps: false }));
  // So that nothing but takes passes the proxy.
  await until("the other connection is up, too", () => areUp(server, 2));
});
afterEach(() => proxy.release());

test("a connection that the server ends is replaced, and another one carries on meanwhile", async () => {
  const { store: two } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, connections: 2 });
  const count = async () => {
    const text = "SELECT pid FROM pg_stat_activity WHERE application_name = 'headgate' AND client_port <> $1";
    return (await server.query(text, [0])).length;
  };
  await until("all are connected", async () => (await count()) >= 3);
  await server.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headgate' LIMIT 1",
  );
  // A call may be on its way over that connection before its end is noticed.
  const failed: unknown[] = [];
  for (let call = 0; call < 5; call++) {
    const { failure } = await settle(two, groupOn("k"));
    if (failure !== undefined) failed.push(failure.code);
  }
  expect(failed.length, String(failed)).toBeLessThanOrEqual(1);
  await until("all are connected again", async () => (await count()) >= 3);
});

test("takes that wait for a free connection until their deadline never reach PostgreSQL", async () => {
  proxy.hold();
  const first = settle(store, groupOn("first"));
  await until("the connection is taken", async () => (await debtOf(server, "first")) === 1);
  const waiting = await Promise.all([settle(store, groupOn("k")), settle(store, groupOn("k"))]);
  expect(waiting.map(({ failure }) => failure?.code)).toEqual(["STORE_TIMEOUT", "STORE_TIMEOUT"]);
  await first;
  proxy.release();
  await until("it answers", async () => (await settle(store, groupOn("other"))).verdict === Verdict.allowed);
  expect(await debtOf(server, "k")).toBe(0);
});

test("connections that are silent keep the others from no call, and are given up", async () => {
  const options = { target: server.target(), deadlineMs: DEADLINE_MS, silenceMsMax: 3_000, connections: 3 };
  const { store: three, reports: itsReports } = await openPostgresRig({ ...options, sweeps: false });
  await until("all are up", () => areUp(server, 6));
  // Two, because no more than two calls of plain takes are under way.
  for (const name of ["first", "second"]) {
    expect((await settle(three, groupOn(name))).verdict).toBe(Verdict.allowed);
    const [last] = await server.query(
      `SELECT pid FROM pg_stat_activity WHERE application_name = 'headgate' AND query LIKE '%take_each%'
       ORDER BY query_start DESC LIMIT 1`,
    );
    process.kill(Number(last?.pid), "SIGSTOP");
    endWithTest(() => process.kill(Number(last?.pid), "SIGCONT"));
    expect((await settle(three, groupOn(name))).failure?.code).toBe("STORE_TIMEOUT");
  }
  expect((await settle(three, groupOn("third"))).verdict).toBe(Verdict.allowed);
  expect(itsReports.unknownGroups).toBe(0);
  // Their calls have been answered, and no other call fails meanwhile.
  await until("they are given up", () => itsReports.unknownGroups === 2);
  expect(itsReports.failures.map(({ code }) => code)).toEqual(["STORE_TIMEOUT", "STORE_TIMEOUT"]);
});

test("payments that waited for the disk outlive a crash", async () => {
  const { store: durable } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, waitsForDisk: true });
  expect((await settle(durable, groupOn("durable"))).verdict).toBe(Verdict.allowed);
  await server.kill();
  await server.restart();
  expect(await debtOf(server, "durable")).toBe(1);
});
