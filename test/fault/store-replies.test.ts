// Replies that are late, cut or lost: nothing is paid twice, what was answered without the store is given back.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { Mode, Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { whenUp } from "../support/when-up.ts";
import { type KindOptions, type KindServer, SERVER_KINDS } from "./server-kinds.ts";
import { groupOn, LEDGER, type Reports, settle, until } from "./store-rig.ts";

/** Long enough for a server on a busy machine to answer. */
const DEADLINE_MS = 250;
/** Where silence is what is tested. */
const SHORT_DEADLINE_MS = 30;

describe.each(SERVER_KINDS)("$name:", ({ start, refundsInSteps }) => {
  let server: KindServer;
  let proxy: FaultProxy;
  let store: SharedStore;
  let reports: Reports;

  beforeAll(async () => {
    server = await start();
  }, 60_000);
  beforeEach(async () => {
    await server.flush();
    proxy = await FaultProxy.start(server.port);
    ({ store, reports } = await openThrough({ deadlineMs: DEADLINE_MS }));
  });
  afterEach(() => proxy.release());

  const openThrough = (options: KindOptions) => server.open({ port: proxy.port, isQuiet: true, ...options });
  const debtOf = async (key: string) => (await server.debts()).get(key) ?? 0;
  const answers = (asked: SharedStore) =>
    until("it answers", async () => (await settle(asked, groupOn("other"))).verdict === Verdict.allowed);

  // Promise(outages): Every call is answered in time and counted as degraded; a call answered without the store is not charged.
  test("a payment whose reply comes after the call was answered is given back", async () => {
    await settle(store, groupOn("k", LEDGER, 5));
    proxy.hold();
    const group = await settle(store, groupOn("k", LEDGER, 7));
    expect(group.failure?.code).toBe("STORE_TIMEOUT");
    expect(await debtOf("k")).toBe(12);
    proxy.release();
    await until("it is given back", async () => (await debtOf("k")) === 5);
    await until("that is known here, too", () => reports.takesGivenBack === 1);
    expect(reports.unknownGroups).toBe(0);
  });

  test("a late reply of a peek or a refund gives nothing back", async () => {
    await settle(store, groupOn("k", LEDGER, 5));
    proxy.hold();
    const groups = [Mode.refund, Mode.peek].map((mode) => {
      const group = groupOn("k", LEDGER, 2);
      for (const take of group.takes) take.mode = mode;
      return group;
    });
    await Promise.all(groups.map((group) => settle(store, group)));
    proxy.release();
    await answers(store);
    expect(await debtOf("k")).toBe(refundsInSteps ? 5 : 3);
    expect(reports.takesGivenBack).toBe(0);
  });

  test("a late reply never writes into a group that serves another call", async () => {
    proxy.hold();
    const group = groupOn("k", LEDGER, 7);
    const ended = settle(store, group);
    await until("it is paid", async () => (await debtOf("k")) === 7);
    group.reset();
    const take = group.add(LEDGER);
    take.bucketKey = "next";
    proxy.release();
    await until("it is given back", () => reports.takesGivenBack === 1);
    expect(take).toMatchObject({ paid: false, outcome: 0, remaining: 0 });
    expect(group.verdict).toBe(Verdict.pending);
    expect(await debtOf("k")).toBe(0);
    await Promise.race([ended, sleep(DEADLINE_MS * 2)]);
    expect(group.verdict).toBe(Verdict.pending);
  });

  test("a reply that is cut is counted as unknown, not repeated and not given back", async () => {
    proxy.cutAfter(20);
    const group = await settle(store, groupOn("k", LEDGER, 7));
    expect(group).toMatchObject({ verdict: Verdict.failed, failure: { code: "STORE_UNREACHABLE" } });
    expect(await whenUp(store, 20_000)).toBe(true);
    expect((await settle(store, groupOn("k", LEDGER, 1))).verdict).toBe(Verdict.allowed);
    expect(await debtOf("k")).toBe(8);
    expect(reports.unknownGroups).toBe(1);
    expect(reports.takesGivenBack).toBe(0);
  });

  test("connections cut with takes under way fail them at once, and nothing is sent again", async () => {
    const patient = await openThrough({ deadlineMs: 10_000 });
    proxy.hold();
    const settled = Promise.all(Array.from({ length: 10 }, () => settle(patient.store, groupOn("k"))));
    await until("all were paid", async () => (await debtOf("k")) === 10);
    proxy.cutAll();
    const groups = await settled;
    expect(groups.every(({ failure }) => failure?.code === "STORE_UNREACHABLE")).toBe(true);
    expect(patient.reports.unknownGroups).toBe(10);
    proxy.release();
    expect(await whenUp(patient.store, 20_000)).toBe(true);
    await settle(patient.store, groupOn("other"));
    expect(await debtOf("k")).toBe(10);
  });

  test("an event loop that is late does not make an answered take look lost", async () => {
    // Not through the proxy, which lives in this process and would be late as well.
    const deadlineMs = DEADLINE_MS * 6;
    const direct = await openThrough({ port: server.port, deadlineMs });
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
    expect(await debtOf("k")).toBe(0);
  });

  test("a call's own deadline counts if it is shorter than the store's", async () => {
    // Far apart, so that a busy machine neither sends the call after its deadline nor answers it as late as the store's.
    const slow = await openThrough({ deadlineMs: 10_000 });
    proxy.hold();
    const group = groupOn("k");
    const startMs = performance.now();
    group.deadlineUs = new SystemClock().nowUs() + 200_000;
    expect((await settle(slow.store, group)).failure?.code).toBe("STORE_TIMEOUT");
    expect(performance.now() - startMs).toBeLessThan(10_000);
  });

  test("a connection that is silent for too long is given up, and a new one answers", async () => {
    const impatient = await openThrough({ deadlineMs: SHORT_DEADLINE_MS, silenceMsMax: 150 });
    proxy.hold();
    await until("it is given up", async () => {
      await settle(impatient.store, groupOn("k"));
      return impatient.store.trouble()?.endsWith("has not answered for 0.15 seconds") === true;
    });
    proxy.release();
    expect(await whenUp(impatient.store, 20_000)).toBe(true);
    await answers(impatient.store);
    expect(impatient.reports.unknownGroups).toBeGreaterThan(0);
    expect(impatient.reports.takesGivenBack).toBe(0);
  });
});
