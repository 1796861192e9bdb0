// Settings of where buckets live and what happens when the store does not answer.

import { ON_STORE_FAILURE_NAMES } from "../core/limit.ts";
import { POSTGRES_ROWS } from "./postgres-rows.ts";
import { REDIS_ROWS } from "./redis-rows.ts";
import { optional, setting, under } from "./setting.ts";
import { decimalNumber, durationMs, durationUs, KEY_PREFIX, oneOf, SNAPSHOT_PATH, wholeNumber } from "./value-types.ts";

/** Where buckets may live, as BACKEND_TYPE names it. */
const BACKEND_TYPES = ["memory", "redis", "postgres"] as const;
export type BackendType = (typeof BACKEND_TYPES)[number];

export const STORE_SETTINGS = under("Store", {
  backendType: optional(
    "BACKEND_TYPE",
    oneOf(BACKEND_TYPES),
    "Where buckets live: in this process, or in Redis or PostgreSQL, shared by all processes.",
    {
      defaultShown: "redis if REDIS_URL is set, else memory",
    },
  ),
  bucketsMax: setting(
    "BUCKETS_MAX",
    wholeNumber(1, 100_000_000),
    1_000_000,
    "Most buckets that the memory store holds, at most 150 bytes for each whatever their keys are; the ones nearest to being as new give way.",
  ),
  slidingLogBytesMax: setting(
    "SLIDING_LOG_BYTES_MAX",
    wholeNumber(65_536, 68_719_476_736),
    134_217_728,
    "Most bytes that the memory store holds in entries of `sliding_log` limits, about 20 for each. Calls that need more get `on_store_failure` of that limit.",
  ),
  memorySnapshot: optional(
    "MEMORY_SNAPSHOT",
    SNAPSHOT_PATH,
    "File in which the memory store keeps a copy of its buckets, so that they go on after a restart (docs/operations.md). Its folder must be there; one process at a time uses it.",
    { defaultShown: "none is kept" },
  ),
  memorySnapshotIntervalMs: setting(
    "MEMORY_SNAPSHOT_INTERVAL",
    durationMs(1_000, 86_400_000),
    60_000,
    "How often the copy is written, which is about what a crash loses. It is also written at the end, for which there is SHUTDOWN_GRACE, at least five seconds.",
  ),
  denialsMax: setting(
    "DENIALS_MAX",
    wholeNumber(0, 10_000_000),
    100_000,
    "Most buckets whose refusal is remembered for up to a second, so that it is repeated without asking the shared store (docs/hot-keys.md). 0 asks every time.",
  ),
  syncPeriodMs: setting(
    "SYNC_PERIOD",
    durationMs(10, 10_000),
    100,
    "How often limits with `sync: periodic` report to the shared store what they granted (docs/hot-keys.md).",
  ),
  onStoreFailure: optional(
    "ON_STORE_FAILURE",
    oneOf(ON_STORE_FAILURE_NAMES),
    "What a call gets when the store fails, where its rule does not say: allow it, deny it, decide locally, or answer an error.",
    { defaultShown: "`allow`, under COMPATIBILITY_MODE `error`" },
  ),
  storeDeadlineUs: setting(
    "STORE_DEADLINE",
    durationUs(100, 60_000_000),
    10_000,
    "How long a call waits for the store; less if the caller's own deadline is nearer.",
  ),
  storePatienceMs: setting(
    "STORE_PATIENCE",
    durationMs(1, 60_000),
    100,
    "How long a call waits for the store in place of STORE_DEADLINE if its own deadline leaves at least twice as long, or if it has none: such calls need not be answered without the store so soon.",
  ),
  storeQueueMax: setting(
    "STORE_QUEUE_MAX",
    wholeNumber(1, 1_000_000),
    16_384,
    "Most takes (one per limit of a call) under way to the store; further ones count as a store failure at once.",
  ),
  breakerWindowMs: setting(
    "BREAKER_WINDOW",
    durationMs(100, 600_000),
    1_000,
    "Stretch of time over which the breaker counts failures.",
  ),
  breakerCallsMin: setting(
    "BREAKER_CALLS_MIN",
    wholeNumber(1, 1_000_000),
    20,
    "Fewest store calls in the window before the breaker may open.",
  ),
  breakerFailureRatio: setting(
    "BREAKER_FAILURE_RATIO",
    decimalNumber(0.01, 1),
    0.5,
    "Share of failed store calls in the window that opens the breaker.",
  ),
  breakerProbeIntervalMs: setting(
    "BREAKER_PROBE_INTERVAL",
    durationMs(10, 600_000),
    250,
    "How long the open breaker waits before one store call probes whether the store is back.",
  ),
  expirationJitterSecondsMax: setting(
    "EXPIRATION_JITTER_MAX_SECONDS",
    wholeNumber(0, 86_400),
    300,
    "Counters of COMPATIBILITY_MODE live in Redis for their window and up to this many seconds more. Headgate's own buckets live exactly as long as they mean something.",
  ),
  localCacheBytes: setting(
    "LOCAL_CACHE_SIZE_IN_BYTES",
    wholeNumber(0, 17_179_869_184),
    0,
    "Under COMPATIBILITY_MODE: room for counters that are over their limit, which are then refused without the store until their window ends. 0 is none; less than 524288 counts as that.",
  ),
  cacheKeyPrefix: setting("CACHE_KEY_PREFIX", KEY_PREFIX, "", "Put before every bucket key in the store."),
  ...REDIS_ROWS,
  ...POSTGRES_ROWS,
});
