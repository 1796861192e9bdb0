// The whole service while its Redis hangs, dies and comes back, under load: answered by the rules' policies, counted, and
// nobody charged for an answer that was given without the store.

import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { type Reply, startTestApp, type TestApp } from "../support/test-app.ts";
import { LateWatch } from "../support/turn-watch.ts";

const AMOUNT = 1_000_000;
const RULES = `
domain: edge
descriptors:
  - { key: open, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year, algorithm: fixed_window } }
  - { key: deny, on_store_failure: deny, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year } }
  - { key: local, on_store_failure: local, rate_limit: { requests_per_unit: 5, unit: year } }
  - { key: error, on_store_failure: error, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year } }
`;
const STORE_DEADLINE_MS = 60;
/** The callers' deadline: far above the store's, so that a call that waits for a dead store would be found out. */
const CALL_DEADLINE_MS = 1_000;
const CALLERS = 16;

interface LoadResult {
  readonly calls: number;
  readonly failed: number;
  readonly degraded: number;
  readonly slowestMs: number;
  /** So long the machine kept callers and service from running. */
  readonly lateMs: number;
}

function isDegraded(reply: Reply): boolean {
  return JSON.stringify(reply.dynamic_metadata ?? {}).includes("degraded");
}

// The sleeps below are the lengths of the faults: a hang is a stretch of real time.

/** Callers one after another on one key until `until` is settled. */
async function load(app: TestApp, until: Promise<unknown>): Promise<LoadResult> {
  let isOver = false;
  void until.then(() => {
    isOver = true;
  });
  const result = { calls: 0, failed: 0, degraded: 0, slowestMs: 0 };
  const late = new LateWatch();
  const caller = async () => {
    while (!isOver) {
      const started = performance.now();
      result.calls++;
      try {
        if (isDegraded(await app.hit({ open: "x" }, CALL_DEADLINE_MS))) result.degraded++;
      } catch {
        result.failed++;
      }
      result.slowestMs = Math.max(result.slowestMs, performance.now() - started);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return { ...result, lateMs: late.stop() };
}

async function metric(app: TestApp, pattern: RegExp): Promise<number> {
  const text = await (await app.http("/metrics")).text();
  let sum = 0;
  for (const match of text.matchAll(new RegExp(pattern, "gm"))) sum += Number(match[1]);
  return sum;
}

async function paid(app: TestApp): Promise<number> {
  const entries = [{ key: "open", value: "x" }];
  const ask = () => app.ask({ domain: "edge", descriptors: [{ entries, hits_addend: { value: 0 } }] });
  let reply = await ask();
  // A store that a busy machine kept from answering has said nothing of the bucket.
  for (const end = performance.now() + 5_000; isDegraded(reply) && performance.now() < end; ) reply = await ask();
  return AMOUNT - (reply.statuses[0]?.limit_remaining ?? 0);
}

/** Waits until the store answers again; the breaker lets a probe through every now and then. */
async function untilHealed(app: TestApp): Promise<void> {
  const end = performance.now() + 5_000;
  while (performance.now() < end) {
    if (!isDegraded(await app.hit({ open: "healing" }))) return;
    await sleep(20);
  }
  throw new Error("the store was not used again within 5 s");
}

describe("the service on Redis", () => {
  let redis: RedisServer;
  let app: TestApp;
  beforeEach(async () => {
    redis = await RedisServer.start();
    app = await startTestApp(RULES, {
      REDIS_URL: `127.0.0.1:${redis.port}`,
      STORE_DEADLINE: `${STORE_DEADLINE_MS}ms`,
    });
  });
  afterEach(() => redis.resume());

  // Promise(outages): Every call is answered in time and counted as degraded; a call answered without the store is not charged.
  test("stopped for two seconds under load: every call is answered, counted, and charged only if the store answered", async () => {
    const faults = (async () => {
      await sleep(300);
      redis.pause();
      await sleep(2_000);
      redis.resume();
      await sleep(1_200);
    })();
    const result = await load(app, faults);
    await untilHealed(app);
    expect(result.failed).toBe(0);
    expect(result.slowestMs).toBeLessThan(CALL_DEADLINE_MS + result.lateMs);
    expect(result.degraded).toBeGreaterThan(0);
    expect(result.degraded).toBeLessThan(result.calls);
    expect(await paid(app)).toBe(result.calls - result.degraded);
    expect(await metric(app, /^headgate_degraded_total\{.*policy="allow".*\} (\d+)/)).toBeGreaterThanOrEqual(
      result.degraded,
    );
    expect(await metric(app, /^headgate_store_breaker_changes_total\{state="open"\} (\d+)/)).toBeGreaterThan(0);
    expect(await metric(app, /^headgate_store_breaker_changes_total\{state="closed"\} (\d+)/)).toBeGreaterThan(0);
    expect(app.log.filter((line) => line.includes("answered without the store")).length).toBeLessThan(20);
  });

  // Promise(outages): Each rule's policy decides, `allow` by default, and the answer says so.
  test("gone: each rule's policy decides, and the answer says so", async () => {
    await app.hit({ local: "a" });
    await redis.kill();
    expect(await app.hit({ open: "a" })).toMatchObject({ overall_code: "OK" });
    const denied = await app.hit({ deny: "a" });
    expect(denied.overall_code).toBe("OVER_LIMIT");
    expect(isDegraded(denied)).toBe(true);
    const local = [];
    for (let i = 0; i < 5; i++) local.push((await app.hit({ local: "a" })).overall_code);
    expect(local).toEqual(["OK", "OK", "OK", "OK", "OVER_LIMIT"]);
    await expect(app.hit({ error: "a" })).rejects.toMatchObject({
      code: 14,
      details: expect.stringContaining("SERVICE_STORE_FAILED"),
    });
    const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "error", value: "a" }] }] });
    expect((await app.http("/json", { method: "POST", body })).status).toBe(503);
    await expect.poll(async () => (await app.http("/readyz")).text()).toContain('"ready, degraded"');
  });
});

// Promise(outages): A process out of rotation because of its store returns by itself, even without calls.
test("with ON_STORE_FAILURE=error a process that was taken out of rotation while Redis hung comes back by itself", async () => {
  const redis = await RedisServer.start();
  const env = { REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "30ms", ON_STORE_FAILURE: "error" };
  const app = await startTestApp(RULES, env);
  const readiness = async () => (await app.http("/readyz")).status;
  try {
    await expect.poll(readiness).toBe(200);
    redis.pause();
    await expect
      .poll(async () => {
        await Promise.allSettled(Array.from({ length: 30 }, () => app.hit({ open: "a" })));
        return await readiness();
      })
      .toBe(503);
    redis.resume();
    await expect.poll(readiness, { timeout: 5_000 }).toBe(200);
    expect(isDegraded(await app.hit({ open: "a" }))).toBe(false);
  } finally {
    redis.resume();
    await app.stop();
    await redis.stop();
  }
});
