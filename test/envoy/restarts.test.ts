// Several processes behind Envoy: a rolling restart costs no call.

import { beforeAll, beforeEach, expect, test } from "vitest";
import { freePort, RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import { bootstrapText, cluster, fromHeader, listener, route } from "./support/bootstrap.ts";
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

function startProcess(port: number): Promise<ServiceProcess> {
  return startHeadgate(redis, RULES, { GRPC_PORT: String(port), STORE_DEADLINE: "5s", SHUTDOWN_DELAY: "500ms" });
}

/** Envoy that fails closed before processes on these ports. */
async function envoyBefore(ports: readonly number[]) {
  const filter = { timeout: "5s", failure_mode_deny: true, status_on_error: { code: "ServiceUnavailable" } };
  const envoy = await Envoy.start(
    bootstrapText({
      listeners: [listener({ name: "edge", routes: ROUTES, filter })],
      clusters: [
        cluster({ name: "headgate", endpoints: ports, http2: true, http2Options: SEVERAL_CONNECTIONS, more: PROBED }),
        cluster({ name: "upstream", endpoints: [upstream.port] }),
      ],
    }),
  );
  return { envoy, caller: new Caller(envoy.port("edge")) };
}

const healthy = (envoy: Envoy, count: number) =>
  expect.poll(async () => (await envoy.counters("cluster.headgate.")).membership_healthy).toBe(count);

// Promise(processes): Callers do not notice a rolling restart.
test("processes are restarted one after the other without anybody noticing, though every failed call would be a 503", async () => {
  const ports = [await freePort(), await freePort()];
  const processes = [await startProcess(ports[0] ?? 0), await startProcess(ports[1] ?? 0)];
  const { envoy, caller } = await envoyBefore(ports);
  await healthy(envoy, 2);
  const load = new Load(CALLERS, () => caller.get("/many", HEADERS));
  for (const [i, process] of processes.entries()) {
    expect(await process.stop()).toBe(0);
    await startProcess(ports[i] ?? 0);
    await healthy(envoy, 2);
  }
  await load.stop();
  expect(Object.fromEntries(load.statuses)).toEqual({ 200: load.total });
  expect(load.total).toBeGreaterThan(200);
}, 120_000);
