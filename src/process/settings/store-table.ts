// Settings of the store: where buckets are kept, and what happens when it does not answer.

import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { REDIS_TYPES } from "./redis-address.ts";
import { optional, setting } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
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
  redisUrl: optional("REDIS_URL", SECRET).means(
    "Redis: `host:port`, the path of a socket, or a URL that may hold user, password and database: `redis://`, `unix://`, `redis-sentinel://host:port,host:port/name`, `redis-cluster://host:port,host:port`; `rediss://`, `rediss-sentinel://` and `rediss-cluster://` use TLS (docs/redis.md).",
  ),
  redisType: optional("REDIS_TYPE", oneOf(REDIS_TYPES)).means(
    "How to read a REDIS_URL without a scheme: one server; sentinels as `name,host:port,...`; or a cluster as `host:port,...`.",
    "from REDIS_URL, else `single`",
  ),
  redisSocketType: optional("REDIS_SOCKET_TYPE", oneOf(["tcp", "unix"])).means(
    "Must agree with REDIS_URL.",
    "from REDIS_URL",
  ),
  redisAuth: optional("REDIS_AUTH", SECRET).means("Password of Redis, or `user:password`."),
  redisAuthFile: optional("REDIS_AUTH_FILE", FILE).means(
    "File with the content of REDIS_AUTH; reloaded for every connection, so that passwords can change.",
  ),
  redisSentinelAuth: optional("REDIS_SENTINEL_AUTH", SECRET).means("Password of the sentinels, or `user:password`."),
  redisSentinelAuthFile: optional("REDIS_SENTINEL_AUTH_FILE", FILE).means(
    "File with the content of REDIS_SENTINEL_AUTH; reloaded for every connection.",
  ),
  redisSentinelTls: optional("REDIS_SENTINEL_TLS", BOOLEAN).means("Uses TLS to the sentinels.", "same as for Redis"),
  redisTls: setting("REDIS_TLS", BOOLEAN, false).means("Uses TLS to Redis."),
  redisTlsCertFile: optional("REDIS_TLS_CLIENT_CERT", FILE).means("File of the client certificate (PEM)."),
  redisTlsKeyFile: optional("REDIS_TLS_CLIENT_KEY", FILE).means("File of the client certificate's key (PEM)."),
  redisTlsCaFile: optional("REDIS_TLS_CACERT", FILE).means(
    "File of the certificate authority for Redis's certificate (PEM).",
    "the public authorities",
  ),
  redisTlsSkipsHostName: setting("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", BOOLEAN, false).means(
    "Accepts a Redis certificate for a different host name. The authority is still checked.",
  ),
  redisConnectTimeoutMs: setting("REDIS_TIMEOUT", durationMs(10, 600_000), 2_000).means(
    "How long connecting to Redis may take.",
  ),
  redisClusterTags: setting("REDIS_CLUSTER_TAGS", wholeNumber(1, 4_096), 16).means(
    "Number of hash tags that share the buckets of a Redis Cluster: 4 to 8 for each primary. Buckets with the same tag are on one node. All processes need the same number (docs/redis.md).",
  ),
  redisPerSecond: setting("REDIS_PERSECOND", BOOLEAN, false).means(
    "Keeps limits written per second in a second Redis, REDIS_PERSECOND_URL.",
  ),
  redisPerSecondUrl: optional("REDIS_PERSECOND_URL", SECRET).means(
    "Redis for limits per second, written as REDIS_URL.",
  ),
  redisPerSecondType: optional("REDIS_PERSECOND_TYPE", oneOf(REDIS_TYPES)).means(
    "Same as REDIS_TYPE, for that Redis.",
    "from REDIS_PERSECOND_URL, else `single`",
  ),
  redisPerSecondSocketType: optional("REDIS_PERSECOND_SOCKET_TYPE", oneOf(["tcp", "unix"])).means(
    "Must agree with REDIS_PERSECOND_URL.",
    "from REDIS_PERSECOND_URL",
  ),
  redisPerSecondAuth: optional("REDIS_PERSECOND_AUTH", SECRET).means("Password of that Redis, or `user:password`."),
  redisPerSecondAuthFile: optional("REDIS_PERSECOND_AUTH_FILE", FILE).means("Same as REDIS_AUTH_FILE, for that Redis."),
  redisPerSecondSentinelAuth: optional("REDIS_PERSECOND_SENTINEL_AUTH", SECRET).means(
    "Password of that Redis's sentinels, or `user:password`.",
  ),
  redisPerSecondTls: setting("REDIS_PERSECOND_TLS", BOOLEAN, false).means(
    "Uses TLS to that Redis, with the files of REDIS_TLS_*.",
  ),
  redisPerSecondConnectTimeoutMs: setting("REDIS_PERSECOND_TIMEOUT", durationMs(10, 600_000), 2_000).means(
    "Same as REDIS_TIMEOUT, for that Redis.",
  ),
};

/** A name that PostgreSQL accepts without truncation, between double quotes. */
const SCHEMA_NAME = textLike(
  "text",
  "a name of up to 63 letters, digits and underscores, beginning with a letter",
  /^[a-z][a-z0-9_]{0,62}$/i,
);

const POSTGRES_ROWS = {
  postgresUrl: optional("POSTGRES_URL", SECRET).means(
    "PostgreSQL (15 or newer): `postgres://user:password@host:port/database`. `?sslmode=verify-full` uses TLS; `verify-ca` and `require` use TLS and do not check the host name. `?host=/folder` uses the Unix socket in that folder.",
  ),
  postgresPassword: optional("POSTGRES_PASSWORD", SECRET).means("Password of PostgreSQL."),
  postgresPasswordFile: optional("POSTGRES_PASSWORD_FILE", FILE).means(
    "File with the password; reloaded for every connection, so that passwords can change.",
  ),
  postgresSchema: setting("POSTGRES_SCHEMA", SCHEMA_NAME, "headgate").means(
    "Schema for the tables and functions that Headgate creates.",
  ),
  postgresConnections: setting("POSTGRES_CONNECTIONS", wholeNumber(1, 64), 4).means(
    "Connections to PostgreSQL for takes, per process. Each carries one batch at a time. One more connection counts processes and deletes expired rows.",
  ),
  postgresUnlogged: optional("POSTGRES_UNLOGGED", BOOLEAN).means(
    "`true` keeps the buckets out of PostgreSQL's write-ahead log. This is faster, but the buckets are empty after a crash and absent from standbys. `false` logs them again. All processes need the same value.",
    "as the tables are; new tables are logged",
  ),
  postgresSynchronousCommit: setting("POSTGRES_SYNCHRONOUS_COMMIT", BOOLEAN, false).means(
    "Answers a call only after its payment is on disk in PostgreSQL and on synchronous standbys. Otherwise a crash may lose the last 0.6 s of payments.",
  ),
  postgresTlsCaFile: optional("POSTGRES_TLS_CACERT", FILE).means(
    "File of the certificate authority for PostgreSQL's certificate (PEM).",
    "the public authorities",
  ),
  postgresTlsCertFile: optional("POSTGRES_TLS_CLIENT_CERT", FILE).means("File of the client certificate (PEM)."),
  postgresTlsKeyFile: optional("POSTGRES_TLS_CLIENT_KEY", FILE).means("File of the client certificate's key (PEM)."),
  postgresConnectTimeoutMs: setting("POSTGRES_TIMEOUT", durationMs(10, 600_000), 2_000).means(
    "How long connecting to PostgreSQL may take.",
  ),
};

export const STORE_SETTINGS = {
  backendType: optional("BACKEND_TYPE", oneOf(BACKEND_TYPES)).means(
    "Where buckets live: in this process, or in Redis or PostgreSQL, shared by all processes.",
    "`redis` if REDIS_URL is set, else `postgres` if POSTGRES_URL is set, else `memory`",
  ),
  bucketsMax: setting("BUCKETS_MAX", wholeNumber(1, 100_000_000), 1_000_000).means(
    "Maximum number of buckets in the memory store; above 16,383, up to 6 % more. A bucket takes at most 150 bytes, whatever its key. Beyond this bound, the store drops the buckets that are nearest to full.",
  ),
  slidingLogBytesMax: setting("SLIDING_LOG_BYTES_MAX", wholeNumber(65_536, 8_589_934_592), 134_217_728).means(
    "Maximum bytes for payments of `sliding_log` limits in the memory store, about 17 per payment. If a call needs more, the limit's `on_store_failure` decides.",
  ),
  memorySnapshot: optional("MEMORY_SNAPSHOT", SNAPSHOT_PATH).means(
    "Snapshot file that keeps the memory store's buckets over a restart (docs/cores.md). Its folder must exist. Only one process may use the file at a time.",
    "none is kept",
  ),
  memorySnapshotIntervalMs: setting("MEMORY_SNAPSHOT_INTERVAL", durationMs(1_000, 86_400_000), 60_000).means(
    "How often the snapshot is written; a crash loses about this much. It is also written at shutdown, within SHUTDOWN_GRACE or five seconds, whichever is longer.",
  ),
  denialsMax: setting("DENIALS_MAX", wholeNumber(0, 10_000_000), 100_000).means(
    "Maximum number of exhausted buckets that this process remembers, for up to a second each, to refuse without asking the shared store (docs/hot-keys.md). 0: always asks.",
  ),
  onStoreFailure: optional("ON_STORE_FAILURE", oneOf(ON_STORE_FAILURE_NAMES)).means(
    "Default for rules without `on_store_failure`: if the store fails, the call is allowed, denied, decided locally, or answered with an error.",
    "`allow`, under COMPATIBILITY_MODE `error`",
  ),
  storeDeadlineUs: setting("STORE_DEADLINE", durationUs(100, 60_000_000), 10_000).means(
    "Minimum time that a call waits for the store, unless the caller's deadline comes first.",
  ),
  storePatienceMs: setting("STORE_PATIENCE", durationMs(1, 60_000), 100).means(
    "Maximum time that a call waits for the store. Within it, a call waits for half of what the caller's deadline leaves, but at least for STORE_DEADLINE; without a deadline, for all of it.",
  ),
  storeQueueMax: setting("STORE_QUEUE_MAX", wholeNumber(1, 1_000_000), 16_384).means(
    "Maximum number of takes waiting for the store; a call has one take per limit. Any further take fails at once, as if the store had failed.",
  ),
  breakerWindowMs: setting("BREAKER_WINDOW", durationMs(100, 600_000), 1_000).means(
    "Time over which the breaker counts failures.",
  ),
  breakerCallsMin: setting("BREAKER_CALLS_MIN", wholeNumber(1, 1_000_000), 20).means(
    "Fewest store calls in the window before the breaker may open.",
  ),
  breakerFailureRatio: setting("BREAKER_FAILURE_RATIO", decimalNumber(0.01, 1), 0.5).means(
    "Share of failed store calls in the window that opens the breaker.",
  ),
  breakerProbeIntervalMs: setting("BREAKER_PROBE_INTERVAL", durationMs(10, 600_000), 250).means(
    "How often the open breaker probes the store with a call of its own.",
  ),
  expirationJitterSecondsMax: setting("EXPIRATION_JITTER_MAX_SECONDS", wholeNumber(0, 86_400), 300).means(
    "Counters of COMPATIBILITY_MODE live in Redis for their window and up to this many seconds longer. Headgate's own buckets live until they are full again.",
  ),
  localCacheBytes: setting("LOCAL_CACHE_SIZE_IN_BYTES", wholeNumber(0, 17_179_869_184), 0).means(
    "Under COMPATIBILITY_MODE: size of the cache of counters over their limit, which are refused without the store until their window ends. 0: no cache. Sizes below 524288 count as 524288.",
  ),
  cacheKeyPrefix: setting("CACHE_KEY_PREFIX", KEY_PREFIX, "").means("Prefix of every bucket key in the store."),
  ...REDIS_ROWS,
  ...POSTGRES_ROWS,
};
