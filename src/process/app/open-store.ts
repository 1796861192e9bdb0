// Opens the store that the settings name. Around a shared store it puts what answers some takes locally.

import type { Clock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import { invariant } from "../../base/invariant.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { HOLDS_IN_MEMORY_MAX } from "../../engine/domain/limit.ts";
import type { BucketMemory, LocalStore, ProcessCounts, Store, StoreHealth } from "../../engine/domain/store.ts";
import type { Take } from "../../engine/domain/take.ts";
import type { RedisSettings, Settings } from "../../settings/settings.ts";
import type { Backend, SharedStore } from "../../stores/batching/shared-store.ts";
import { CountersFirst, LocalCountersFirst } from "../../stores/counters/counters-first.ts";
import { DenialMemory } from "../../stores/denials/denial-memory.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { PostgresAside } from "../../stores/postgres/aside.ts";
import type { ProcessRegister } from "../../stores/process-register.ts";
import type { AsideOptions as RedisAside } from "../../stores/redis/aside.ts";
import type { ClusterStoreOptions } from "../../stores/redis/cluster-store.ts";
import { SeveralStores } from "../../stores/sharded/sharded-calls.ts";
import type { StoreObserver } from "../../stores/store-observer.ts";
import { Leases } from "../../stores/sync/lease.ts";
import { SyncStore } from "../../stores/sync/sync-store.ts";

/** How a shared store is asked what is no take. */
export type StoreAside = RedisAside | PostgresAside;

interface StoreChoice {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly observer: StoreObserver;
}

/** The store of the process, with its health, its count of processes, and its local memories. */
interface OpenedStore {
  readonly store: Store;
  /** The store as calls are decided by it: with counters, under COMPATIBILITY_MODE. */
  readonly deciding: Store;
  readonly storeHealth: StoreHealth;
  readonly processes: ProcessCounts;
  /** What processes share besides buckets; undefined with the memory store. */
  readonly shared: { readonly register: ProcessRegister; readonly aside: StoreAside } | undefined;
  /** The layers around the store that remember buckets. */
  readonly memories: readonly BucketMemory[];
}

const ALONE: ProcessCounts = { count: () => 1, sureCount: () => 1 };
const ALWAYS_WELL: StoreHealth = { trouble: () => undefined };

/**
 * Opens the store. A shared store connects in the background; `storeHealth` reports its troubles. Only its own client
 * is loaded.
 */
export async function openStore(choice: StoreChoice): Promise<OpenedStore> {
  const { settings, clock } = choice;
  const withCounters = (counters: Store, rest: Store) =>
    settings.compatibilityMode ? new CountersFirst(counters, rest, settings) : rest;
  let memory: DenialMemory | undefined;
  // A remembered refusal may come from what was paid for a moment and given back, so the refusal is forgotten.
  const shared = await openShared(
    settings,
    sharedOptions(choice, (take) => memory?.forgetRefusal(take)),
  );
  if (shared === undefined) {
    const store = openMemoryStore(settings, clock, choice.observer);
    return {
      store,
      deciding: withCounters(store, store),
      storeHealth: ALWAYS_WELL,
      processes: ALONE,
      shared: undefined,
      memories: [],
    };
  }
  const { denialsMax: entriesMax } = settings;
  // Lies directly around the shared store, so that it also answers the questions of leases.
  if (entriesMax > 0) memory = new DenialMemory(shared.store, { clock, entriesMax });
  const { processes } = shared;
  const store = memory ?? shared.store;
  const sync = new SyncStore(store, new Leases(store, () => processes.sureCount(), clock), clock);
  return {
    ...shared,
    store: sync,
    deciding: withCounters(shared.store, sync),
    memories: memory === undefined ? [sync] : [sync, memory],
  };
}

type SharedParts = Omit<OpenedStore, "memories" | "deciding">;
type SharedOptions = ReturnType<typeof sharedOptions>;
type RedisOptions = Omit<ClusterStoreOptions, "target"> & SharedOptions;

/** Undefined with the memory store. */
async function openShared(settings: Settings, options: SharedOptions): Promise<SharedParts | undefined> {
  switch (settings.backendType) {
    case "redis":
      return openRedisStores(settings, options);
    case "postgres":
      return openPostgres(settings, options);
    case "memory":
      return undefined;
  }
}

/** With REDIS_PERSECOND there are two stores; the first counts processes and keeps limits at run time. */
async function openRedisStores(settings: Settings, shared: SharedOptions): Promise<SharedParts> {
  const { redis, perSecondRedis, expirationJitterSecondsMax: jitterSecondsMax, redisClusterTags: tags } = settings;
  invariant(redis !== undefined, "settings say where Redis is");
  const options = { ...shared, jitterSecondsMax, tags };
  const first = await openRedis(redis, options);
  const { processes } = first;
  if (perSecondRedis === undefined) return { store: first, storeHealth: first, processes, shared: first };
  const second = await openRedis(perSecondRedis, { ...options, nameSuffix: " for limits per second" });
  return {
    store: new SeveralStores([first, second], perSecondShard, options.onUndone),
    storeHealth: { trouble: () => first.trouble() ?? second.trouble() },
    processes,
    shared: first,
  };
}

async function openPostgres(settings: Settings, options: SharedOptions): Promise<SharedParts> {
  const { postgres } = settings;
  invariant(postgres !== undefined, "settings say where PostgreSQL is");
  const { openPostgresStore } = await import("../../stores/postgres/postgres-store.ts");
  const store = openPostgresStore({
    ...options,
    target: postgres,
    schema: settings.postgresSchema,
    connections: settings.postgresConnections,
    waitsForDisk: settings.postgresSynchronousCommit,
  });
  return { store, storeHealth: store, processes: store.processes, shared: store };
}

/** Options of every shared store. */
function sharedOptions({ settings, clock, observer }: StoreChoice, onUndone: DenialMemory["forgetRefusal"]) {
  return {
    keyPrefix: settings.cacheKeyPrefix,
    deadlineMs: settings.storeDeadlineUs / MICROS_PER_MILLI,
    patienceMs: settings.storePatienceMs,
    observer,
    clock,
    onUndone,
  };
}

/** Opens an empty store of this process, for takes that the store of the process left unanswered. */
export function openLocalStore({ settings, clock, observer }: StoreChoice): LocalStore {
  const store = openMemoryStore(settings, clock, observer);
  return settings.compatibilityMode ? new LocalCountersFirst(store, settings) : store;
}

/** Payments of sliding logs: one log of 1,000 hits, or 134 MB for the default BUCKETS_MAX. */
const LOG_BYTES_MIN = 65_536;
const LOG_BYTES_PER_BUCKET = 134;

/** Opens an empty store in memory of its own. Throws ConfigError if the system has too few addresses. */
function openMemoryStore(settings: Settings, clock: Clock, observer: StoreObserver): MemoryStore {
  const { bucketsMax } = settings;
  const logBytesMax = Math.max(LOG_BYTES_MIN, bucketsMax * LOG_BYTES_PER_BUCKET);
  try {
    return new MemoryStore({ clock, bucketsMax, logBytesMax, holdsMax: HOLDS_IN_MEMORY_MAX, observer });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ConfigError(
      "CONFIG_SETTINGS",
      "BUCKETS_MAX: expected address space for that many buckets, and for logs and holds (memory is taken only as they are used); the system gives less: lower it, or raise the limit on address space (ulimit -v)",
    );
  }
}

async function openRedis(redis: RedisSettings, options: RedisOptions): Promise<SharedStore<Backend, StoreAside>> {
  if (redis.kind === "cluster") {
    const { openClusterStore } = await import("../../stores/redis/cluster-store.ts");
    return openClusterStore({ ...options, target: redis });
  }
  const { openRedisStore } = await import("../../stores/redis/redis-store.ts");
  return openRedisStore({ ...options, target: redis });
}

/** Puts limits that are written per second in the second store (REDIS_PERSECOND); a changed number moves no bucket. */
export function perSecondShard({ limit }: Pick<Take, "limit">): number {
  return limit.writtenSeconds === 1 ? 1 : 0;
}
