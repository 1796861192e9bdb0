// The whole service while its Redis is away or hangs: the rules' policies decide, the answers say so, and a process that its
// orchestrator took out of rotation returns by itself. What a store is charged meanwhile: store-away.test.ts, store-replies.test.ts.

import { expect, test } from "vitest";
import { endWithTest } from "../support/ends.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type Reply, startTestApp } from "../support/test-app.ts";

const AMOUNT = 1_000_000;
const RULES = `
domain: edge
descriptors:
  - { key: open, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year, algorithm: fixed_window } }
  - { key: deny, on_store_failure: deny, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year } }
  - { key: local, on_store_failure: local, rate_limit: { requests_per_unit: 5, unit: year } }
  - { key: error, on_store_failure: error, rate_limit: { requests_per_unit: ${AMOUNT}, unit: year } }
`;

function isDegraded(reply: Reply): boolean {
  return JSON.stringify(reply.dynamic_metadata ?? {}).includes("degraded");
}

// Promise(outages): Each rule's policy decides, `allow` by default, and the answer says so.
test("without Redis each rule's policy decides, and the answer says so", async () => {
  const redis = await RedisServer.start();
  const app = await startTestApp(RULES, { REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "60ms" });
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

// Promise(outages): A process out of rotation because of its store returns by itself, even without calls.
test("with ON_STORE_FAILURE=error a process that is out of rotation because Redis hangs returns by itself", async () => {
  const redis = await RedisServer.start();
  const env = { REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "30ms", ON_STORE_FAILURE: "error" };
  const app = await startTestApp(RULES, env);
  const readiness = async () => (await app.http("/readyz")).status;
  await expect.poll(readiness).toBe(200);
  redis.pause();
  endWithTest(() => redis.resume());
  await expect
    .poll(async () => {
      await Promise.allSettled(Array.from({ length: 30 }, () => app.hit({ open: "a" })));
      return await readiness();
    })
    .toBe(503);
  redis.resume();
  await expect.poll(readiness, { timeout: 5_000 }).toBe(200);
  expect(isDegraded(await app.hit({ open: "a" }))).toBe(false);
});
