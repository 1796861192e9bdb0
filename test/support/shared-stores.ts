// Every store that processes can share, on real servers of a test's own: how a test opens it, and how a service is told.

import type { Store, StoreHealth } from "../../src/engine/domain/store.ts";
import { openPostgresStore } from "../../src/stores/postgres/postgres-store.ts";
import { openClusterStore } from "../../src/stores/redis/cluster-store.ts";
import { keySlot } from "../../src/stores/redis/cluster-tags.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { SeveralStores } from "../../src/stores/sharded/sharded-calls.ts";
import type { StoreObserver } from "../../src/stores/store-observer.ts";
import { closedWithTest } from "./ends.ts";
import { PostgresServer } from "./postgres-server.ts";
import { ClusterRig } from "./redis-cluster.ts";
import { SentinelRig } from "./redis-sentinel.ts";
import { RedisServer } from "./redis-server.ts";
import { whenUp } from "./when-up.ts";

/** Servers of one kind of store, running. */
export interface SharedServers {
  /** Settings that point a service at them. */
  readonly env: Readonly<Record<string, string>>;
  /** Redis servers that hold buckets; none with PostgreSQL. */
  readonly redis: readonly RedisServer[];
  readonly postgres?: PostgresServer;
  /** The one of `redis` where a key of the other service lies. */
  serverOf(key: string): Promise<RedisServer>;
  /** One more store on them, connected, as another process would have it. */
  open(observer: StoreObserver): Promise<Store>;
  stop(): Promise<void>;
}

/** Far beyond what a busy machine does to a call: nothing of time is tested with these. */
const DEADLINE_MS = 10_000;
const CONNECT_MS_MAX = 10_000;
const access = { database: 0, login: undefined, loginFile: undefined, tls: undefined, connectTimeoutMs: 2_000 };

/** One Redis. */
export async function startRedis(): Promise<SharedServers> {
  const redis = await RedisServer.start();
  return {
    env: { REDIS_URL: `127.0.0.1:${redis.port}` },
    redis: [redis],
    serverOf: async () => redis,
    open: (observer) => connected(openRedisStore({ target: redis.target(), deadlineMs: DEADLINE_MS, observer })),
    stop: () => redis.stop(),
  };
}

/** A primary with two replicas, named by three sentinels. */
async function startSentinel(): Promise<SharedServers> {
  const rig = await SentinelRig.start();
  const primary = await rig.primary();
  const target = {
    ...access,
    primaryName: rig.primaryName,
    sentinels: rig.sentinels.map(({ port }) => ({ kind: "tcp", host: "127.0.0.1", port }) as const),
    sentinelAccess: access,
  };
  const list = rig.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
  return {
    env: { REDIS_TYPE: "SENTINEL", REDIS_URL: `${rig.primaryName},${list}` },
    redis: [primary],
    serverOf: async () => primary,
    open: (observer) => connected(openRedisStore({ target, deadlineMs: DEADLINE_MS, observer })),
    stop: () => rig.stop(),
  };
}

/** Three primaries that share the slots. */
export async function startCluster(): Promise<SharedServers> {
  const rig = await ClusterRig.start({ replicas: false });
  return {
    env: { REDIS_TYPE: "CLUSTER", REDIS_URL: rig.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",") },
    redis: rig.nodes,
    serverOf: (key) => rig.ownerOf(keySlot(key)),
    open: (observer) => connected(openClusterStore({ target: rig.target(), deadlineMs: DEADLINE_MS, observer })),
    stop: () => rig.stop(),
  };
}

/** Two servers; limits whose window is a second lie on the second one, as REDIS_PERSECOND has it. */
export async function startTwoRedis(): Promise<SharedServers> {
  const first = await RedisServer.start();
  const second = await RedisServer.start();
  return {
    env: {
      REDIS_URL: `127.0.0.1:${first.port}`,
      REDIS_PERSECOND: "true",
      REDIS_PERSECOND_URL: `127.0.0.1:${second.port}`,
    },
    redis: [first, second],
    serverOf: async () => first,
    open: async (observer) => {
      const openOn = (server: RedisServer) =>
        connected(openRedisStore({ target: server.target(), deadlineMs: DEADLINE_MS, observer }));
      const stores = [await openOn(first), await openOn(second)] as const;
      return new SeveralStores(stores, ({ limit }) => (limit.writtenSeconds === 1 ? 1 : 0));
    },
    stop: async () => {
      await Promise.all([first.stop(), second.stop()]);
    },
  };
}

/** PostgreSQL, its tables new. */
export async function startPostgres(): Promise<SharedServers> {
  const postgres = await PostgresServer.start();
  const options = { target: postgres.target(), deadlineMs: DEADLINE_MS };
  return {
    env: { POSTGRES_URL: `postgres://headgate@127.0.0.1:${postgres.port}/postgres` },
    redis: [],
    postgres,
    serverOf: () => Promise.reject(new Error("PostgreSQL is no Redis")),
    open: (observer) => connected(openPostgresStore({ ...options, observer })),
    stop: () => postgres.stop(),
  };
}

async function connected<S extends Store & StoreHealth>(store: S): Promise<S> {
  closedWithTest(store);
  if (!(await whenUp(store, CONNECT_MS_MAX))) throw new Error(store.trouble());
  return store;
}

/** All of them, for tests that each must pass. */
export const SHARED_STORES: readonly { readonly name: string; readonly start: () => Promise<SharedServers> }[] = [
  { name: "one Redis", start: startRedis },
  { name: "Redis under Sentinel", start: startSentinel },
  { name: "a Redis Cluster", start: startCluster },
  { name: "Redis and a second one for limits per second", start: startTwoRedis },
  { name: "PostgreSQL", start: () => startPostgres() },
];
