// The ways from Envoy to Headgate: TLS, mutual TLS, and a Unix socket.

import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { Authority } from "../support/certificates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { bootstrapText, type Config, cluster, fixed, listener, route, upstreamTls } from "./support/bootstrap.ts";
import { Caller } from "./support/caller.ts";
import { Envoy } from "./support/envoy-process.ts";
import { startHeadgate, testDirectory } from "./support/rig.ts";
import { startUpstream } from "./support/upstream.ts";

const RULES = `
domain: edge
descriptors:
  - key: way
    rate_limit: { requests_per_unit: 2, unit: hour }
`;

const authority = new Authority();
const stranger = new Authority("stranger");
const served = authority.issue("headgate.test");
const SOCKET = join(testDirectory(), "headgate.sock");

const TLS = { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: served.certFile, GRPC_SERVER_TLS_KEY: served.keyFile };
const MUTUAL = { ...TLS, GRPC_CLIENT_TLS_CACERT: authority.certFile, GRPC_CLIENT_TLS_SAN: "envoy.test" };
const CHECKED = { caFile: authority.certFile, serverName: "headgate.test" };

let envoy: Envoy;

beforeAll(async () => {
  const redis = await RedisServer.start();
  const upstream = await startUpstream();
  const settings = [TLS, MUTUAL, { GRPC_UDS: SOCKET }];
  const headgates = await Promise.all(settings.map((env) => startHeadgate(redis, RULES, env)));
  const [tls = 0, mutual = 0] = headgates.map(({ grpcPort }) => grpcPort);
  const ways: readonly (readonly [name: string, at: number | string, more?: Config])[] = [
    ["tls", tls, upstreamTls(CHECKED)],
    ["plaintext-to-tls", tls],
    ["mutual", mutual, upstreamTls({ ...CHECKED, client: authority.issue("envoy.test") })],
    ["mutual-of-a-stranger", mutual, upstreamTls({ ...CHECKED, client: stranger.issue("envoy.test") })],
    ["unix-socket", SOCKET],
  ];
  const routes = (name: string) => [route({ prefix: "/", rateLimits: [{ actions: [fixed("way", name)] }] })];
  envoy = await Envoy.start(
    bootstrapText({
      listeners: ways.map(([name]) => listener({ name, routes: routes(name), asks: name })),
      clusters: [
        ...ways.map(([name, at, more = {}]) => cluster({ name, endpoints: [at], http2: true, more })),
        cluster({ name: "upstream", endpoints: [upstream.port] }),
      ],
    }),
  );
});

const statusesBy = (way: string) => new Caller(envoy.port(way)).statuses(3, "/");

test.each(["tls", "mutual", "unix-socket"])("Envoy reaches Headgate by %s", async (way) => {
  expect(await statusesBy(way)).toEqual([200, 200, 429]);
});

test.each(["plaintext-to-tls", "mutual-of-a-stranger"])("no decision comes by %s", async (way) => {
  expect(await statusesBy(way)).toEqual([500, 500, 500]);
});
