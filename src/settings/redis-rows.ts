// The settings of a Redis store, and of a second one for limits per second, as rows of the table.

import { REDIS_TYPES } from "./redis-address.ts";
import { optional, setting } from "./setting.ts";
import { BOOLEAN, durationMs, oneOf, PATH, TEXT, wholeNumber } from "./value-types.ts";

/** Field of Settings -> its variable; beside the other rows of the store. */
export const REDIS_ROWS = {
  redisUrl: optional(
    "REDIS_URL",
    TEXT,
    "Redis: `host:port`, the path of a socket, or a URL that may hold user, password and database: `redis://`, `unix://`, `redis-sentinel://host:port,host:port/name`, `redis-cluster://host:port,host:port`; `rediss://`, `rediss-sentinel://` and `rediss-cluster://` speak TLS (docs/operations.md).",
    { secret: true },
  ),
  redisType: optional(
    "REDIS_TYPE",
    oneOf(REDIS_TYPES),
    "Kind of set-up, for a REDIS_URL without a scheme: one server; `name,host:port,...` of sentinels; `host:port,...` of a cluster.",
    { defaultShown: "as REDIS_URL says, else `single`" },
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
  redisSentinelAuth: optional("REDIS_SENTINEL_AUTH", TEXT, "Password of the sentinels, or `user:password`.", {
    secret: true,
  }),
  redisSentinelAuthFile: optional(
    "REDIS_SENTINEL_AUTH_FILE",
    PATH,
    "File that holds what REDIS_SENTINEL_AUTH would; read again at every connect.",
    { isFile: true },
  ),
  redisSentinelTls: optional("REDIS_SENTINEL_TLS", BOOLEAN, "Speaks TLS with the sentinels.", {
    defaultShown: "as with Redis",
  }),
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
  redisClusterTags: setting(
    "REDIS_CLUSTER_TAGS",
    wholeNumber(1, 4_096),
    16,
    "In how many parts the buckets of a Redis Cluster are kept, each under one hash tag and so at one node; 4 to 8 for each primary. The same in all processes (docs/operations.md).",
  ),
  redisPerSecond: setting(
    "REDIS_PERSECOND",
    BOOLEAN,
    false,
    "Keeps limits that are written per second in a Redis of their own, that of REDIS_PERSECOND_URL.",
  ),
  redisPerSecondUrl: optional("REDIS_PERSECOND_URL", TEXT, "The Redis of limits per second, as REDIS_URL.", {
    secret: true,
  }),
  redisPerSecondType: optional("REDIS_PERSECOND_TYPE", oneOf(REDIS_TYPES), "As REDIS_TYPE, for that Redis.", {
    defaultShown: "as REDIS_PERSECOND_URL says, else `single`",
  }),
  redisPerSecondSocketType: optional(
    "REDIS_PERSECOND_SOCKET_TYPE",
    oneOf(["tcp", "unix"]),
    "Checked against REDIS_PERSECOND_URL.",
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
    "Speaks TLS with that Redis, with the files of REDIS_TLS_*.",
  ),
  redisPerSecondConnectTimeoutMs: setting(
    "REDIS_PERSECOND_TIMEOUT",
    durationMs(10, 600_000),
    2_000,
    "As REDIS_TIMEOUT, for that Redis.",
  ),
};
