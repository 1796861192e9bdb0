// Replies that are late, cut or lost: nothing is paid twice, what was answered without the store is given back.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { SystemClock } from "../../src/core/clock.ts";
import { Mode, Verdict } from "../../src/core/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { whenUp } from "../support/when-up.ts";
import { areUp, debtOf, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, type Reports, settle, until } from "./store-rig.ts";

/** Long enough for a server on a busy machine to answer. */
const DEADLINE_MS = 250;
/** Where silence is what is tested. */
const SHORT_DEADLINE_MS = 30;

let server: PostgresServer;
let proxy: FaultProxy;
let store: SharedStore;
let reports: Reports;
/** Stores that a test has opened beside it. */
let others: SharedStore[] = [];

beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target() })).store.close();
}, 60_000);
beforeEach(async () => {
  await flush(server);
  proxy = await FaultProxy.start(server.port);
  const target = server.target({ port: proxy.port });
  ({ store, reports } = await openPostgresRig({ target, deadlineMs: DEADLINE_MS, connections: 1, sweeps: false }));
  // So that nothing but takes passes the proxy.
  await until("the connection beside it is up, too", () => areUp(server, 2));
});
afterEach(async () => {
  proxy.release();
  await Promise.all([store, ...others].map((each) => each.close()));
  others = [];
  await proxy.stop();
});
afterAll(() => server.stop());

// Promise(outages): Every call is answered in time and counted as degraded; a call answered without the store is not charged.
test("a payment whose reply comes after the call was answered is given back", async () => {
  await settle(store, groupOn("k", LEDGER, 5));
  proxy.hold();
  const group = await settle(store, groupOn("k", LEDGER, 7));
  expect(group.failure?.code).toBe("STORE_TIMEOUT");
  expect(await debtOf(server, "k")).toBe(12);
  proxy.release();
  await until("it is given back", async () => (await debtOf(server, "k")) === 5);
  await until("it is counted", () => reports.takesGivenBack === 1);
  expect(reports.unknownGroups).toBe(0);
});

test("a late reply of a peek or a refund gives nothing back", async () => {
  await settle(store, groupOn("k", LEDGER, 5));
  proxy.hold();
  const refund = groupOn("k", LEDGER, 2);
  const peek = groupOn("k", LEDGER, 2);
  for (const [group, mode] of [
    [refund, Mode.refund],
    [peek, Mode.peek],
  ] as const) {
    const take = group.takes[0];
    if (take !== undefined) take.mode = mode;
  }
  await Promise.all([settle(store, refund), settle(store, peek)]);
  proxy.release();
  await until("it answers", async () => (await settle(store, groupOn("other"))).verdict === Verdict.allowed);
  expect(await debtOf(server, "k")).toBe(3);
  expect(reports.takesGivenBack).toBe(0);
});

test("a late reply never writes into a group that serves another call", async () => {
  proxy.hold();
  const group = groupOn("k", LEDGER, 7);
  const ended = settle(store, group);
  await until("it is paid", async () => (await debtOf(server, "k")) === 7);
  group.reset();
  const take = group.add(LEDGER);
  take.bucketKey = "next";
  proxy.release();
  await until("it is given back", () => reports.takesGivenBack === 1);
  expect(take).toMatchObject({ paid: false, outcome: 0, remaining: 0 });
  expect(group.verdict).toBe(Verdict.pending);
  expect(await debtOf(server, "k")).toBe(0);
  await Promise.race([ended, sleep(DEADLINE_MS * 2)]);
  expect(group.verdict).toBe(Verdict.pending);
});

test("a reply that is cut is counted as unknown, not repeated and not given back", async () => {
  // Else the bytes that are counted might be those of a connection that is being opened.
  const idle = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'headgate' AND state = 'idle'";
  const quiet = `${idle} AND state_change < clock_timestamp() - interval '50 milliseconds'`;
  await until("both its connections are up and quiet", async () => (await server.query(quiet)).length === 2);
  proxy.cutAfter(20);
  const group = await settle(store, groupOn("k", LEDGER, 7));
  expect(group).toMatchObject({ verdict: Verdict.failed, failure: { code: "STORE_UNREACHABLE" } });
  expect(await whenUp(store, 20_000)).toBe(true);
  expect((await settle(store, groupOn("k", LEDGER, 1))).verdict).toBe(Verdict.allowed);
  expect(await debtOf(server, "k")).toBe(8);
  expect(reports.unknownGroups).toBe(1);
  expect(reports.takesGivenBack).toBe(0);
});

test("connections cut with takes under way fail them at once, and nothing is sent again", async () => {
  const target = server.target({ port: proxy.port });
  const patient = await openPostgresRig({ target, deadlineMs: 10_000, connections: 1, sweeps: false });
  proxy.hold();
  const settled = Promise.all(Array.from({ length: 10 }, () => settle(patient.store, groupOn("k"))));
  await until("all were paid", async () => (await debtOf(server, "k")) === 10);
  proxy.cutAll();
  const groups = await settled;
  expect(groups.every(({ failure }) => failure?.code === "STORE_UNREACHABLE")).toBe(true);
  expect(patient.reports.unknownGroups).toBe(10);
  proxy.release();
  expect(await whenUp(patient.store, 20_000)).toBe(true);
  await settle(patient.store, groupOn("other"));
  expect(await debtOf(server, "k")).toBe(10);
  await patient.store.close();
});

test("a connection that the server ends is replaced, and another one carries on meanwhile", async () => {
  const { store: two } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, connections: 2 });
  others.push(two);
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

test("an event loop that is late does not make an answered take look lost", async () => {
  // Not through the proxy, which lives in this process and would be late as well.
  const deadlineMs = DEADLINE_MS * 6;
  const direct = await openPostgresRig({ target: server.target(), deadlineMs, connections: 1 });
  others.push(direct.store);
  // The server answers once this process is busy, which it is until long after the take's deadline.
  server.pause();
  server.resumeAside(DEADLINE_MS / 2);
  const settled = settle(direct.store, groupOn("k"));
  setImmediate(() => {
    setImmediate(() => {
      const endMs = performance.now() + deadlineMs * 1.5;
      while (performance.now() < endMs);
    });
  });
  expect(await settled).toMatchObject({ verdict: Verdict.allowed, failure: undefined });
  expect(direct.reports.lateGroups).toBe(1);
  expect(direct.reports.failures).toEqual([]);
});

test("a call whose deadline passed before it could be sent pays nothing", async () => {
  const group = groupOn("k");
  group.deadlineUs = 1;
  expect((await settle(store, group)).failure?.code).toBe("STORE_TOO_LATE");
  await settle(store, groupOn("other"));
  expect(await debtOf(server, "k")).toBe(0);
});

test("a call's own deadline counts if it is shorter than the store's", async () => {
  // Far apart, so that a busy machine neither sends the call after its deadline nor answers it as late as the store's.
  const target = server.target({ port: proxy.port });
  const { store: slow } = await openPostgresRig({ target, deadlineMs: 10_000, connections: 1, sweeps: false });
  others.push(slow);
  proxy.hold();
  const group = groupOn("k");
  const startMs = performance.now();
  group.deadlineUs = new SystemClock().nowUs() + 200_000;
  expect((await settle(slow, group)).failure?.code).toBe("STORE_TIMEOUT");
  expect(performance.now() - startMs).toBeLessThan(10_000);
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

test("a connection that is silent for too long is given up, and a new one answers", async () => {
  const target = server.target({ port: proxy.port });
  const impatient = await openPostgresRig({ target, deadlineMs: SHORT_DEADLINE_MS, silenceMsMax: 150, connections: 1 });
  proxy.hold();
  await until("it is given up", async () => {
    await settle(impatient.store, groupOn("k"));
    return impatient.store.trouble()?.endsWith("has not answered for 0.15 seconds") === true;
  });
  proxy.release();
  expect(await whenUp(impatient.store, 20_000)).toBe(true);
  await until("it answers", async () => (await settle(impatient.store, groupOn("k"))).verdict === Verdict.allowed);
  expect(impatient.reports.unknownGroups).toBeGreaterThan(0);
  expect(impatient.reports.takesGivenBack).toBe(0);
  await impatient.store.close();
});

test("connections that are silent keep the others from no call, and are given up", async () => {
  const options = { target: server.target(), deadlineMs: DEADLINE_MS, silenceMsMax: 3_000, connections: 3 };
  const { store: three, reports: itsReports } = await openPostgresRig({ ...options, sweeps: false });
  const stopped: number[] = [];
  try {
    await until("all are up", () => areUp(server, 6));
    // Two, because no more than two calls of plain takes are under way.
    for (const name of ["first", "second"]) {
      expect((await settle(three, groupOn(name))).verdict).toBe(Verdict.allowed);
      const [last] = await server.query(
        `SELECT pid FROM pg_stat_activity WHERE application_name = 'headgate' AND query LIKE '%take_each%'
         ORDER BY query_start DESC LIMIT 1`,
      );
      stopped.push(Number(last?.pid));
      process.kill(Number(last?.pid), "SIGSTOP");
      expect((await settle(three, groupOn(name))).failure?.code).toBe("STORE_TIMEOUT");
    }
    expect((await settle(three, groupOn("third"))).verdict).toBe(Verdict.allowed);
    expect(itsReports.unknownGroups).toBe(0);
    // Their calls have been answered, and no other call fails meanwhile.
    await until("they are given up", () => itsReports.unknownGroups === 2);
    expect(itsReports.failures.map(({ code }) => code)).toEqual(["STORE_TIMEOUT", "STORE_TIMEOUT"]);
  } finally {
    for (const pid of stopped) process.kill(pid, "SIGCONT");
    await three.close();
  }
});

test("too many takes under way are refused at once", async () => {
  const target = server.target({ port: proxy.port });
  const bounded = await openPostgresRig({ target, deadlineMs: DEADLINE_MS, takesInFlightMax: 10, connections: 1 });
  proxy.hold();
  const groups = await Promise.all(Array.from({ length: 15 }, () => settle(bounded.store, groupOn("k"))));
  const codes = groups.map(({ failure }) => failure?.code);
  expect(codes.filter((code) => code === "STORE_QUEUE_FULL")).toHaveLength(5);
  expect(codes.filter((code) => code === "STORE_TIMEOUT")).toHaveLength(10);
  proxy.release();
  await bounded.store.close();
});
