// What callers see while Headgate or Redis is away. Restarts and drains, which they don't see, are in restarts.test.ts.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { endWithTest } from "../support/ends.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import { bootstrapText, type Config, cluster, fromHeader, listener, route } from "./support/bootstrap.ts";
import { Caller, Load } from "./support/caller.ts";
import { Envoy } from "./support/envoy-process.ts";
import { startHeadgate } from "./support/rig.ts";
import { startUpstream, type Upstream } from "./support/upstream.ts";

const RULES = `
domain: edge
descriptors:
  - key: few
    rate_limit: { requests_per_unit: 10, unit: hour }
  - key: many
    rate_limit: { requests_per_unit: 4000000, unit: hour }
  - key: guarded
    on_store_failure: deny
    rate_limit: { requests_per_unit: 10, unit: hour }
`;

const ROUTES = ["few", "many", "guarded"].map((key) =>
  route({ prefix: `/${key}`, rateLimits: [{ actions: [fromHeader("x-case", key)] }] }),
);

const OPEN = { failure_mode_deny: false, enable_x_ratelimit_headers: "DRAFT_VERSION_03" };
const CLOSED = { failure_mode_deny: true, status_on_error: { code: "ServiceUnavailable" } };
const HEADERS = { "x-case": "x" };
const CALLERS = 8;

let redis: RedisServer;
let upstream: Upstream;
beforeAll(async () => {
  redis = await RedisServer.start();
  upstream = await startUpstream();
});

beforeEach(() => redis.flush());

/** A Headgate on a port that it will have again after a restart. */
function headgateOn(port: number, env: Readonly<Record<string, string>> = {}): Promise<ServiceProcess> {
  return startHeadgate(redis, RULES, { GRPC_PORT: String(port), ...env });
}

interface EnvoyOptions {
  /** Default: 0.2s, longer than a decision takes on a busy machine, short enough to wait for. */
  readonly timeout?: string;
  readonly http2Options?: Config;
}

/** Envoy with a listener that fails open and one that fails closed, before Headgates on these ports. */
async function envoyBefore(ports: readonly number[], { timeout = "0.2s", ...options }: EnvoyOptions = {}) {
  const envoy = await Envoy.start(
    bootstrapText({
      listeners: [
        listener({ name: "open", routes: ROUTES, filter: { timeout, ...OPEN } }),
        listener({ name: "closed", routes: ROUTES, filter: { timeout, ...CLOSED } }),
      ],
      clusters: [
        cluster({ name: "headgate", endpoints: ports, http2: true, ...options }),
        cluster({ name: "upstream", endpoints: [upstream.port] }),
      ],
    }),
  );
  return { envoy, open: new Caller(envoy.port("open")), closed: new Caller(envoy.port("closed")) };
}

/** Sends requests until one passes: Envoy notices by its own timers, and says so nowhere but in its answers. */
const untilPassed = (caller: Caller) =>
  expect.poll(async () => (await caller.get("/many", HEADERS)).status, { interval: 20 }).toBe(200);

describe("while Headgate hangs", () => {
  test("requests pass or get status_on_error after the timeout, and passing unasked is not charged later", async () => {
    const port = await freePort();
    const headgate = await headgateOn(port);
    const { envoy, open, closed } = await envoyBefore([port]);
    expect((await open.get("/few", HEADERS)).headers["x-ratelimit-remaining"]).toEqual(["9"]);

    headgate.signal("SIGSTOP");
    const unasked = await Promise.all([1, 2, 3, 4, 5].map(() => open.get("/few", HEADERS)));
    expect(unasked.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(await closed.statuses(1, "/few?hung", HEADERS)).toEqual([503]);
    expect(await envoy.accessLine("/few?hung")).toMatchObject({ flags: "RLSE", details: "rate_limiter_error" });
    expect(await envoy.counters("cluster.upstream.ratelimit.")).toMatchObject({ error: 6, failure_mode_allowed: 5 });

    headgate.signal("SIGCONT");
    await untilPassed(closed);
    expect((await open.get("/few", HEADERS)).headers["x-ratelimit-remaining"]).toEqual(["8"]);
  });
});

describe("while Headgate is down", () => {
  test("requests pass or get status_on_error at once, and limits are back as soon as it is", async () => {
    const port = await freePort();
    const headgate = await headgateOn(port);
    const { open, closed } = await envoyBefore([port]);
    expect(await closed.statuses(10, "/few", HEADERS)).toEqual(Array(10).fill(200));
    await headgate.stop();
    expect(await open.statuses(5, "/few", HEADERS)).toEqual(Array(5).fill(200));
    expect(await closed.statuses(5, "/few", HEADERS)).toEqual(Array(5).fill(503));
    await headgateOn(port);
    await untilPassed(closed);
    expect(await closed.statuses(2, "/few", HEADERS)).toEqual([429, 429]);
  });
});

test("connections come of age and are replaced without anybody noticing", async () => {
  const port = await freePort();
  await headgateOn(port, { GRPC_MAX_CONNECTION_AGE: "300ms", GRPC_MAX_CONNECTION_AGE_GRACE: "3s" });
  const { envoy, closed } = await envoyBefore([port], { timeout: "2s" });
  await untilPassed(closed);
  const load = new Load(CALLERS, () => closed.get("/many", HEADERS));
  await sleep(2_500); // several lives of a connection; the fast lane looks at ages once a second
  await load.stop();
  const connections = (await envoy.counters("cluster.headgate.")).upstream_cx_total ?? 0;
  expect(connections).toBeGreaterThanOrEqual(3);
  // grpc-js says goodbye and closes in one breath: it refuses the calls that are on their way to it at that moment.
  const refusedMax = process.env.GRPC_TRANSPORT === "fast-lane" ? 0 : CALLERS * connections;
  expect(load.total - (load.statuses.get(200) ?? 0)).toBeLessThanOrEqual(refusedMax);
});

describe("keepalive pings of Envoy", () => {
  const pings = { http2Options: { connection_keepalive: { interval: "0.1s", timeout: "1s" } } };

  test("are answered: a quiet connection stays, a hung Headgate's is closed", async () => {
    const port = await freePort();
    const headgate = await headgateOn(port);
    const { envoy, closed } = await envoyBefore([port], pings);
    await untilPassed(closed);
    await sleep(1_200); // ten pings, and longer than their timeout
    expect(await closed.statuses(1, "/many", HEADERS)).toEqual([200]);
    expect(await envoy.counters("cluster.headgate.upstream_cx_")).toMatchObject({ total: 1, destroy: 0 });

    headgate.signal("SIGSTOP");
    await expect.poll(async () => (await envoy.counters("cluster.headgate.http2.")).keepalive_timeout).toBe(1);
  });
});

describe("while Redis is away", () => {
  test("each rule's policy decides in time, and the access log says that it did", async () => {
    const port = await freePort();
    await headgateOn(port, { STORE_DEADLINE: "20ms" });
    const { envoy, closed } = await envoyBefore([port]);
    expect(await closed.statuses(1, "/few", HEADERS)).toEqual([200]);
    redis.pause();
    endWithTest(() => redis.resume());
    expect(await closed.statuses(1, "/few?unasked", HEADERS)).toEqual([200]);
    expect(await closed.statuses(1, "/guarded?unasked", HEADERS)).toEqual([429]);
    const degraded = (policy: string) => ({ source: "policy", degraded: { policy, failure: "STORE_TIMEOUT" } });
    expect(await envoy.accessLine("/few?unasked")).toMatchObject({ status: 200, ...degraded("allow") });
    expect(await envoy.accessLine("/guarded?unasked")).toMatchObject({ status: 429, flags: "RL", ...degraded("deny") });
  });
});
