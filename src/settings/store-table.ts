// Settings of the store: where buckets are kept, and what happens when it does not answer.

import { ON_STORE_FAILURE_NAMES } from "../engine/domain/limit.ts";
import { POSTGRES_URL } from "./postgres-address.ts";
import { REDIS_TYPES, REDIS_URL } from "./redis-address.ts";
import { optional, setting } from "./setting.ts";
import {
  BOOLEAN,
  durationMs,
  durationUs,
  FILE,
  KEY_PREFIX,
  oneOf,
  SECRET,
  SNAPSHOT_PATH,
  textLike,
  wholeNumber,
} from "./value-types.ts";

/** The stores, as BACKEND_TYPE names them. */
const BACKEND_TYPES = ["memory", "redis", "postgres"] as const;
export type BackendType = (typeof BACKEND_TYPES)[number];

/** Redis, and a second Redis for limits per second. */
const REDIS_ROWS = {
  redisUrl: optional("REDIS_URL", REDIS_URL).means(
    "`host:port`, a socket's path, or a URL that may hold user, password and database: `redis://`, `unix://`, `redis-sentinel://host:port,host:port/name`, `redis-cluster://host:port,host:port`. `rediss` for `redis` uses TLS (docs/redis.md).",
  ),
  redisType: optional("REDIS_TYPE", oneOf(REDIS_TYPES)).means(
    "How to read a URL without a scheme: one server, sentinels (`name,host:port,...`) or a cluster (`host:port,...`).",
    "from the URL, else `single`",
  ),
  redisAuth: optional("REDIS_AUTH", SECRET).means("Password, or `user:password`."),
  redisAuthFile: optional("REDIS_AUTH_FILE", FILE).means(
    "File with the password, or `user:password`; reloaded for every connection.",
  ),
  redisSentinelAuth: optional("REDIS_SENTINEL_AUTH", SECRET).means("The sentinels' password, or `user:password`."),
  redisSentinelAuthFile: optional("REDIS_SENTINEL_AUTH_FILE", FILE).means(
    "File with REDIS_SENTINEL_AUTH; reloaded for every connection.",
  ),
  redisTls: setting("REDIS_TLS", BOOLEAN, false).means("Uses TLS to Redis and its sentinels."),
  redisTlsCertFile: optional("REDIS_TLS_CLIENT_CERT", FILE).means("Client certificate for Redis, and its key."),
  redisTlsKeyFile: optional("REDIS_TLS_CLIENT_KEY", FILE).means("Client certificate for Redis, and its key."),
  redisTlsCaFile: optional("REDIS_TLS_CACERT", FILE).means("CA of Redis's certificate.", "public CAs"),
  redisTlsSkipsHostName: setting("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", BOOLEAN, false).means(
    "Accepts a certificate for another host name. Its CA is still checked.",
  ),
  redisConnectTimeoutMs: setting("REDIS_TIMEOUT", durationMs(10, 600_000), 2_000).means(
    "Maximum time to connect to Redis.",
  ),
  redisClusterTags: setting("REDIS_CLUSTER_TAGS", wholeNumber(1, 4_096), 16).means(
    "Hash tags over which a Redis Cluster's buckets spread: 4 to 8 per primary. All processes need the same number (docs/redis.md).",
  ),
  redisPerSecond: setting("REDIS_PERSECOND", BOOLEAN, false).means(
    "Keeps limits written per second in the Redis of REDIS_PERSECOND_URL, with the files of REDIS_TLS_*.",
  ),
  redisPerSecondUrl: optional("REDIS_PERSECOND_URL", REDIS_URL).means(
    "`host:port`, a socket's path, or a URL that may hold user, password and database: `redis://`, `unix://`, `redis-sentinel://host:port,host:port/name`, `redis-cluster://host:port,host:port`. `rediss` for `redis` uses TLS (docs/redis.md).",
  ),
  redisPerSecondType: optional("REDIS_PERSECOND_TYPE", oneOf(REDIS_TYPES)).means(
    "How to read a URL without a scheme: one server, sentinels (`name,host:port,...`) or a cluster (`host:port,...`).",
    "from the URL, else `single`",
  ),
  redisPerSecondAuth: optional("REDIS_PERSECOND_AUTH", SECRET).means("Password, or `user:password`."),
  redisPerSecondAuthFile: optional("REDIS_PERSECOND_AUTH_FILE", FILE).means(
    "File with the password, or `user:password`; reloaded for every connection.",
  ),
  redisPerSecondSentinelAuth: optional("REDIS_PERSECOND_SENTINEL_AUTH", SECRET).means(
    "The sentinels' password, or `user:password`.",
  ),
  redisPerSecondTls: setting("REDIS_PERSECOND_TLS", BOOLEAN, false).means("Uses TLS to Redis and its sentinels."),
  redisPerSecondConnectTimeoutMs: setting("REDIS_PERSECOND_TIMEOUT", durationMs(10, 600_000), 2_000).means(
    "Maximum time to connect to Redis.",
  ),
};

/** A name that PostgreSQL accepts without truncation, between double quotes. */
const SCHEMA_NAME = textLike(
  "text",
  "a name of up to 63 letters, digits and underscores, beginning with a letter",
  /^[a-z][a-z0-9_]{0,62}$/i,
);

const POSTGRES_ROWS = {
  postgresUrl: optional("POSTGRES_URL", POSTGRES_URL).means(
    "`postgres://user:password@host:port/database`, PostgreSQL 15 or newer. `?sslmode=verify-full` uses TLS; `verify-ca` and `require` use TLS and don't check the host name. `?host=/folder` uses the Unix socket there.",
  ),
  postgresPassword: optional("POSTGRES_PASSWORD", SECRET).means("Password, if not in POSTGRES_URL."),
  postgresPasswordFile: optional("POSTGRES_PASSWORD_FILE", FILE).means(
    "File with the password; reloaded for every connection.",
  ),
  postgresSchema: setting("POSTGRES_SCHEMA", SCHEMA_NAME, "headgate").means(
    "Schema for Headgate's tables and functions.",
  ),
  postgresConnections: setting("POSTGRES_CONNECTIONS", wholeNumber(1, 64), 4).means(
    "Connections for takes, per process; each carries one batch at a time. One more does upkeep.",
  ),
  postgresSynchronousCommit: setting("POSTGRES_SYNCHRONOUS_COMMIT", BOOLEAN, false).means(
    "Answers only once the payment is on disk and on synchronous standbys. `false`: a crash may lose the last 0.6 s of payments.",
  ),
  postgresTlsCaFile: optional("POSTGRES_TLS_CACERT", FILE).means("CA of PostgreSQL's certificate.", "public CAs"),
  postgresTlsCertFile: optional("POSTGRES_TLS_CLIENT_CERT", FILE).means(
    "Client certificate for PostgreSQL, and its key.",
  ),
  postgresTlsKeyFile: optional("POSTGRES_TLS_CLIENT_KEY", FILE).means(
    "Client certificate for PostgreSQL, and its key.",
  ),
};

export const STORE_SETTINGS = {
  backendType: optional("BACKEND_TYPE", oneOf(BACKEND_TYPES)).means(
    "Where buckets live: in this process, or in Redis or PostgreSQL, shared by all processes.",
    "`redis` if REDIS_URL is set, else `postgres` if POSTGRES_URL is set, else `memory`",
  ),
  bucketsMax: setting("BUCKETS_MAX", wholeNumber(1, 100_000_000), 1_000_000).means(
    "Maximum buckets in the memory store (above 16,383 up to 6 % more), at most 150 bytes each; beyond it, those nearest to full are dropped. Payments of `sliding_log` may take 134 bytes per bucket, 17 each; beyond it, the limit's `on_store_failure` decides.",
  ),
  memorySnapshot: optional("MEMORY_SNAPSHOT", SNAPSHOT_PATH).means(
    "File that keeps the memory store's buckets over a restart (docs/cores.md). Its folder must exist. One per process.",
  ),
  memorySnapshotIntervalMs: setting("MEMORY_SNAPSHOT_INTERVAL", durationMs(1_000, 86_400_000), 60_000).means(
    "How often the snapshot is written, besides at shutdown; a crash loses about this much.",
  ),
  denialsMax: setting("DENIALS_MAX", wholeNumber(0, 10_000_000), 100_000).means(
    "Maximum exhausted buckets remembered, up to a second each, to refuse without asking the shared store (docs/hot-keys.md). 0: always asks.",
  ),
  onStoreFailure: optional("ON_STORE_FAILURE", oneOf(ON_STORE_FAILURE_NAMES)).means(
    "What rules without `on_store_failure` do if the store fails.",
    "`allow`, under COMPATIBILITY_MODE `error`",
  ),
  storeDeadlineUs: setting("STORE_DEADLINE", durationUs(100, 60_000_000), 10_000).means(
    "Minimum wait for the store, unless the caller's deadline comes first.",
  ),
  storePatienceMs: setting("STORE_PATIENCE", durationMs(1, 60_000), 100).means(
    "Maximum wait for the store: half of what the call's deadline leaves, between STORE_DEADLINE and this; without a deadline, this.",
  ),
  expirationJitterSecondsMax: setting("EXPIRATION_JITTER_MAX_SECONDS", wholeNumber(0, 86_400), 300).means(
    "Maximum seconds that COMPATIBILITY_MODE's counters outlive their window in Redis. Other buckets live until they are full.",
  ),
  localCacheBytes: setting("LOCAL_CACHE_SIZE_IN_BYTES", wholeNumber(0, 17_179_869_184), 0).means(
    "Under COMPATIBILITY_MODE: bytes for counters over their limit, refused without the store until their window ends. 0: no cache. Less than 524288 counts as 524288.",
  ),
  cacheKeyPrefix: setting("CACHE_KEY_PREFIX", KEY_PREFIX, "").means("Prefix of every bucket key in the store."),
  ...REDIS_ROWS,
  ...POSTGRES_ROWS,
};
