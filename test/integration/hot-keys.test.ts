// One hot bucket, three processes' worth of stores on one real Redis, each put together as the service does it: what is
// granted stays within the bound of each `sync`, and Redis is asked far less often than there are takes.

import { beforeAll, describe, expect, test, vi } from "vitest";
import { SystemClock } from "../../src/base/clock.ts";
import { type Limit, Sync } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { Source, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { openStore } from "../../src/process/app/open-store.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { closedWithTest } from "../support/ends.ts";
import { RedisServer } from "../support/redis-server.ts";

type OpenedStore = Awaited<ReturnType<typeof openStore>>;

const PROCESSES = 3;
const CALLERS = 8;
const RUN_MS = 1_500;
const BURST = 600;
const RATE = 600;

const clock = new SystemClock();
let server: RedisServer;
let opened: OpenedStore[];
let stores: Store[];
beforeAll(async () => {
  server = await RedisServer.start();
  opened = await openStores(PROCESSES);
  stores = opened.map(({ store }) => store);
  // The first question has a process count, so all are asked; some seconds later all have counted all, and lease.
  const counts = () => opened.map(({ processes }) => processes.sureCount());
  const areCounted = () => counts().every((count) => count === PROCESSES);
  await vi.waitUntil(areCounted, { timeout: 20_000 });
});

function openStores(count: number, port = server.port): Promise<OpenedStore[]> {
  const settings = readSettings({
    REDIS_URL: `127.0.0.1:${port}`,
    // The machine of a test may be slow; no call may be answered without the store here.
    STORE_DEADLINE: "5s",
  });
  return Promise.all(
    Array.from({ length: count }, async () => {
      const opened = await openStore({ settings, clock, observer: SILENT_STORE_OBSERVER });
      closedWithTest(opened.store);
      return opened;
    }),
  );
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
        if (store.take(group, { answered: () => resolve() })) setImmediate(resolve);
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

  // Promise(hot): The bounds of `sync` hold for three processes on one Redis.
  test("lease: grants at most 1.25 x burst + rate x time, with fewer calls than takes", async () => {
    const run = await hammer(makeLimit({ amount: RATE, burst: BURST, sync: Sync.lease }));
    expect(run.failed).toBe(0);
    expect(run.granted).toBeLessThanOrEqual(1.25 * BURST + RATE * run.elapsedS);
    expect(run.granted).toBeGreaterThan(BURST);
    expect(run.calls).toBeLessThan(run.takes / 4);
  });
});
