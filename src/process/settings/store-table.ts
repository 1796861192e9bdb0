// Settings of the store: where buckets are kept, and what happens when it does not answer.

import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { POSTGRES_ROWS } from "./postgres-rows.ts";
import { REDIS_ROWS } from "./redis-rows.ts";
import { optional, setting, under } from "./setting.ts";
import { decimalNumber, durationMs, durationUs, KEY_PREFIX, oneOf, SNAPSHOT_PATH, wholeNumber } from "./value-types.ts";

/** The stores, as BACKEND_TYPE names them. */
const BACKEND_TYPES = ["memory", "redis", "postgres"] as const;
export type BackendType = (typeof BACKEND_TYPES)[number];

export const STORE_SETTINGS = under("Store", {
  backendType: optional(
    "BACKEND_TYPE",
    oneOf(BACKEND_TYPES),
    "Where buckets live: in this process, or in Redis or PostgreSQL, shared by all processes.",
    {
      defaultShown: "`redis` if REDIS_URL is set, else `postgres` if POSTGRES_URL is set, else `memory`",
    },
  ),
  bucketsMax: setting(
    "BUCKETS_MAX",
    wholeNumber(1, 100_000_000),
    1_000_000,
    "Most buckets in the memory store. A bucket takes at most 150 bytes, however long its key is. Beyond this bound, buckets that are nearest to being as new are dropped.",
  ),
  slidingLogBytesMax: setting(
    "SLIDING_LOG_BYTES_MAX",
    wholeNumber(65_536, 68_719_476_736),
    134_217_728,
    "Most bytes for payments of `sliding_log` limits in the memory store, about 17 for each payment. For a call that needs more, `on_store_failure` of the limit decides.",
  ),
  memorySnapshot: optional(
    "MEMORY_SNAPSHOT",
    SNAPSHOT_PATH,
    "File with a copy of the memory store's buckets, so that they outlive a restart (docs/operations.md). The folder of the file must exist. One process at a time uses the file.",
    { defaultShown: "none is kept" },
  ),
  memorySnapshotIntervalMs: setting(
    "MEMORY_SNAPSHOT_INTERVAL",
    durationMs(1_000, 86_400_000),
    60_000,
    "How often the copy is written; a crash loses about this time. The copy is also written at the end, within SHUTDOWN_GRACE, or five seconds if that is longer.",
  ),
  denialsMax: setting(
    "DENIALS_MAX",
    wholeNumber(0, 10_000_000),
    100_000,
    "Most buckets whose refusal this process remembers, for up to a second each, and repeats without asking the shared store (docs/hot-keys.md). 0: it asks every time.",
  ),
  syncPeriodMs: setting(
    "SYNC_PERIOD",
    durationMs(10, 10_000),
    100,
    "How often a process reports to the shared store what limits with `sync: periodic` granted (docs/hot-keys.md).",
  ),
  onStoreFailure: optional(
    "ON_STORE_FAILURE",
    oneOf(ON_STORE_FAILURE_NAMES),
    "What happens to a call when the store fails and its rule does not say: the call is allowed, denied, decided locally, or answered with an error.",
    { defaultShown: "`allow`, under COMPATIBILITY_MODE `error`" },
  ),
  storeDeadlineUs: setting(
    "STORE_DEADLINE",
    durationUs(100, 60_000_000),
    10_000,
    "How long a call waits for the store at least, unless the caller's deadline is nearer.",
  ),
  storePatienceMs: setting(
    "STORE_PATIENCE",
    durationMs(1, 60_000),
    100,
    "How long a call waits for the store at most: for half of what the caller's deadline leaves, but at least for STORE_DEADLINE. Without a deadline it waits for this.",
  ),
  storeQueueMax: setting(
    "STORE_QUEUE_MAX",
    wholeNumber(1, 1_000_000),
    16_384,
    "Most takes under way to the store; a call has one take per limit. A further take counts as a failure of the store at once.",
  ),
  breakerWindowMs: setting(
    "BREAKER_WINDOW",
    durationMs(100, 600_000),
    1_000,
    "Time over which the breaker counts failures.",
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
    "How long the open breaker waits until one store call probes the store: a caller's, or one of Headgate's own.",
  ),
  expirationJitterSecondsMax: setting(
    "EXPIRATION_JITTER_MAX_SECONDS",
    wholeNumber(0, 86_400),
    300,
    "Counters of COMPATIBILITY_MODE live in Redis for their window and up to this many seconds longer. Headgate's own buckets live until they are as new.",
  ),
  localCacheBytes: setting(
    "LOCAL_CACHE_SIZE_IN_BYTES",
    wholeNumber(0, 17_179_869_184),
    0,
    "Under COMPATIBILITY_MODE: size of the cache of counters over their limit, which are refused without the store until their window ends. 0: no cache. Sizes below 524288 count as 524288.",
  ),
  cacheKeyPrefix: setting("CACHE_KEY_PREFIX", KEY_PREFIX, "", "Prefix of every bucket key in the store."),
  ...REDIS_ROWS,
  ...POSTGRES_ROWS,
});
