// The whole service on a Redis Cluster, under Sentinel and on two Redis servers, told by REDIS_URL and its companions.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ClusterRig } from "../support/redis-cluster.ts";
import { SentinelRig } from "../support/redis-sentinel.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
global_limit: { requests_per_unit: 100, unit: hour, algorithm: fixed_window }
descriptors:
  - key: tenant
    rate_limits:
      - { name: often, requests_per_unit: 50, unit: second }
      - { name: daily, requests_per_unit: 3, unit: day, algorithm: fixed_window }
  - key: path
    rate_limit: { requests_per_unit: 10, unit: day, algorithm: fixed_window }
`;

const call = (tenant: string) => ({
  domain: "edge",
  descriptors: [{ entries: [{ key: "tenant", value: tenant }] }, { entries: [{ key: "path", value: "/" }] }],
});

/** Codes of five calls of one tenant, and what is left of the limit on the path that all tenants share. */
async function fiveCalls(app: TestApp, tenant: string) {
  const codes: string[] = [];
  let left = 0;
  for (let i = 0; i < 5; i++) {
    const reply = await app.ask(call(tenant));
    codes.push(reply.overall_code);
    left = reply.statuses[1]?.limit_remaining ?? -1;
  }
  return { codes, left };
}

const THREE_OF_FIVE = ["OK", "OK", "OK", "OVER_LIMIT", "OVER_LIMIT"];

async function withApp(env: Readonly<Record<string, string>>, use: (app: TestApp) => Promise<void>): Promise<void> {
  const app = await startTestApp(RULES, { STORE_DEADLINE: "2s", ON_STORE_FAILURE: "error", ...env });
  try {
    await use(app);
  } finally {
    await app.stop();
  }
}

describe("on a Redis Cluster", () => {
  let rig: ClusterRig;
  beforeAll(async () => {
    rig = await ClusterRig.start({ replicas: false });
  });
  afterAll(() => rig.stop());

  test("a call over several nodes is paid whole or not at all", async () => {
    const url = `redis-cluster://${rig.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
    await withApp({ REDIS_URL: url, DENIALS_MAX: "0" }, async (app) => {
      expect((await app.http("/readyz")).status).toBe(200);
      expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
      expect(await fiveCalls(app, "b")).toEqual({ codes: THREE_OF_FIVE, left: 4 });
    });
  });

  test("refusals are repeated from memory all the same", async () => {
    const env = { REDIS_URL: `127.0.0.1:${rig.nodes[0]?.port}`, REDIS_TYPE: "CLUSTER", CACHE_KEY_PREFIX: "m:" };
    await withApp(env, async (app) => {
      expect((await fiveCalls(app, "a")).codes).toEqual(THREE_OF_FIVE);
      await app.ask(call("a"));
      const metrics = await (await app.http("/metrics")).text();
      expect(metrics).toMatch(/over_limit_with_local_cache\{[^}]*limit="daily"\} [1-9]/);
    });
  });

  test("the compatibility mode counts over all nodes", async () => {
    const env = { REDIS_URL: `redis-cluster://127.0.0.1:${rig.nodes[0]?.port}`, COMPATIBILITY_MODE: "true" };
    const rules = "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: hour, requests_per_unit: 2 } }]\n";
    const app = await startTestApp(rules, { STORE_DEADLINE: "2s", ...env });
    const entries = ["x", "y", "z"].map((value) => ({ entries: [{ key: "user", value }] }));
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push((await app.ask({ domain: "edge", descriptors: entries })).overall_code);
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT"]);
    await app.stop();
  });
});

describe("under Sentinel", () => {
  let rig: SentinelRig;
  beforeAll(async () => {
    rig = await SentinelRig.start();
  });
  afterAll(() => rig.stop());

  test("limits hold on the primary, and a wrong name shows on the health page", async () => {
    const list = rig.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
    await withApp({ REDIS_URL: `${rig.primaryName},${list}`, REDIS_TYPE: "SENTINEL" }, async (app) => {
      expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
    });
    await withApp({ REDIS_URL: `redis-sentinel://${list}/nobody` }, async (app) => {
      const ready = await app.http("/readyz");
      expect(ready.status).toBe(503);
      expect(await ready.text()).toContain("knows no primary called nobody");
    });
  });
});

describe("with a second Redis", () => {
  let main: RedisServer;
  let second: RedisServer;
  beforeAll(async () => {
    main = await RedisServer.start();
    second = await RedisServer.start();
  });
  afterAll(() => Promise.all([main.stop(), second.stop()]));

  const env = () => ({
    REDIS_URL: `127.0.0.1:${main.port}`,
    REDIS_PERSECOND: "true",
    REDIS_PERSECOND_URL: `127.0.0.1:${second.port}`,
  });

  test("limits per second lie there, all others here, and a call pays both or none", async () => {
    await withApp({ ...env(), DENIALS_MAX: "0" }, async (app) => {
      expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
    });
    expect(await main.command("KEYS", "*tenant=a*")).toEqual([expect.stringContaining("/daily")]);
    // Another second may have begun; then what was there is gone.
    const there = (await second.command("KEYS", "*")) as string[];
    expect(there.filter((key) => !key.includes("headgate:")).every((key) => key.includes("/1/often"))).toBe(true);
  });

  test("under COMPATIBILITY_MODE too", async () => {
    const rules = `domain: edge
descriptors:
  - { key: fast, rate_limit: { unit: second, requests_per_unit: 100 } }
  - { key: slow, rate_limit: { unit: hour, requests_per_unit: 2 } }
`;
    const app = await startTestApp(rules, { STORE_DEADLINE: "2s", COMPATIBILITY_MODE: "true", ...env() });
    const descriptors = ["fast", "slow"].map((key) => ({ entries: [{ key, value: "v" }] }));
    const codes = [];
    for (let i = 0; i < 3; i++) codes.push((await app.ask({ domain: "edge", descriptors })).overall_code);
    await app.stop();
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT"]);
    expect(await main.command("KEYS", "edge_*")).toEqual([expect.stringMatching(/^edge_slow_v_/)]);
    expect(await second.command("KEYS", "edge_*")).toEqual(
      expect.arrayContaining([expect.stringMatching(/^edge_fast_v_/)]),
    );
  });

  test("one that is away fails the calls that need it, and no others", async () => {
    await withApp(env(), async (app) => {
      await second.kill();
      await expect(app.ask(call("c"))).rejects.toMatchObject({ code: 14 });
      const one = await app.ask({ domain: "edge", descriptors: [{ entries: [{ key: "path", value: "/other" }] }] });
      expect(one.overall_code).toBe("OK");
      await second.restart();
    });
  });
});
