// Several workers behind Envoy (WORKERS): neither a worker that dies nor a rolling restart of whole fleets costs more than the
// calls under way.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { freePort, RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import type { ShownWorker } from "../support/worker-rig.ts";
import { bootstrapText, type Config, cluster, fromHeader, listener, route } from "./support/bootstrap.ts";
import { Caller, Load } from "./support/caller.ts";
import { Envoy } from "./support/envoy-process.ts";
import { startHeadgate } from "./support/rig.ts";
import { startUpstream, type Upstream } from "./support/upstream.ts";

const RULES = `
domain: edge
descriptors:
  - { key: many, rate_limit: { requests_per_unit: 4000000, unit: hour } }
`;
const ROUTES = [route({ prefix: "/many", rateLimits: [{ actions: [fromHeader("x-case", "many")] }] })];
const HEADERS = { "x-case": "x" };
const CALLERS = 8;
const WORKERS = 2;
/** A stream for each connection: as many connections as calls under way, as an Envoy with many threads has them. */
const SEVERAL_CONNECTIONS = { max_concurrent_streams: 1 };
/** Stands for what takes an instance out of a Service's endpoints once its readiness says no. */
const PROBED = {
  health_checks: [
    {
      timeout: "1s",
      interval: "0.05s",
      no_traffic_interval: "0.05s",
      unhealthy_threshold: 1,
      healthy_threshold: 1,
      grpc_health_check: { service_name: "ratelimit" },
    },
  ],
  common_lb_config: { healthy_panic_threshold: { value: 0 }, update_merge_window: "0s" },
};

let redis: RedisServer;
let upstream: Upstream;
beforeAll(async () => {
  redis = await RedisServer.start();
  upstream = await startUpstream();
});
beforeEach(() => redis.flush());

function startFleet(port: number): Promise<ServiceProcess> {
  // The only transport of several workers, also where the suite runs with the other one.
  const transport = { GRPC_TRANSPORT: "fast-lane", GRPC_PORT: String(port) };
  const env = { ...transport, WORKERS: String(WORKERS), STORE_DEADLINE: "5s", SHUTDOWN_DELAY: "500ms" };
  return startHeadgate(redis, RULES, env);
}

/** Envoy that fails open or closed before fleets on these ports. */
async function envoyBefore(ports: readonly number[], failureModeDeny: boolean, more: Config = {}) {
  const filter = { timeout: "5s", failure_mode_deny: failureModeDeny, status_on_error: { code: "ServiceUnavailable" } };
  const envoy = await Envoy.start(
    bootstrapText({
      listeners: [listener({ name: "edge", routes: ROUTES, filter })],
      clusters: [
        cluster({ name: "headgate", endpoints: ports, http2: true, http2Options: SEVERAL_CONNECTIONS, more }),
        cluster({ name: "upstream", endpoints: [upstream.port] }),
      ],
    }),
  );
  return { envoy, caller: new Caller(envoy.port("edge")) };
}

async function workersOf({ httpPort }: ServiceProcess): Promise<readonly ShownWorker[]> {
  const answer = await fetch(`http://127.0.0.1:${httpPort}/config`);
  return ((await answer.json()) as { workers: readonly ShownWorker[] }).workers;
}

async function errorsOf(envoy: Envoy): Promise<number> {
  return (await envoy.counters("cluster.upstream.ratelimit.")).error ?? 0;
}

const healthy = (envoy: Envoy, count: number) =>
  expect.poll(async () => (await envoy.counters("cluster.headgate.")).membership_healthy).toBe(count);

// Promise(processes): A worker that dies costs Envoy the decisions under way, and no request fails.
test("a worker that dies costs the calls under way their decision, and nobody an error", async () => {
  const fleet = await startFleet(await freePort());
  const { envoy, caller } = await envoyBefore([fleet.grpcPort], false);
  const load = new Load(CALLERS, () => caller.get("/many", HEADERS));
  await expect.poll(() => load.total, { timeout: 20_000 }).toBeGreaterThan(100);
  fleet.act(1, "throw");
  await expect.poll(() => fleet.log.some((line) => line.includes("a worker exited"))).toBe(true);
  const replaced = async () => (await workersOf(fleet)).map(({ status }) => status);
  await expect.poll(replaced, { timeout: 20_000 }).toEqual(Array(WORKERS).fill("ready"));
  await sleep(200); // and some requests with both
  await load.stop();
  expect([...load.statuses.keys()]).toEqual([200]);
  // One call of each caller at most: who asks again gets to the other worker.
  expect(await errorsOf(envoy)).toBeLessThanOrEqual(CALLERS);
});

// Promise(processes): Callers do not notice a rolling restart.
test("fleets are restarted one after the other without anybody noticing, though every failed call would be a 503", async () => {
  const ports = [await freePort(), await freePort()];
  const fleets = [await startFleet(ports[0] ?? 0), await startFleet(ports[1] ?? 0)];
  const { envoy, caller } = await envoyBefore(ports, true, PROBED);
  await healthy(envoy, 2);
  const load = new Load(CALLERS, () => caller.get("/many", HEADERS));
  for (const [i, fleet] of fleets.entries()) {
    expect(await fleet.stop()).toBe(0);
    expect(fleet.log.filter((line) => line.includes("exited abnormally"))).toEqual([]);
    await startFleet(ports[i] ?? 0);
    await healthy(envoy, 2);
  }
  await load.stop();
  expect(Object.fromEntries(load.statuses)).toEqual({ 200: load.total });
  expect(load.total).toBeGreaterThan(200);
}, 120_000);
