// Rows of the store's table: the settings of Redis, and of a second Redis for limits per second.

import { REDIS_TYPES } from "./redis-address.ts";
import { optional, setting } from "./setting.ts";
import { BOOLEAN, durationMs, oneOf, PATH, TEXT, wholeNumber } from "./value-types.ts";

/** Rows by the field of Settings. */
export const REDIS_ROWS = {
  redisUrl: optional(
    "REDIS_URL",
    TEXT,
    "Redis: `host:port`, the path of a socket, or a URL that may hold user, password and database: `redis://`, `unix://`, `redis-sentinel://host:port,host:port/name`, `redis-cluster://host:port,host:port`; `rediss://`, `rediss-sentinel://` and `rediss-cluster://` use TLS (docs/operations.md).",
    { secret: true },
  ),
  redisType: optional(
    "REDIS_TYPE",
    oneOf(REDIS_TYPES),
    "What a REDIS_URL without a scheme names: one server; sentinels, as `name,host:port,...`; or a cluster, as `host:port,...`.",
    { defaultShown: "as REDIS_URL says, else `single`" },
  ),
  redisSocketType: optional("REDIS_SOCKET_TYPE", oneOf(["tcp", "unix"]), "Must agree with REDIS_URL.", {
    defaultShown: "as REDIS_URL says",
  }),
  redisAuth: optional("REDIS_AUTH", TEXT, "Password of Redis, or `user:password`.", { secret: true }),
  redisAuthFile: optional(
    "REDIS_AUTH_FILE",
    PATH,
    "File with the content of REDIS_AUTH. It is read again for every connection, so that passwords can change.",
    { isFile: true },
  ),
  redisSentinelAuth: optional("REDIS_SENTINEL_AUTH", TEXT, "Password of the sentinels, or `user:password`.", {
    secret: true,
  }),
  redisSentinelAuthFile: optional(
    "REDIS_SENTINEL_AUTH_FILE",
    PATH,
    "File with the content of REDIS_SENTINEL_AUTH. It is read again for every connection.",
    { isFile: true },
  ),
  redisSentinelTls: optional("REDIS_SENTINEL_TLS", BOOLEAN, "Uses TLS to the sentinels.", {
    defaultShown: "as with Redis",
  }),
  redisTls: setting("REDIS_TLS", BOOLEAN, false, "Uses TLS to Redis."),
  redisTlsCertFile: optional("REDIS_TLS_CLIENT_CERT", PATH, "File of the client certificate (PEM).", {
    isFile: true,
  }),
  redisTlsKeyFile: optional("REDIS_TLS_CLIENT_KEY", PATH, "File of the client certificate's key (PEM).", {
    isFile: true,
  }),
  redisTlsCaFile: optional(
    "REDIS_TLS_CACERT",
    PATH,
    "File of the certificate authority for Redis's certificate (PEM).",
    {
      isFile: true,
      defaultShown: "the public authorities",
    },
  ),
  redisTlsSkipsHostName: setting(
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    BOOLEAN,
    false,
    "Accepts a certificate of Redis that names another host. The authority is still checked.",
  ),
  redisConnectTimeoutMs: setting(
    "REDIS_TIMEOUT",
    durationMs(10, 600_000),
    2_000,
    "How long connecting to Redis may take.",
  ),
  redisClusterTags: setting(
    "REDIS_CLUSTER_TAGS",
    wholeNumber(1, 4_096),
    16,
    "Number of hash tags that share the buckets of a Redis Cluster: 4 to 8 for each primary. Buckets of one tag are at one node. All processes need the same number (docs/operations.md).",
  ),
  redisPerSecond: setting(
    "REDIS_PERSECOND",
    BOOLEAN,
    false,
    "Keeps limits that are written per second in a second Redis, REDIS_PERSECOND_URL.",
  ),
  redisPerSecondUrl: optional("REDIS_PERSECOND_URL", TEXT, "Redis for limits per second, written as REDIS_URL.", {
    secret: true,
  }),
  redisPerSecondType: optional("REDIS_PERSECOND_TYPE", oneOf(REDIS_TYPES), "As REDIS_TYPE, for that Redis.", {
    defaultShown: "as REDIS_PERSECOND_URL says, else `single`",
  }),
  redisPerSecondSocketType: optional(
    "REDIS_PERSECOND_SOCKET_TYPE",
    oneOf(["tcp", "unix"]),
    "Must agree with REDIS_PERSECOND_URL.",
    { defaultShown: "as REDIS_PERSECOND_URL says" },
  ),
  redisPerSecondAuth: optional("REDIS_PERSECOND_AUTH", TEXT, "Password of that Redis, or `user:password`.", {
    secret: true,
  }),
  redisPerSecondAuthFile: optional("REDIS_PERSECOND_AUTH_FILE", PATH, "As REDIS_AUTH_FILE, for that Redis.", {
    isFile: true,
  }),
  redisPerSecondSentinelAuth: optional(
    "REDIS_PERSECOND_SENTINEL_AUTH",
    TEXT,
    "Password of that Redis's sentinels, or `user:password`.",
    { secret: true },
  ),
  redisPerSecondTls: setting(
    "REDIS_PERSECOND_TLS",
    BOOLEAN,
    false,
    "Uses TLS to that Redis, with the files of REDIS_TLS_*.",
  ),
  redisPerSecondConnectTimeoutMs: setting(
    "REDIS_PERSECOND_TIMEOUT",
    durationMs(10, 600_000),
    2_000,
    "As REDIS_TIMEOUT, for that Redis.",
  ),
};
