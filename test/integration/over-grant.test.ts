// The promise that matters most: never more than the rule says, however many ask at once, wherever the counts are.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { GrantBounds } from "../support/grant-bounds.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";

const CALLERS = 64;
const SECONDS = 3;
const PAUSE_MS = 10;
const BURST = 10;
const PER_SECOND = 10;
const RULES = `
domain: edge
descriptors:
  - { key: hot, rate_limit: { tokens_per_second: ${PER_SECOND}, burst: ${BURST} } }
`;

/** 64 callers on one key, spread over the services, for three seconds. */
async function askTogether(services: readonly ServiceProcess[], value: string): Promise<GrantBounds> {
  const clients = services.map(({ grpcPort }) => openClient(`127.0.0.1:${grpcPort}`));
  const request = (entry: string) => ({ domain: "edge", descriptors: [{ entries: [{ key: "hot", value: entry }] }] });
  for (const client of clients) await askOnce(client, request("warm-up"));
  const bounds = new GrantBounds(BURST, PER_SECOND);
  const endMs = performance.now() + SECONDS * 1_000;
  const caller = async (id: number) => {
    const client = clients[id % clients.length] as (typeof clients)[number];
    while (performance.now() < endMs) {
      await bounds.call(async () => (await askOnce(client, request(value))).overall_code === "OK");
      await sleep(PAUSE_MS); // a caller's pause: the calls of one moment compete, not those of the whole machine
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, id) => caller(id)));
  for (const client of clients) client.close();
  return bounds;
}

describe("64 callers on one key, burst 10, 10 per second, 3 seconds", () => {
  let redis: RedisServer;
  let rulesDir: string;
  beforeAll(async () => {
    redis = await RedisServer.start();
    rulesDir = temporaryFolder("headgate-rules");
    await writeFile(join(rulesDir, "rules.yaml"), RULES);
  });
  afterAll(() => redis.stop());

  test.each([
    { name: "one process, memory store", processes: 1, onRedis: false },
    { name: "one process, Redis", processes: 1, onRedis: true },
    { name: "three processes on one Redis", processes: 3, onRedis: true },
  ])("get 39 or 40, never 41: $name", async ({ name, processes, onRedis }) => {
    // The machine of a test may be slow; no call may be answered without the store here.
    const store = onRedis
      ? { REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "5s", ON_STORE_FAILURE: "error" }
      : {};
    const services = await Promise.all(
      Array.from({ length: processes }, () => startService({ RULES_DIR: rulesDir, ...store })),
    );
    try {
      const bounds = await askTogether(services, name);
      // 40 in three seconds; a stalled machine may make the run longer than that.
      expect(bounds.allowed).toBeLessThanOrEqual(bounds.most);
      expect(bounds.allowed).toBeGreaterThanOrEqual(bounds.least);
    } finally {
      await Promise.all(services.map((service) => service.stop()));
    }
  });
});
