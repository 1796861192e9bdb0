// The scripts that the overlay redis-sentinel runs in its pods, with real servers on three addresses of this machine: who is
// primary, who takes over, and that Headgate goes on counting where the others went on.

import { afterAll, beforeAll, expect, test } from "vitest";
import { askRedis, countOnPods, RedisPod, ReplicasInStep, startOnPods } from "../support/redis-pods.ts";
import { freePort } from "../support/redis-server.ts";
import type { TestApp } from "../support/test-app.ts";

const HOSTS = ["127.0.0.21", "127.0.0.22", "127.0.0.23"] as const;
const WITHIN = { timeout: 60_000, interval: 100 };

let ports: { readonly redis: number; readonly sentinel: number };
let pods: readonly RedisPod[] = [];
let app: TestApp;

/** The roles that the servers have: the primary's host, and how many follow it. */
async function standing(): Promise<{ primary: string | undefined; replicas: number }> {
  const roles = await Promise.all(pods.map(({ host }) => askRedis(host, ports.redis, "role")));
  const lists = roles.map((role) => (Array.isArray(role) ? role.map(String) : []));
  const primaries = pods.filter((_, i) => lists[i]?.[0] === "master");
  const primary = primaries.length === 1 ? primaries[0]?.host : undefined;
  return { primary, replicas: lists.filter((role) => role[0] === "slave" && role[1] === primary).length };
}

/**
 * The one primary, once so many replicas have what it has. For a moment after a change there may be none, or two; on a busy machine
 * another one may take over meanwhile.
 */
async function primaryPod(inStep = 0): Promise<RedisPod> {
  const replicas = new ReplicasInStep(ports.redis);
  let primary: string | undefined;
  await expect
    .poll(async () => {
      ({ primary } = await standing());
      return primary === undefined ? -1 : inStep === 0 ? 0 : await replicas.of(primary);
    }, WITHIN)
    .toBe(inStep);
  return pods.find(({ host }) => host === primary) as RedisPod;
}

const count = (user: string) => countOnPods(app, user);

beforeAll(async () => {
  ports = { redis: await freePort(), sentinel: await freePort() };
  const env = {
    HOSTS: HOSTS.join(" "),
    REDIS_PORT: String(ports.redis),
    SENTINEL_PORT: String(ports.sentinel),
    DOWN_AFTER_MS: "1000",
  };
  pods = HOSTS.map((host) => {
    const bind = ["--bind", host];
    return new RedisPod({ component: "redis-sentinel", host, env, more: { redis: bind, sentinel: bind } });
  });
  for (const pod of pods) pod.start();
  const list = HOSTS.map((host) => `${host}:${ports.sentinel}`).join();
  app = await startOnPods(`redis-sentinel://${list}/headgate`);
}, 60_000);
afterAll(async () => {
  for (const pod of pods) await pod.kill();
});

test("the first pod begins as primary, the others follow it, and each sentinel knows the others", async () => {
  await expect.poll(standing, WITHIN).toEqual({ primary: HOSTS[0], replicas: 2 });
  for (const host of HOSTS) {
    await expect
      .poll(async () => String(await askRedis(host, ports.sentinel, "sentinel", "ckquorum", "headgate")), WITHIN)
      .toContain("OK 3 usable Sentinels");
  }
  expect(await count("ann")).toBe(1);
}, 180_000);

/** Resolves once each sentinel knows of so many replicas: it looks for them every ten seconds. */
async function allKnow(replicas: number): Promise<void> {
  for (const host of HOSTS) {
    const known = async () => {
      const list = await askRedis(host, ports.sentinel, "sentinel", "replicas", "headgate");
      return Array.isArray(list) ? list.length : 0;
    };
    await expect.poll(known, WITHIN).toBe(replicas);
  }
}

test("a replica that follows nobody who is there, and that no sentinel tells so, is to be started again", async () => {
  await allKnow(2);
  const inPlace = () => Promise.all(pods.map((pod) => pod.isInPlace()));
  expect(await inPlace()).toEqual([true, true, true]);
  const [, , stray] = pods as [RedisPod, RedisPod, RedisPod];
  await askRedis(stray.host, ports.redis, "replicaof", "127.0.0.29", String(ports.redis));
  expect(await inPlace()).toEqual([true, true, false]);
  await stray.kill();
  expect(await stray.isInPlace()).toBe(false);
  stray.start();
  await expect.poll(standing, WITHIN).toEqual({ primary: HOSTS[0], replicas: 2 });
  await expect.poll(inPlace, WITHIN).toEqual([true, true, true]);
}, 180_000);

test("a primary whose node goes is followed by another one, which knows the counts", async () => {
  await expect.poll(() => count("bob"), WITHIN).toBeGreaterThanOrEqual(3);
  const before = await count("bob");
  await allKnow(2);
  const lost = await primaryPod(2);
  await lost.kill();
  await expect.poll(standing, WITHIN).toMatchObject({ replicas: 1 });
  expect((await primaryPod()).host).not.toBe(lost.host);
  expect(await count("bob")).toBe(before + 1);

  lost.start();
  await expect.poll(standing, WITHIN).toMatchObject({ replicas: 2 });
  expect((await primaryPod()).host).not.toBe(lost.host);
  // It is the same sentinel as before, not one more.
  for (const host of HOSTS) {
    await expect
      .poll(async () => String(await askRedis(host, ports.sentinel, "sentinel", "ckquorum", "headgate")), WITHIN)
      .toContain("OK 3 usable Sentinels");
  }
}, 180_000);

test("a primary that comes again before anybody missed it does not empty its replicas", async () => {
  const before = await count("eve");
  await allKnow(2);
  const hasty = await primaryPod(2);
  await hasty.kill();
  hasty.start();
  await expect.poll(standing, WITHIN).toMatchObject({ replicas: 2 });
  expect((await primaryPod()).host).not.toBe(hasty.host);
  expect(await count("eve")).toBe(before + 1);
}, 180_000);

test("a primary that is asked to stop hands over first", async () => {
  const before = await count("joe");
  await allKnow(2);
  const leaving = await primaryPod(2);
  await leaving.handOver();
  for (const host of HOSTS.filter((one) => one !== leaving.host)) {
    const named = () => askRedis(host, ports.sentinel, "sentinel", "get-master-addr-by-name", "headgate");
    await expect.poll(named, WITHIN).not.toContain(leaving.host);
  }
  await leaving.kill();
  expect(await count("joe")).toBe(before + 1);
}, 180_000);
