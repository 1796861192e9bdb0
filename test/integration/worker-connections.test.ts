// Connections of several workers: each takes what the main thread hands over.

import { credentials, status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { openCallers, requestAbout } from "../support/callers.ts";
import { Authority } from "../support/certificates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startWorkers } from "../support/worker-rig.ts";

const FREE = requestAbout("free", "x");
const authority = new Authority();
const pair = authority.issue("headgate.test");

let redis: RedisServer;

beforeAll(async () => {
  redis = await RedisServer.start();
});

const TLS = {
  GRPC_SERVER_USE_TLS: "true",
  GRPC_SERVER_TLS_CERT: pair.certFile,
  GRPC_SERVER_TLS_KEY: pair.keyFile,
  GRPC_CLIENT_TLS_CACERT: authority.certFile,
};

describe("a port of several workers", () => {
  test.each([
    { name: "in plain", env: {}, secure: undefined },
    {
      name: "over mutual TLS",
      env: TLS,
      secure: credentials.createSsl(authority.cert, pair.key, pair.cert),
    },
  ])("connections $name reach every worker, three each", async ({ env, secure }) => {
    const rig = await startWorkers({ REDIS_URL: `127.0.0.1:${redis.port}`, ...env });
    const opened = openCallers(6, rig.target, secure);
    const outcomes = await Promise.all(opened.map((caller) => caller.ask(FREE)));
    expect(outcomes.map(({ code, details }) => `${code} ${details}`)).toEqual(opened.map(() => `${status.OK} `));
    expect((await rig.workers()).map(({ connections }) => connections)).toEqual([3, 3]);
    for (const caller of opened) caller.close();
    await expect.poll(async () => (await rig.workers()).map(({ connections }) => connections)).toEqual([0, 0]);
    expect(await rig.stop()).toBe(0);
  });
});
