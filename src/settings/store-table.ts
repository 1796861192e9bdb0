// Settings of where buckets live and what happens when the store does not answer.

import { ON_STORE_FAILURE_NAMES } from "../core/limit.ts";
import { POSTGRES_ROWS } from "./postgres-rows.ts";
import { optional, setting, under } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  durationUs,
  KEY_PREFIX,
  oneOf,
  PATH,
  TEXT,
  wholeNumber,
} from "./value-types.ts";

export const STORE_SETTINGS = under("Store", {
  backendType: optional(
    "BACKEND_TYPE",
    oneOf(["memory", "redis", "postgres"]),
    "Where buckets live: in this process, or in Redis or PostgreSQL, shared by all processes.",
    {
      defaultShown: "redis if REDIS_URL is set, else memory",
    },
  ),
  bucketsMax: setting(
    "BUCKETS_MAX",
    wholeNumber(1, 100_000_000),
    1_000_000,
    "Most buckets that the memory store holds; the ones nearest to being as new give way.",
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
    "The same for calls whose own deadline leaves at least twice as long, or that have none: there is no need to answer them without the store so soon.",
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
  redisUrl: optional(
    "REDIS_URL",
    TEXT,
    "Redis server: `host:port`, the path of a socket, or a URL (`redis://`, `rediss://`, `unix://`) that may hold user, password and database.",
    { secret: true },
  ),
  redisType: setting(
    "REDIS_TYPE",
    oneOf(["single"]),
    "single",
    "Kind of Redis set-up. Cluster and Sentinel are not supported yet.",
  ),
  redisSocketType: optional("REDIS_SOCKET_TYPE", oneOf(["tcp", "unix"]), "Checked against REDIS_URL.", {
    defaultShown: "as REDIS_URL says",
  }),
  redisAuth: optional("REDIS_AUTH", TEXT, "Password of Redis, or `user:password`.", { secret: true }),
  redisAuthFile: optional(
    "REDIS_AUTH_FILE",
    PATH,
    "File that holds what REDIS_AUTH would; read again at every connect, so that passwords can change.",
    { isFile: true },
  ),
  redisTls: setting("REDIS_TLS", BOOLEAN, false, "Speaks TLS with Redis."),
  redisTlsCertFile: optional("REDIS_TLS_CLIENT_CERT", PATH, "File of the client certificate (PEM).", {
    isFile: true,
  }),
  redisTlsKeyFile: optional("REDIS_TLS_CLIENT_KEY", PATH, "File of the client certificate's key (PEM).", {
    isFile: true,
  }),
  redisTlsCaFile: optional(
    "REDIS_TLS_CACERT",
    PATH,
    "File of the certificate authority that Redis's certificate must come from (PEM).",
    {
      isFile: true,
      defaultShown: "the public authorities",
    },
  ),
  redisTlsSkipsHostName: setting(
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    BOOLEAN,
    false,
    "Accepts a certificate of Redis that names another host. Its authority is still checked.",
  ),
  redisConnectTimeoutMs: setting(
    "REDIS_TIMEOUT",
    durationMs(10, 600_000),
    2_000,
    "How long a connection to Redis may take to come about.",
  ),
  ...POSTGRES_ROWS,
});
