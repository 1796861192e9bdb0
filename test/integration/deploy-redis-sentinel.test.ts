// The scripts that the overlay redis-sentinel runs in its pods, with real servers on three addresses of this machine: who is
// primary, who takes over, and that Headgate goes on counting where the others went on.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../support/redis-server.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const SCRIPTS = resolve(import.meta.dirname, "../../deploy/kubernetes/components/redis-sentinel");
const HOSTS = ["127.0.0.21", "127.0.0.22", "127.0.0.23"] as const;
const WITHIN = { timeout: 60_000, interval: 100 };
const RULES = `
domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 1000000, unit: day, algorithm: fixed_window } }
`;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

let ports: { readonly redis: number; readonly sentinel: number };

/** What runs in one pod. */
class Pod {
  readonly host: string;
  #children: ChildProcess[] = [];
  #folders: string[] = [];

  constructor(host: string) {
    this.host = host;
  }

  start(): void {
    this.#run("start-redis.sh", "--save", "", "--appendonly", "no", "--bind", this.host);
    this.#run("start-sentinel.sh", "--bind", this.host);
  }

  /** As a node that goes: at once, and with all that it wrote. */
  async kill(): Promise<void> {
    const ended = this.#children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    const exits = ended.map((child) => once(child, "exit"));
    for (const child of ended) child.kill("SIGKILL");
    await Promise.all(exits);
    for (const folder of this.#folders) rmSync(folder, { recursive: true, force: true });
    this.#children = [];
    this.#folders = [];
  }

  /** Runs what its container runs before it stops. */
  async handOver(): Promise<void> {
    await once(this.#spawn("hand-over.sh", []), "exit");
  }

  /** The role that its Redis has, and where its primary is; undefined if it does not answer. */
  async role(): Promise<readonly string[] | undefined> {
    const answer = await ask(this.host, ports.redis, ["role"]);
    return Array.isArray(answer) ? answer.slice(0, 2).map(String) : undefined;
  }

  #run(script: string, ...args: readonly string[]): void {
    this.#children.push(this.#spawn(script, args));
  }

  #spawn(script: string, args: readonly string[]): ChildProcess {
    const folder = mkdtempSync(join(tmpdir(), "headgate-pod-"));
    this.#folders.push(folder);
    const env = {
      ...process.env,
      SELF: this.host,
      HOSTS: HOSTS.join(" "),
      REDIS_PORT: String(ports.redis),
      SENTINEL_PORT: String(ports.sentinel),
      DATA_DIR: folder,
      DOWN_AFTER_MS: "1000",
    };
    const child = spawn("sh", [join(SCRIPTS, script), ...args], { env, stdio: "ignore" });
    running.add(child);
    child.once("exit", () => running.delete(child));
    return child;
  }
}

async function ask(host: string, port: number, command: readonly string[]): Promise<unknown> {
  const client = new Redis({ host, port, lazyConnect: true, retryStrategy: () => null, connectTimeout: 1_000 });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await client.call(command[0] ?? "", ...command.slice(1));
  } catch {
    return undefined;
  } finally {
    client.disconnect();
  }
}

const pods = HOSTS.map((host) => new Pod(host));
let app: TestApp;

/** The pods' roles: the primary's host, and how many follow it. */
async function standing(): Promise<{ primary: string | undefined; replicas: number }> {
  const roles = await Promise.all(pods.map((pod) => pod.role()));
  const primaries = pods.filter((_, i) => roles[i]?.[0] === "master");
  const primary = primaries.length === 1 ? primaries[0]?.host : undefined;
  return { primary, replicas: roles.filter((role) => role?.[0] === "slave" && role[1] === primary).length };
}

async function primaryPod(): Promise<Pod> {
  const { primary } = await standing();
  const pod = pods.find(({ host }) => host === primary);
  if (pod === undefined) throw new Error("there is no primary, or more than one");
  return pod;
}

/** Counts once more in a bucket, in Redis, as soon as that can be done; resolves to the count. */
async function count(user: string): Promise<number> {
  let remaining = 0;
  await expect
    .poll(async () => {
      const reply = await app.hit({ user }, 2_000);
      remaining = reply.statuses[0]?.limit_remaining ?? 0;
      return JSON.stringify(reply.dynamic_metadata ?? {});
    }, WITHIN)
    .not.toContain("degraded");
  return 1_000_000 - remaining;
}

async function inStep(): Promise<void> {
  const { host } = await primaryPod();
  await expect.poll(() => ask(host, ports.redis, ["wait", "2", "100"]), WITHIN).toBe(2);
}

beforeAll(async () => {
  ports = { redis: await freePort(), sentinel: await freePort() };
  for (const pod of pods) pod.start();
  const list = HOSTS.map((host) => `${host}:${ports.sentinel}`).join();
  app = await startTestApp(RULES, {
    REDIS_URL: `redis-sentinel://${list}/headgate`,
    STORE_DEADLINE: "500ms",
    DENIALS_MAX: "0",
  });
}, 60_000);
afterAll(async () => {
  await app.stop();
  for (const pod of pods) await pod.kill();
});

test("the first pod begins as primary, the others follow it, and each sentinel knows the others", async () => {
  await expect.poll(standing, WITHIN).toEqual({ primary: HOSTS[0], replicas: 2 });
  for (const host of HOSTS) {
    await expect
      .poll(async () => String(await ask(host, ports.sentinel, ["sentinel", "ckquorum", "headgate"])), WITHIN)
      .toContain("OK 3 usable Sentinels");
  }
  expect(await count("ann")).toBe(1);
}, 180_000);

test("a primary whose node goes is followed by another one, which knows the counts", async () => {
  await expect.poll(() => count("bob"), WITHIN).toBeGreaterThanOrEqual(3);
  const before = await count("bob");
  await inStep();
  const lost = await primaryPod();
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
      .poll(async () => String(await ask(host, ports.sentinel, ["sentinel", "ckquorum", "headgate"])), WITHIN)
      .toContain("OK 3 usable Sentinels");
  }
}, 180_000);

test("a primary that comes again before anybody missed it does not empty its replicas", async () => {
  const before = await count("eve");
  await inStep();
  const hasty = await primaryPod();
  await hasty.kill();
  hasty.start();
  await expect.poll(standing, WITHIN).toMatchObject({ replicas: 2 });
  expect((await primaryPod()).host).not.toBe(hasty.host);
  expect(await count("eve")).toBe(before + 1);
}, 180_000);

test("a primary that is asked to stop hands over first", async () => {
  const before = await count("joe");
  await inStep();
  const leaving = await primaryPod();
  await leaving.handOver();
  for (const host of HOSTS.filter((one) => one !== leaving.host)) {
    const named = () => ask(host, ports.sentinel, ["sentinel", "get-master-addr-by-name", "headgate"]);
    await expect.poll(named, WITHIN).not.toContain(leaving.host);
  }
  await leaving.kill();
  expect(await count("joe")).toBe(before + 1);
}, 180_000);
