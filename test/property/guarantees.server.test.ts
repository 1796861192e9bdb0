// Guarantees of two and three processes on real servers, held against the exact model: who asks where makes no difference.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { postgresHarness } from "../contract/postgres-harness.ts";
import { clusterHarness, redisHarness } from "../contract/redis-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";
import { expectModel, nothingSeen, scenarios } from "./guarantees.ts";

const PROCESSES = 3;

async function onRedis(): Promise<(keyPrefix: string) => Promise<StoreHarness>> {
  const server = await RedisServer.start();
  return (keyPrefix) => redisHarness(server, { keyPrefix });
}

async function onCluster(): Promise<(keyPrefix: string) => Promise<StoreHarness>> {
  const rig = await ClusterRig.start({ replicas: false });
  return () => clusterHarness(rig);
}

async function onPostgres(): Promise<(keyPrefix: string) => Promise<StoreHarness>> {
  const server = await PostgresServer.start();
  return (keyPrefix) => postgresHarness(server, { keyPrefix });
}

describe("guarantees of several processes", () => {
  test.each([
    ["Redis", 150, PROCESSES, onRedis],
    ["Redis Cluster", 40, 1, onCluster],
    ["PostgreSQL", 60, 2, onPostgres],
  ] as const)(
    "every call passes as by an exact model: %s",
    async (_, scenarioCount, processes, start) => {
      const open = await start();
      const harnesses = await Promise.all(Array.from({ length: processes }, () => open("shares:")));
      const seen = nothingSeen();
      let startUs = Math.max(...harnesses.map((harness) => harness.nowUs()));
      await fc.assert(
        fc.asyncProperty(scenarios(12), async (scenario) => {
          // Nothing is left of the scenario before.
          startUs += 100_000_000_000;
          const setUs = (nowUs: number) => {
            for (const harness of harnesses) harness.setUs(nowUs);
          };
          const stores = harnesses.map(
            ({ store }) =>
              (clock: { nowUs(): number }) =>
                new DenialMemory(store, { clock, entriesMax: 64 }),
          );
          await expectModel(scenario, { stores, setUs }, startUs, seen);
        }),
        { numRuns: runs(scenarioCount) },
      );
      for (const way of ["guaranteed", "borrowed", "refused", "kept"] as const)
        expect(seen[way], way).toBeGreaterThan(0);
    },
    600_000,
  );
});
