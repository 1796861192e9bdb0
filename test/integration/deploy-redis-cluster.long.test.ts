// What the overlay redis-cluster runs in its pods, with real servers on six addresses of this machine: that they become a
// cluster by themselves and stay one, and that Headgate goes on counting meanwhile.

import { afterAll, beforeAll, expect, test } from "vitest";
import { askRedis, countOnPods, RedisPod, ReplicasInStep, startOnPods } from "../support/redis-pods.ts";
import { freePort } from "../support/redis-server.ts";
import type { TestApp } from "../support/test-app.ts";

const HOSTS = [31, 32, 33, 34, 35, 36].map((last) => `127.0.0.${last}`);
const WITHIN = { timeout: 60_000, interval: 200 };
/** The servers' own port is this much further up. */
const BUS = 10_000;
const USERS = Array.from({ length: 12 }, (_, i) => `user-${i}`);

let port: number;
let pods: readonly RedisPod[] = [];
let app: TestApp;

interface Member {
  readonly id: string;
  readonly host: string;
  readonly flags: string;
  /** The id of the primary that a replica follows. */
  readonly follows: string;
  readonly slots: number;
}

/** Members as the server of that host sees them. */
async function membersSeenBy(host: string): Promise<Member[]> {
  const lines = String((await askRedis(host, port, "cluster", "nodes")) ?? "").split("\n");
  return lines.filter(Boolean).map((line) => {
    const [id = "", address = "", flags = "", follows = "", , , , , ...slots] = line.split(" ");
    return { id, host: address.split(":")[0] ?? "", flags, follows, slots: slots.length };
  });
}

/** What the server of that host knows: primaries with slots, those of them that have a replica, replicas, and what is wrong with others. */
async function standing(host: string) {
  const members = await membersSeenBy(host);
  const alive = members.filter(({ flags }) => !/fail|noaddr|handshake/.test(flags));
  const info = String((await askRedis(host, port, "cluster", "info")) ?? "");
  const primaries = alive.filter(({ flags, slots }) => flags.includes("master") && slots > 0);
  const replicas = alive.filter(({ flags }) => flags.includes("slave"));
  return {
    primaries: primaries.length,
    followed: primaries.filter(({ id }) => replicas.some(({ follows }) => follows === id)).length,
    replicas: replicas.length,
    others: members.filter((member) => !alive.includes(member)).map((member) => `${member.host} ${member.flags}`),
    state: /cluster_state:(\w+)/.exec(info)?.[1] ?? "",
  };
}
const WHOLE = { primaries: 3, followed: 3, replicas: 3, others: [] as string[], state: "ok" };

/** A primary other than the first host, once its replica knows all that it does. On a busy machine another one may take over meanwhile. */
async function primaryInStep(): Promise<RedisPod> {
  const inStep = new ReplicasInStep(port);
  let primary: Member | undefined;
  await expect
    .poll(async () => {
      const seen = await membersSeenBy(HOSTS[0] ?? "");
      primary = seen.find(({ flags, slots, host }) => flags.includes("master") && slots > 0 && host !== HOSTS[0]);
      return primary === undefined ? 0 : await inStep.of(primary.host);
    }, WITHIN)
    .toBe(1);
  return pods.find(({ host }) => host === primary?.host) as RedisPod;
}

const count = (user: string) => countOnPods(app, user);

async function countAll(): Promise<number[]> {
  const counts: number[] = [];
  for (const user of USERS) counts.push(await count(user));
  return counts;
}

/** Resolves once all six servers are members in good standing in the eyes of each. */
async function whole(): Promise<void> {
  for (const pod of pods) if (!pod.isRunning) pod.start();
  for (const host of HOSTS) await expect.poll(() => standing(host), WITHIN).toEqual(WHOLE);
}

beforeAll(async () => {
  do port = await freePort();
  while (port + BUS > 65_000);
  const env = { HOSTS: HOSTS.join(" "), REDIS_PORT: String(port), PERIOD_SECONDS: "1" };
  pods = HOSTS.map((host) => {
    // On loopback alone a server must be told its address: what it sends comes from 127.0.0.1.
    const more = { redis: ["--bind", host, "--port", String(port), "--cluster-announce-ip", host] };
    return new RedisPod({ component: "redis-cluster", host, env, more });
  });
  for (const pod of pods) pod.start();
  const list = HOSTS.map((host) => `${host}:${port}`).join();
  app = await startOnPods(`redis-cluster://${list}`);
}, 60_000);
afterAll(async () => {
  for (const pod of pods) await pod.kill();
});

test("six new servers become three primaries with a replica each, by themselves, though one goes meanwhile", async () => {
  const [first = ""] = HOSTS;
  const last = pods.at(-1);
  await expect
    .poll(() => askRedis(first, port, "cluster", "info"), { ...WITHIN, interval: 20 })
    .toContain("cluster_known_nodes:6");
  await last?.kill();
  await whole();
  expect(await countAll()).toEqual(USERS.map(() => 1));
}, 180_000);

test.each([1, 2])(
  "a primary that has no replica gets one of another's, though that has %s too many",
  async (moved) => {
    await whole();
    const members = await membersSeenBy(HOSTS[0] ?? "");
    const [rich] = members.filter(({ flags, slots }) => flags.includes("master") && slots > 0);
    const others = members.filter(({ flags, follows }) => flags.includes("slave") && follows !== rich?.id);
    for (const { host } of others.slice(0, moved)) {
      await askRedis(host, port, "cluster", "replicate", rich?.id ?? "");
      // The server itself knows at once, the others when they hear of it.
      const own = (await membersSeenBy(host)).find(({ flags }) => flags.includes("myself"));
      expect(own?.follows).toBe(rich?.id);
    }
    await whole();
  },
  180_000,
);

test("a pod that goes and is made again is a member again, and the one that it was is forgotten", async () => {
  await whole();
  const [before = 0] = await countAll();
  const lost = await primaryInStep();
  await lost.kill();
  const [first = ""] = HOSTS;
  await expect.poll(() => standing(first), WITHIN).toMatchObject({ primaries: 3, replicas: 2, state: "ok" });
  expect(await countAll()).toEqual(USERS.map(() => before + 1));
  await whole();
  expect(await countAll()).toEqual(USERS.map(() => before + 2));
}, 180_000);

test("a primary that is asked to stop hands its slots over first, and no count is forgotten", async () => {
  await whole();
  const [before = 0] = await countAll();
  const leaving = await primaryInStep();
  await leaving.handOver();
  const own = (await membersSeenBy(leaving.host)).find(({ flags }) => flags.includes("myself"));
  expect(own?.flags).toContain("slave");
  expect(await countAll()).toEqual(USERS.map(() => before + 1));
}, 180_000);
