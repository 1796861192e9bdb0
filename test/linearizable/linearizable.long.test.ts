// Takes are linearizable: what many callers of two processes were answered has an order, with each call between its beginning and its end, in
// which every answer is right. Buckets never refill here, because time is in no history (docs/proof.md). LINEARIZABLE_RUNS makes more of them,
// LINEARIZABLE_SEED draws one again.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { endWithTest } from "../support/ends.ts";
import { seeded } from "../support/fault-schedule.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { SHARED_STORES, type SharedServers } from "../support/shared-stores.ts";
import { buildChecker, notLinearizable, type RecordedCall, record } from "./history.ts";

const RUNS = Number(process.env.LINEARIZABLE_RUNS ?? 2);
const SEED = Number(process.env.LINEARIZABLE_SEED ?? Math.floor(Math.random() * 2 ** 32));
const LIMIT = 60;
const KEYS = 8;
const CALLERS = 12;
const CALLS = 600;
const PAUSE_MS = 150;

const RULES = `domain: edge
descriptors:
  - { key: who, on_store_failure: error, rate_limit: { unit: year, requests_per_unit: ${LIMIT}, algorithm: token_bucket } }
`;
/** A remembered refusal may be a second old: after a take that was given back it would be too late. */
const ENV = { DENIALS_MAX: "0", STORE_DEADLINE: "5s" };

const isThere = buildChecker();

function chances(seed: number): (end: number) => number {
  const random = seeded(seed);
  return (end) => Math.floor(random() * end);
}

async function started(env: Readonly<Record<string, string>>, count: number): Promise<ServiceProcess[]> {
  return Promise.all(Array.from({ length: count }, () => startService({ ...ENV, ...env }, { rules: RULES })));
}

function expectLinearizable(calls: readonly RecordedCall[], seed: number): void {
  process.stdout.write(
    `seed ${seed}: ${calls.length} calls, ${["ok", "over", "unknown"].map((one) => `${calls.filter(({ answer }) => answer === one).length} ${one}`).join(", ")}\n`,
  );
  expect(notLinearizable(calls, LIMIT)).toBe("");
  for (const answer of ["ok", "over"])
    expect(calls.filter((call) => call.answer === answer).length).toBeGreaterThan(CALLS / 10);
}

describe.skipIf(!isThere)("takes are linearizable", () => {
  // Promise(limits): Takes of many callers are linearizable in memory.
  test("in memory", async () => {
    for (let run = 0; run < RUNS; run++) {
      const [service] = await started({}, 1);
      const ports = [service?.grpcPort ?? 0];
      const before = () => undefined;
      const calls = await record({
        ports,
        isUp: () => true,
        callers: CALLERS,
        calls: CALLS,
        keys: KEYS,
        chance: chances(SEED + run),
        before,
      });
      expectLinearizable(calls, SEED + run);
      await service?.stop();
    }
  });

  describe.each(SHARED_STORES)("on $name", ({ start }) => {
    let servers: SharedServers;
    beforeAll(async () => {
      servers = await start();
      endWithTest(() => servers.stop());
    }, 60_000);

    // Promise(limits): Takes of two processes are linearizable on every shared store, though one is killed or the store pauses.
    test("of two processes, one of which is killed while the store stands still", async () => {
      for (let run = 0; run < RUNS; run++) {
        const seed = SEED + run;
        const chance = chances(seed);
        const services = await started(servers.env, 2);
        const ports = services.map(({ grpcPort }) => grpcPort);
        const [dies] = services;
        const [pausedAt, killedAt] = [100 + chance(100), 300 + chance(200)];
        let isDead = false;
        const before = (call: number) => {
          if (call === pausedAt) void standStill(servers);
          if (call === killedAt) {
            isDead = true;
            dies?.signal("SIGKILL");
          }
        };
        const isUp = (port: number) => !isDead || port !== ports[0];
        const calls = await record({ ports, isUp, callers: CALLERS, calls: CALLS, keys: KEYS, chance, before });
        expectLinearizable(calls, seed);
        await Promise.all(services.map((service) => service.stop()));
        for (const redis of servers.redis) await redis.flush();
        await servers.postgres?.query("TRUNCATE headgate.bucket");
      }
    });
  });

  test("an answer that is wrong is found", async () => {
    const call = (beganNs: number, cost: number, answer: RecordedCall["answer"]): RecordedCall => ({
      key: "k0",
      client: 0,
      beganNs,
      endedNs: beganNs + 1,
      cost,
      answer,
    });
    const right = [call(0, LIMIT - 1, "ok"), call(2, 2, "over"), call(4, 1, "ok"), call(6, 1, "over")];
    expect(notLinearizable(right, LIMIT)).toBe("");
    for (const [i, one] of right.entries()) {
      const answer = one.answer === "ok" ? "over" : "ok";
      expect(notLinearizable(right.with(i, { ...one, answer }), LIMIT)).toContain("k0: Illegal");
    }
  });
});

async function standStill({ redis, postgres }: SharedServers): Promise<void> {
  const all = [...redis, ...(postgres === undefined ? [] : [postgres])];
  for (const server of all) server.pause();
  await sleep(PAUSE_MS);
  for (const server of all) server.resume();
}
