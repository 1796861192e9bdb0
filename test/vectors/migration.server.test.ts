// Two Headgates on one Redis during a migration, with counters that envoyproxy/ratelimit has begun. What that service
// sends to Redis is recorded in test/fixtures/vectors: INCRBY and EXPIRE on keys of its own text.

import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import { type AskedRequest, startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: shop
descriptors:
  - key: tier
    rate_limit: { unit: day, requests_per_unit: 10 }
  - key: tier
    value: "trial*"
    share_threshold: true
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: bucket
    rate_limit: { tokens_per_second: 0.001, burst: 2 }
`;
const DAY = 86_400;

let redis: RedisServer;
let first: TestApp;
let second: TestApp;

beforeAll(async () => {
  redis = await RedisServer.start();
  const env = { COMPATIBILITY_MODE: "true", REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "1s" };
  [first, second] = await Promise.all([startTestApp(RULES, env), startTestApp(RULES, env)]);
});

afterAll(async () => {
  await Promise.all([first?.stop(), second?.stop()]);
  await redis?.stop();
});

beforeEach(async () => {
  await redis.flush();
});

// Promise(compatibility): Both services may count on one Redis.
test("goes on with a count that the other service has begun, and the other way round", async () => {
  const key = counterKey("shop_tier_gold_");
  await referenceCharges(key, 6);
  expect(await ask(first, "tier", "gold")).toMatchObject({ remaining: 3, code: "OK" });
  await referenceCharges(key, 1);
  expect(await ask(second, "tier", "gold")).toMatchObject({ remaining: 1, code: "OK" });
  expect(await redis.command("GET", key)).toBe("9");
});

test("two processes and the other service refuse together, and all go on charging", async () => {
  const key = counterKey("shop_tier_gold_");
  await referenceCharges(key, 9);
  expect(await ask(first, "tier", "gold")).toMatchObject({ code: "OK", remaining: 0 });
  expect(await ask(second, "tier", "gold")).toMatchObject({ code: "OVER_LIMIT", remaining: 0 });
  expect(await ask(first, "tier", "gold")).toMatchObject({ code: "OVER_LIMIT", remaining: 0 });
  expect(await referenceCharges(key, 1)).toBe(13);
});

test("values of a shared threshold meet in the other service's counter", async () => {
  await referenceCharges(counterKey("shop_tier_trial*_"), 3);
  expect(await ask(first, "tier", "trial-a")).toMatchObject({ code: "OK", remaining: 1 });
  expect(await ask(second, "tier", "trial-b")).toMatchObject({ code: "OK", remaining: 0 });
  expect(await ask(first, "tier", "trial-c")).toMatchObject({ code: "OVER_LIMIT" });
});

test("renews the lifetime on every hit: the window's length and up to 300 seconds more", async () => {
  const key = counterKey("shop_tier_gold_");
  await redis.command("SET", key, "1");
  await ask(first, "tier", "gold");
  const lives = Number(await redis.command("TTL", key));
  expect(lives).toBeGreaterThan(DAY - 5);
  expect(lives).toBeLessThanOrEqual(DAY + 300);
});

test("a limit that only Headgate knows stays all or nothing next to counters", async () => {
  const both: AskedRequest = {
    domain: "shop",
    descriptors: [{ entries: [{ key: "tier", value: "gold" }] }, { entries: [{ key: "bucket", value: "b" }] }],
  };
  await referenceCharges(counterKey("shop_tier_gold_"), 10);
  const refused = await first.ask(both);
  expect(refused.statuses.map(({ code, limit_remaining }) => [code, limit_remaining])).toEqual([
    ["OVER_LIMIT", 0],
    ["OK", 2],
  ]);
  // The counter was charged all the same, the bucket was not.
  expect(await redis.command("GET", counterKey("shop_tier_gold_"))).toBe("11");
  expect(await ask(second, "bucket", "b")).toMatchObject({ remaining: 1 });
});

test("a counter whose key holds something else is an error, and goes away with its window", async () => {
  const key = counterKey("shop_tier_gold_");
  await redis.command("SET", key, "abc");
  await expect(ask(first, "tier", "gold")).rejects.toMatchObject({ code: 14 });
  expect(await redis.command("GET", key)).toBe("abc");
  expect(Number(await redis.command("TTL", key))).toBeGreaterThan(0);
});

test("a refund gives hits back, never below zero, and makes no counter", async () => {
  const key = counterKey("shop_tier_gold_");
  const refund = (hits: number): AskedRequest => ({
    domain: "shop",
    descriptors: [{ entries: [{ key: "tier", value: "gold" }], hits_addend: { value: hits }, is_negative_hits: true }],
  });
  expect((await first.ask(refund(3))).statuses[0]).toMatchObject({ code: "OK", limit_remaining: 10 });
  expect(await redis.command("EXISTS", key)).toBe(0);
  await referenceCharges(key, 12);
  expect((await first.ask(refund(5))).statuses[0]).toMatchObject({ code: "OK", limit_remaining: 3 });
  expect((await second.ask(refund(50))).statuses[0]).toMatchObject({ code: "OK", limit_remaining: 10 });
  expect(await redis.command("GET", key)).toBe("0");
});

/** What the other service sends for a hit; resolves to the count. */
async function referenceCharges(key: string, hits: number): Promise<number> {
  const count = Number(await redis.command("INCRBY", key, hits));
  await redis.command("EXPIRE", key, DAY + 17);
  return count;
}

// The day may turn in the middle of a test once in a year of runs; the host's clock is what both services go by.
function counterKey(beginning: string): string {
  const nowS = Math.floor(Date.now() / 1000);
  return `${beginning}${nowS - (nowS % DAY)}`;
}

async function ask(app: TestApp, key: string, value: string): Promise<{ code: string; remaining: number }> {
  const { statuses } = await app.ask({ domain: "shop", descriptors: [{ entries: [{ key, value }] }] });
  const [status] = statuses;
  return { code: status?.code ?? "", remaining: status?.limit_remaining ?? -1 };
}
