// Stores that histories are recorded on, and what goes wrong with them: they stand still, connections are cut, and a server is lost in a way in
// which they promise to keep what they have answered (docs/decisions/0012-what-each-store-guarantees.md).

import { setTimeout as sleep } from "node:timers/promises";
import { PostgresServer } from "../support/postgres-server.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { replicasWith, writtenIn } from "../support/redis-replicas.ts";
import { SentinelRig } from "../support/redis-sentinel.ts";
import { RedisServer } from "../support/redis-server.ts";

/** Servers of one kind of store, running. */
export interface FaultyStore {
  /** Settings that point a service at them. */
  readonly env: Readonly<Record<string, string>>;
  standStill(ms: number): Promise<void>;
  /** Ends the connections of all processes. */
  cut(): Promise<void>;
  /** Loses a server; resolves when the store can serve again. */
  fail(): Promise<void>;
  /** Empties it, and has all its servers serve. */
  renew(): Promise<void>;
  stop(): Promise<void>;
}

const PAUSED_MS_MAX = 30_000;
const COPY_MS_MAX = 20_000;
/** After so long without an answer sentinels take a primary for lost. */
const PATIENT_MS = 20_000;
const QUICK_MS = 500;

async function startRedis(): Promise<FaultyStore> {
  const redis = await RedisServer.start(["--appendonly", "yes", "--appendfsync", "always"]);
  return {
    ...ofRedis(() => [redis]),
    env: { REDIS_URL: `127.0.0.1:${redis.port}` },
    fail: () => redis.restart(),
    renew: () => redis.flush(),
    stop: () => redis.stop(),
  };
}

async function startSentinel(): Promise<FaultyStore> {
  const rig = await SentinelRig.start();
  let primary = await rig.primary();
  // A primary that stands still is none that is lost, however busy the machine is.
  const setPatience = async (ms: number) => {
    for (const sentinel of rig.sentinels)
      await sentinel.command("SENTINEL", "SET", rig.primaryName, "down-after-milliseconds", String(ms));
  };
  await setPatience(PATIENT_MS);
  const list = rig.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return {
    ...ofRedis(() => [primary]),
    env: { REDIS_TYPE: "SENTINEL", REDIS_URL: `${rig.primaryName},${list}` },
    // What it has answered is copied before it dies: it pays nothing more from then on.
    fail: async () => {
      await primary.command("CLIENT", "PAUSE", String(PAUSED_MS_MAX), "WRITE");
      const written = writtenIn(await primary.command("ROLE")) ?? Number.POSITIVE_INFINITY;
      const endMs = performance.now() + COPY_MS_MAX;
      while (replicasWith(await primary.command("ROLE"), written) < rig.servers.length - 1) {
        if (performance.now() > endMs) throw new Error("the replicas do not get what the primary has");
        await sleep(20);
      }
      await setPatience(QUICK_MS);
      await primary.kill();
      primary = await rig.whenFailedOver(primary);
    },
    renew: async () => {
      await rig.heal();
      await setPatience(PATIENT_MS);
      primary = await rig.primary();
      await primary.flush();
    },
    stop: () => rig.stop(),
  };
}

async function startCluster(): Promise<FaultyStore> {
  const rig = await ClusterRig.start();
  const owners = await Promise.all([0, 8_000, 16_000].map((slot) => rig.ownerOf(slot)));
  let serving: readonly RedisServer[] = [...new Set(owners)];
  return {
    ...ofRedis(() => serving),
    env: { REDIS_TYPE: "CLUSTER", REDIS_URL: rig.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",") },
    // A replica takes over from a primary that waits until it has everything.
    fail: async () => {
      const [first, ...others] = serving;
      serving = [...others, await rig.failOver(first as RedisServer)];
      await rig.whenWell();
    },
    renew: async () => {
      for (const server of serving) await server.flush();
    },
    stop: () => rig.stop(),
  };
}

async function startPostgres(): Promise<FaultyStore> {
  const postgres = await PostgresServer.start();
  return {
    env: {
      POSTGRES_URL: `postgres://headgate@127.0.0.1:${postgres.port}/postgres`,
      POSTGRES_SYNCHRONOUS_COMMIT: "true",
    },
    standStill: async (ms) => {
      postgres.pause();
      await sleep(ms);
      postgres.resume();
    },
    cut: async () => {
      await postgres.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'headgate'",
      );
    },
    fail: () => postgres.restart(),
    renew: async () => {
      await postgres.query("TRUNCATE headgate.bucket, headgate.settled_hold");
    },
    stop: () => postgres.stop(),
  };
}

function ofRedis(serving: () => readonly RedisServer[]): Pick<FaultyStore, "standStill" | "cut"> {
  return {
    standStill: async (ms) => {
      const paused = serving();
      for (const server of paused) server.pause();
      await sleep(ms);
      for (const server of paused) server.resume();
    },
    cut: async () => {
      for (const server of serving()) await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    },
  };
}

export const FAULTY_STORES: readonly { readonly name: string; readonly start: () => Promise<FaultyStore> }[] = [
  { name: "one Redis with a log of what it did", start: startRedis },
  { name: "Redis under Sentinel", start: startSentinel },
  { name: "a Redis Cluster", start: startCluster },
  { name: "PostgreSQL", start: startPostgres },
];
