// Picks the store that the settings name and puts around a shared one what spares it questions.

import type { Clock } from "../core/clock.ts";
import type { Take } from "../core/take.ts";
import { MICROS_PER_MILLI } from "../core/units.ts";
import type { RedisSettings, Settings } from "../settings.ts";
import { MemoryStore } from "../stores/memory/memory-store.ts";
import { openPostgresStore } from "../stores/postgres/postgres-store.ts";
import { openClusterStore } from "../stores/redis/cluster-store.ts";
import { openRedisStore, type RedisStoreOptions } from "../stores/redis/redis-store.ts";
import type { Store } from "../stores/store.ts";
import type { StoreObserver } from "../stores/store-observer.ts";
import { DenialMemory } from "../stores/wrappers/denial-memory.ts";
import { Leases } from "../stores/wrappers/lease.ts";
import { Periodic } from "../stores/wrappers/periodic.ts";
import { SeveralBreakers } from "../stores/wrappers/several-breakers.ts";
import { SeveralStores } from "../stores/wrappers/several-stores.ts";
import { Share } from "../stores/wrappers/share.ts";
import { SyncStore } from "../stores/wrappers/sync-store.ts";

export interface StoreChoice {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly observer: StoreObserver;
}

/** Opens the store of the process. A shared store connects by itself; `trouble` says how that goes. */
export function openStore({ settings, clock, observer }: StoreChoice): Store {
  const { redis, postgres, bucketsMax } = settings;
  const shared = {
    keyPrefix: settings.cacheKeyPrefix,
    deadlineMs: settings.storeDeadlineUs / MICROS_PER_MILLI,
    patienceMs: settings.storePatienceMs,
    takesInFlightMax: settings.storeQueueMax,
    breaker: {
      windowUs: settings.breakerWindowMs * MICROS_PER_MILLI,
      outcomesMin: settings.breakerCallsMin,
      failureShare: settings.breakerFailureRatio,
      pauseUs: settings.breakerProbeIntervalMs * MICROS_PER_MILLI,
    },
    observer,
    clock,
  };
  if (redis !== undefined) {
    const { perSecondRedis } = settings;
    const jitterSecondsMax = settings.expirationJitterSecondsMax;
    if (perSecondRedis === undefined)
      return spareQuestions(openRedis(redis, { ...shared, jitterSecondsMax }), settings, clock);
    const breakers = new SeveralBreakers(observer);
    const open = (one: RedisSettings) => openRedis(one, { ...shared, jitterSecondsMax, observer: breakers.observer() });
    return spareQuestions(new SeveralStores([open(redis), open(perSecondRedis)], perSecondPlace), settings, clock);
  }
  if (postgres !== undefined) {
    const store = openPostgresStore({
      ...shared,
      target: postgres,
      schema: settings.postgresSchema,
      connections: settings.postgresConnections,
      waitsForDisk: settings.postgresSynchronousCommit,
      ...(settings.postgresUnlogged === undefined ? {} : { unlogged: settings.postgresUnlogged }),
    });
    return spareQuestions(store, settings, clock);
  }
  return new MemoryStore({ clock, observer, bucketsMax });
}

function openRedis(redis: RedisSettings, options: Omit<RedisStoreOptions, "target">): Store {
  if (redis.kind === "cluster") return openClusterStore({ ...options, target: redis });
  const target: RedisStoreOptions["target"] = redis;
  return openRedisStore({ ...options, target });
}

/** Limits whose window is a second go to the second store (REDIS_PERSECOND). */
function perSecondPlace(take: Take): number {
  return take.limit.windowSeconds === 1 ? 1 : 0;
}

/** The denial memory stands nearest to the shared store, so that also what the local parts ask is spared. */
function spareQuestions(shared: Store, { denialsMax, syncPeriodMs, bucketsMax }: Settings, clock: Clock): Store {
  const store = denialsMax === 0 ? shared : new DenialMemory(shared, { clock, entriesMax: denialsMax });
  // A store that knows no order of processes knows their number; the remainder of a share then goes to nobody.
  const processIndex = () => shared.processIndex?.() ?? 1;
  const processCount = () => (processIndex() < 0 ? Number.POSITIVE_INFINITY : shared.processCount());
  return new SyncStore(store, {
    clock,
    lease: new Leases({ store, processCount }),
    periodic: new Periodic({ store, periodMs: syncPeriodMs, now: () => clock.nowUs() }),
    share: new Share({ memory: new MemoryStore({ clock, bucketsMax }), processCount, processIndex }),
  });
}
