// Quota handed to real Envoys with the shipped configuration, next to callers that ask, in real time.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Caller as GrpcCaller, isOverLimit, requestAbout } from "../support/callers.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import { Envoy } from "./support/envoy-process.ts";
import { Paced, worstBurst } from "./support/paced.ts";
import { startHeadgate } from "./support/rig.ts";

const CONFIG = readFileSync(resolve(import.meta.dirname, "../../deploy/envoy/quota.yaml"), "utf8");
const RULES = `
domain: quota
descriptors:
  - key: tenant
    rate_limit: { tokens_per_second: 200, burst: 200 }
    hand_out: { idle: 60s, floor: 1% }
`;
const TOKEN = "a-token-of-the-operators";
const ACME = { "x-tenant": "acme" };
/** Requests are counted when their answer comes, up to so many tokens later than they passed. */
const LATENESS = 15;

async function startEnvoys(headgate: ServiceProcess, count: number): Promise<readonly Envoy[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const echo = await freePort();
      const ports = { 8081: headgate.grpcPort, 10000: 0, 10001: echo, 9901: 0 };
      let config = CONFIG;
      for (const [from, to] of Object.entries(ports))
        config = config.replaceAll(`port_value: ${from} `, `port_value: ${to} `);
      return Envoy.start(config);
    }),
  );
}

/** Envoy reports every 5 s, and the second report shows what a change of demand has come to. */
const TWO_REPORTS = { timeout: 15_000, interval: 500 };

/** What passed in the last seconds, a second. */
function rateOf(all: readonly Paced[], seconds: number): number {
  return all.reduce((sum, each) => sum + each.passedLately(seconds), 0) / seconds;
}

function asking(headgate: ServiceProcess): Paced {
  const caller = new GrpcCaller(`127.0.0.1:${headgate.grpcPort}`);
  const request = requestAbout("tenant", "acme", "quota");
  return new Paced(async () => !isOverLimit(await caller.ask(request)));
}

test("two Envoys and callers that ask share 200/s: joins, demand that turns, a killed Envoy", async () => {
  const headgate = await startHeadgate(await RedisServer.start(), RULES, { BACKEND_TYPE: "memory" });
  const envoys = await startEnvoys(headgate, 2);
  const [a, b] = envoys.map((envoy) => Paced.http(envoy.port("edge"), ACME)) as [Paced, Paced];
  const asked = asking(headgate);
  const all = [a, b, asked];
  a.perSecond = 300;
  await expect.poll(() => rateOf([a], 2), { timeout: 10_000, interval: 500 }).toBeGreaterThan(194);
  b.perSecond = 50;
  await expect.poll(() => [rateOf(all, 2) > 194, rateOf([b], 2) > 45], TWO_REPORTS).toEqual([true, true]);
  a.perSecond = 50;
  b.perSecond = 300;
  await expect.poll(() => [rateOf(all, 2) > 190, rateOf([b], 2) > 135], TWO_REPORTS).toEqual([true, true]);
  asked.perSecond = 100;
  await expect.poll(() => [rateOf(all, 4) > 170, rateOf([asked], 4) > 60], TWO_REPORTS).toEqual([true, true]);
  asked.stop();
  a.perSecond = 300;
  await expect.poll(() => [rateOf([a], 2) > 90, rateOf([b], 2) > 90], TWO_REPORTS).toEqual([true, true]);
  await envoys[0]?.kill();
  a.stop();
  // What it had stays paid for 15 s from its last report, which was up to 5 s ago.
  await sleep(8_000);
  expect(rateOf([b], 2)).toBeLessThan(130);
  await expect.poll(() => rateOf([b], 2), TWO_REPORTS).toBeGreaterThan(180);
  await sleep(200); // for answers under way
  expect(worstBurst(all, 200)).toBeLessThan(250 + LATENESS);
});

test("eight Envoys on Redis: a block, a raise and a flush", async () => {
  const redis = await RedisServer.start();
  const headgate = await startHeadgate(redis, RULES, { ADMIN_TOKEN: TOKEN });
  const envoys = await startEnvoys(headgate, 8);
  const all = envoys.map((envoy) => Paced.http(envoy.port("edge"), ACME));
  const set = async (limit: object) => {
    const response = await fetch(`http://127.0.0.1:${headgate.httpPort}/limits`, {
      method: "PUT",
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ limits: [{ domain: "quota", entries: [{ key: "tenant", value: "acme" }], ...limit }] }),
    });
    expect(response.status).toBe(200);
  };
  for (const each of all) each.perSecond = 40;
  await expect.poll(() => rateOf(all, 2), { timeout: 20_000, interval: 500 }).toBeGreaterThan(190);
  const least = Math.min(...all.map((each) => each.passedLately(2)));
  expect(least).toBeGreaterThan(30);
  await redis.command("FLUSHALL");
  await sleep(3_000); // in which a second burst would have passed
  expect(worstBurst(all, 200)).toBeLessThan(250 + 200 + LATENESS);
  await set({ block: true });
  await sleep(2_000); // the time in which a block is promised to apply
  expect(rateOf(all, 0.2)).toBe(0);
  await set({ requests_per_unit: 280, unit: "second" });
  await expect.poll(() => rateOf(all, 2), { timeout: 15_000, interval: 500 }).toBeGreaterThan(265);
});
