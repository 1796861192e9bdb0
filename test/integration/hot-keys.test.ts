// One hot bucket, three processes' worth of stores on one real Redis, each put together as the service does it: what is
// granted stays within the bound of each way to share, and Redis is asked far less often than there are takes.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { Algorithm, type Limit, Sync } from "../../src/engine/domain/limit.ts";
import { Mode, Source, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { type OpenedStore, openStore } from "../../src/process/app/open-store.ts";
import { readSettings } from "../../src/process/settings.ts";
import type { Store } from "../../src/stores/store.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";

const PROCESSES = 3;
const CALLERS = 8;
const RUN_MS = 1_500;
const BURST = 600;
const RATE = 600;
const PERIOD_MS = 100;

const clock = new SystemClock();
let server: RedisServer;
let opened: OpenedStore[];
let stores: Store[];
beforeAll(async () => {
  server = await RedisServer.start();
  opened = openStores(PROCESSES);
  stores = opened.map(({ store }) => store);
  await countEachOther();
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await server.stop();
});

function openStores(count: number, port = server.port): OpenedStore[] {
  const settings = readSettings({
    REDIS_URL: `127.0.0.1:${port}`,
    // The machine of a test may be slow; no call may be answered without the store here.
    STORE_DEADLINE: "5s",
    SYNC_PERIOD: `${PERIOD_MS}ms`,
  });
  return Array.from({ length: count }, () => openStore({ settings, clock, observer: SILENT_STORE_OBSERVER }));
}

/** Polls, because connecting tells nobody. */
async function until(holds: () => boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`waited in vain: ${opened.map(({ health }) => health.trouble())}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The first question has a process count; some seconds later all have counted all, and lease. */
async function countEachOther(): Promise<void> {
  const isCounted = ({ processes }: OpenedStore) => processes.sureCount() === PROCESSES && processes.index() >= 0;
  await until(() => opened.map(isCounted).every(Boolean));
}

async function scriptCalls(): Promise<number> {
  const text = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(text)?.[1] ?? 0);
}

interface Counts {
  takes: number;
  granted: number;
  fromMemory: number;
  failed: number;
}

/** Callers of each process ask as fast as answers come; between calls others have their turn. */
async function hammer(limit: Limit, by = stores): Promise<Counts & { elapsedS: number; calls: number }> {
  const counts: Counts = { takes: 0, granted: 0, fromMemory: 0, failed: 0 };
  const callsBefore = await scriptCalls();
  const started = performance.now();
  const caller = async (store: Store) => {
    const group = new TakeGroup();
    while (performance.now() - started < RUN_MS) {
      group.reset();
      fillGroup(group, [{ limit, identity: `hot:${limit.policy.sync}:${limit.algorithm}` }], "", false);
      await new Promise<void>((resolve) => {
        if (store.take(group, { settled: () => resolve() })) setImmediate(resolve);
      });
      counts.takes++;
      if (group.verdict === Verdict.allowed) counts.granted++;
      if (group.verdict === Verdict.failed) counts.failed++;
      if (group.source !== Source.store) counts.fromMemory++;
    }
  };
  await Promise.all(by.flatMap((store) => Array.from({ length: CALLERS }, () => caller(store))));
  return { ...counts, elapsedS: (performance.now() - started) / 1_000, calls: (await scriptCalls()) - callsBefore };
}

describe("a hot bucket of three processes on one Redis", () => {
  test("exact: grants what the rule says, refuses from memory", async () => {
    const run = await hammer(makeLimit({ amount: RATE, burst: BURST }));
    expect(run.failed).toBe(0);
    expect(run.granted).toBeLessThanOrEqual(BURST + RATE * run.elapsedS);
    expect(run.granted).toBeGreaterThan(BURST);
    expect(run.calls).toBeLessThan(run.takes / 2);
  });

  test("share: grants no more than the rule says, without Redis", async () => {
    const run = await hammer(makeLimit({ amount: RATE, burst: BURST, sync: Sync.share }));
    expect(run.granted).toBeLessThanOrEqual(BURST + RATE * run.elapsedS);
    expect(run.granted).toBeGreaterThanOrEqual(BURST);
    expect(run.calls).toBe(0);
  });

  // Promise(hot): The bounds of `sync` hold for three processes on one Redis.
  test("lease: grants at most 1.25 x burst + rate x time, with fewer calls than takes", async () => {
    const run = await hammer(makeLimit({ amount: RATE, burst: BURST, sync: Sync.lease }));
    expect(run.failed).toBe(0);
    expect(run.granted).toBeLessThanOrEqual(1.25 * BURST + RATE * run.elapsedS);
    expect(run.granted).toBeGreaterThan(BURST);
    expect(run.calls).toBeLessThan(run.takes / 4);
  });

  test("periodic: grants at most N x (burst + rate x two periods) more, with a few calls per period", async () => {
    const run = await hammer(makeLimit({ amount: RATE, burst: BURST, sync: Sync.periodic }));
    expect(run.failed).toBe(0);
    const over = PROCESSES * (BURST + (RATE * 2 * PERIOD_MS) / 1_000);
    expect(run.granted).toBeLessThanOrEqual(BURST + RATE * run.elapsedS + over);
    expect(run.granted).toBeGreaterThan(BURST);
    expect(run.calls).toBeLessThan(PROCESSES * (2 * CALLERS + (4 * run.elapsedS * 1_000) / PERIOD_MS));
  });

  test("a Redis that hangs: shares go on, leases end, periodic exchange fails like any take after two periods", async () => {
    const [store] = stores as [Store];
    const limits = [Sync.share, Sync.lease, Sync.periodic].map((sync) =>
      makeLimit({ amount: RATE, burst: BURST, sync, name: `${sync}`, keySuffix: `}|tb/1/${sync}` }),
    );
    const ask = async (limit: Limit) => {
      const group = new TakeGroup();
      fillGroup(group, [{ limit }], "", false);
      group.deadlineUs = clock.nowUs() + 300_000;
      await new Promise<void>((resolve) => {
        if (store.take(group, { settled: () => resolve() })) resolve();
      });
      return group.verdict;
    };
    const askAll = () => Promise.all(limits.map(ask));
    for (let i = 0; i < 3; i++) expect(await askAll()).toEqual([1, 1, 1]);
    server.pause();
    try {
      expect(await askAll()).toEqual([1, 1, 1]);
      // Longer than a lease and than two periods.
      await new Promise((resolve) => setTimeout(resolve, 400));
      expect(await askAll()).toEqual([Verdict.allowed, Verdict.failed, Verdict.failed]);
    } finally {
      server.resume();
    }
  });

  test("what was leased and not spent comes back when a process ends", async () => {
    const limit = makeLimit({ amount: 600, burst: 600, windowSeconds: 86_400, sync: Sync.lease });
    const exact = { ...limit, policy: { ...limit.policy, sync: Sync.exact } };
    const ask = async (store: Store, of: Limit, mode: Mode) => {
      const group = new TakeGroup();
      fillGroup(group, [{ limit: of, mode }], "", false);
      await new Promise<void>((resolve) => {
        if (store.take(group, { settled: () => resolve() })) resolve();
      });
      return group;
    };
    const [one, other] = stores as [Store, Store];
    for (let i = 0; i < 5; i++) await ask(one, limit, Mode.pay);
    expect((await ask(other, exact, Mode.peek)).takes[0]?.remaining).toBeLessThan(595);
    await one.close();
    expect((await ask(other, exact, Mode.peek)).takes[0]?.remaining).toBe(595);
  });
});

describe("a cold bucket of two processes that Redis answers some milliseconds late", () => {
  let proxy: FaultProxy;
  let late: Store[];
  beforeAll(async () => {
    proxy = await FaultProxy.start(server.port);
    proxy.begin({ kind: "delay", ms: 5, jitterMs: 5 });
    const open = openStores(2, proxy.port);
    late = open.map(({ store }) => store);
    await until(() => open.every(({ health }) => health.trouble() === undefined));
  });
  afterAll(async () => {
    await Promise.all(late.map((store) => store.close()));
    await proxy.stop();
  });

  test.each([
    { name: "fixed window", algorithm: Algorithm.fixedWindow },
    { name: "sliding window", algorithm: Algorithm.slidingWindow },
    { name: "sliding log", algorithm: Algorithm.slidingLog },
  ])("periodic: grants at most N times the limit in each $name", async ({ algorithm }) => {
    const amount = 100;
    const startS = Math.floor(clock.nowUs() / 1_000_000);
    const run = await hammer(makeLimit({ algorithm, amount, sync: Sync.periodic }), late);
    const windows = Math.floor(clock.nowUs() / 1_000_000) - startS + 1;
    expect(run.failed).toBe(0);
    expect(run.granted).toBeLessThanOrEqual(windows * late.length * amount);
    expect(run.fromMemory).toBeGreaterThan(run.takes / 2);
  });

  test("periodic: grants no more of a token bucket than one process alone for each of them", async () => {
    const run = await hammer(makeLimit({ amount: 50, burst: 100, sync: Sync.periodic }), late);
    expect(run.failed).toBe(0);
    expect(run.granted).toBeLessThanOrEqual(late.length * (100 + 50 * run.elapsedS));
  });
});

describe("three services on one Redis", () => {
  test("grant within the bound of a lease, and say where an answer came from", async () => {
    const rulesDir = temporaryFolder("headgate-rules");
    const limit = `{ tokens_per_second: ${RATE}, burst: ${BURST}, sync: lease }`;
    await writeFile(join(rulesDir, "rules.yaml"), `domain: edge\ndescriptors: [{ key: hot, rate_limit: ${limit} }]\n`);
    const env = { RULES_DIR: rulesDir, REDIS_URL: `127.0.0.1:${server.port}`, STORE_DEADLINE: "5s" };
    const services = await Promise.all(
      Array.from({ length: PROCESSES }, () => startService({ ...env, RESPONSE_DYNAMIC_METADATA: "true" })),
    );
    const clients = services.map(({ grpcPort }) => openClient(`127.0.0.1:${grpcPort}`));
    try {
      const request = { domain: "edge", descriptors: [{ entries: [{ key: "hot", value: "x" }] }] };
      const sources = new Set<string>();
      const ask = async (client: (typeof clients)[number]) => {
        const reply = await askOnce(client, request);
        const metadata = JSON.stringify(reply.dynamic_metadata);
        for (const source of ["store", "lease"]) if (metadata.includes(`"${source}"`)) sources.add(source);
        return reply.overall_code === "OK";
      };
      // Leases begin when all have counted each other, some seconds after the start, and the bucket must have room for them.
      while (!sources.has("lease")) {
        await Promise.all(clients.map(ask));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      // What calls bring along is leased as the rule says that it stands in for.
      const limit = { requests_per_unit: 1_000_000, unit: "HOUR" };
      const brings = { domain: "edge", descriptors: [{ entries: [{ key: "hot", value: "brings" }], limit }] };
      const sourceOf = async (client: (typeof clients)[number]) =>
        JSON.stringify((await askOnce(client, brings)).dynamic_metadata);
      await expect.poll(() => sourceOf(clients[0] as (typeof clients)[number]), { interval: 1 }).toContain('"lease"');
      const startedMs = performance.now();
      let granted = 0;
      const caller = async (client: (typeof clients)[number]) => {
        // A slow machine needs longer to ask for more than one burst.
        while (performance.now() - startedMs < RUN_MS || granted <= BURST) if (await ask(client)) granted++;
      };
      await Promise.all(clients.flatMap((client) => Array.from({ length: 6 }, () => caller(client))));
      const elapsedS = (performance.now() - startedMs) / 1_000;
      expect(granted).toBeLessThanOrEqual(1.25 * BURST + RATE * elapsedS);
      expect(granted).toBeGreaterThan(BURST);
      expect([...sources]).toEqual(expect.arrayContaining(["store", "lease"]));
    } finally {
      for (const client of clients) client.close();
      await Promise.all(services.map((service) => service.stop()));
    }
  });
});
