// The whole service on a Redis Cluster, under Sentinel and on two Redis servers, told by REDIS_URL and its companions.

import { beforeAll, describe, expect, test } from "vitest";
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

/** Ten calls of a user, with a global limit that never bites. */
const tenOfAUser = (unit: string) => `
domain: edge
global_limit: { requests_per_unit: 100000, unit: ${unit} }
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 10, unit: day } }
  - { key: strict, on_store_failure: deny, shadow_mode: true, rate_limit: { requests_per_unit: 10, unit: second } }
`;

/** How many of so many calls of a user pass, ten at a time. */
async function passedOf(app: TestApp, user: string, count: number): Promise<number> {
  let passed = 0;
  for (let i = 0; i < count; i += 10) {
    const replies = await Promise.all(Array.from({ length: 10 }, () => app.hit({ user })));
    passed += replies.filter(({ overall_code }) => overall_code === "OK").length;
  }
  return passed;
}

const THREE_OF_FIVE = ["OK", "OK", "OK", "OVER_LIMIT", "OVER_LIMIT"];

const open = (env: Readonly<Record<string, string>>) =>
  startTestApp(RULES, { STORE_DEADLINE: "2s", ON_STORE_FAILURE: "error", ...env });

describe("on a Redis Cluster", () => {
  let rig: ClusterRig;
  beforeAll(async () => {
    rig = await ClusterRig.start({ replicas: false, args: ["--cluster-require-full-coverage", "no"] });
  });

  test("a call over several nodes is paid whole or not at all", async () => {
    const url = `redis-cluster://${rig.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
    const app = await open({ REDIS_URL: url, DENIALS_MAX: "0" });
    expect((await app.http("/readyz")).status).toBe(200);
    expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
    expect(await fiveCalls(app, "b")).toEqual({ codes: THREE_OF_FIVE, left: 4 });
  });

  // The last one here: the node stays away.
  // Promise(outages): A missing answer affects only its own limits, whatever the policy, the rule and the shard.
  test("a node that is away lifts its own limits and no others", async () => {
    const env = { REDIS_URL: `redis-cluster://127.0.0.1:${rig.nodes[0]?.port}`, ON_STORE_FAILURE: "allow" };
    const prefix = { CACHE_KEY_PREFIX: "away:", DENIALS_MAX: "0" };
    const app = await startTestApp(tenOfAUser("day"), { STORE_DEADLINE: "2s", ...env, ...prefix });
    const users = Array.from({ length: 12 }, (_, i) => `u${i}`);
    for (const user of users) expect((await app.hit({ user })).overall_code).toBe("OK");
    const keys = await Promise.all(rig.nodes.map((node) => node.command("KEYS", "away:*") as Promise<string[]>));
    const ofGlobalLimit = keys.findIndex((all) => all.some((key) => !/user=|headgate:/.test(key)));
    await rig.nodes[ofGlobalLimit]?.kill();
    const passed = new Map<string, number>();
    for (const user of users) passed.set(user, await passedOf(app, user, 40));
    const isThere = (user: string) => keys[ofGlobalLimit]?.some((key) => key.includes(`user=${user}}`)) === true;
    const expected = users.map((user) => [user, isThere(user) ? 40 : 9] as const);
    expect(new Set(expected.map(([, count]) => count))).toEqual(new Set([40, 9]));
    expect(passed).toEqual(new Map(expected));
  });
});

describe("under Sentinel", () => {
  let rig: SentinelRig;
  beforeAll(async () => {
    rig = await SentinelRig.start();
  });

  test("limits hold on the primary, and a wrong name shows on the health page", async () => {
    const list = rig.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
    const app = await open({ REDIS_URL: `${rig.primaryName},${list}`, REDIS_TYPE: "SENTINEL" });
    expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
    const lost = await open({ REDIS_URL: `redis-sentinel://${list}/nobody` });
    const ready = await lost.http("/readyz");
    expect(ready.status).toBe(503);
    expect(await ready.text()).toContain("knows no primary called nobody");
  });
});

describe("with a second Redis", () => {
  let main: RedisServer;
  let second: RedisServer;
  beforeAll(async () => {
    main = await RedisServer.start();
    second = await RedisServer.start();
  });

  const env = () => ({
    REDIS_URL: `127.0.0.1:${main.port}`,
    REDIS_PERSECOND: "true",
    REDIS_PERSECOND_URL: `127.0.0.1:${second.port}`,
  });

  // Promise(redis): REDIS_PERSECOND keeps limits per second apart, also under COMPATIBILITY_MODE.
  test("limits per second lie there, all others here, and a call pays both or none", async () => {
    const app = await open({ ...env(), DENIALS_MAX: "0" });
    expect(await fiveCalls(app, "a")).toEqual({ codes: THREE_OF_FIVE, left: 7 });
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
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT"]);
    expect(await main.command("KEYS", "edge_*")).toEqual([expect.stringMatching(/^edge_slow_v_/)]);
    expect(await second.command("KEYS", "edge_*")).toEqual(
      expect.arrayContaining([expect.stringMatching(/^edge_fast_v_/)]),
    );
  });

  // Promise(outages): A missing answer affects only its own limits, whatever the policy, the rule and the shard.
  test("one that is away fails the calls that need it, and no others", async () => {
    const app = await open(env());
    await second.kill();
    await expect(app.ask(call("c"))).rejects.toMatchObject({ code: 14 });
    const one = await app.ask({ domain: "edge", descriptors: [{ entries: [{ key: "path", value: "/other" }] }] });
    expect(one.overall_code).toBe("OK");
    await second.restart();
  });

  test("one that is away lifts its own limits and no others, and a shadow rule refuses nothing", async () => {
    const app = await startTestApp(tenOfAUser("second"), { STORE_DEADLINE: "2s", ...env(), CACHE_KEY_PREFIX: "away:" });
    await second.kill();
    expect(await passedOf(app, "a", 200)).toBe(10);
    expect((await app.hit({ strict: "x" })).overall_code).toBe("OK");
    await main.kill();
    expect(await passedOf(app, "b", 20)).toBe(20);
  });
});
