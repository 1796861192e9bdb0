// Combines the REDIS_* settings into one RedisSettings and finds contradictions; the same for REDIS_PERSECOND_*, the
// second Redis.

import { checkBoth, checkOne } from "./mistakes.ts";
import { parseRedisAuth, parseRedisUrl, type RedisPlace, type RedisUrl, RedisUrlError } from "./redis-address.ts";
import type { RedisAccess, RedisLogin } from "./store-address.ts";
import type { BackendType } from "./store-table.ts";
import type { TableValues } from "./table.ts";

/** Where Redis is and how to reach it. */
export type RedisSettings = RedisAccess &
  (
    | Extract<RedisPlace, { kind: "single" | "cluster" }>
    | (Extract<RedisPlace, { kind: "sentinel" }> & { readonly sentinelAccess: RedisAccess })
  );

/** The fields of the settings of one of the two deployments begin with this. */
type Prefix = "redis" | "redisPerSecond";

/** How to reach Redis if it is the store. Adds a line to `mistakes` or `warnings` for each contradiction. */
export function redisOf(
  values: TableValues,
  backendType: BackendType,
  mistakes: string[],
  warnings: string[],
): Readonly<Record<"redis" | "perSecondRedis", RedisSettings | undefined>> {
  if (backendType !== "redis") {
    if (values.redisUrl !== undefined) warnings.push(`REDIS_URL: no effect, because BACKEND_TYPE is ${backendType}`);
    if (values.redisPerSecond) warnings.push("REDIS_PERSECOND: no effect, because Redis is not the store");
    return { redis: undefined, perSecondRedis: undefined };
  }
  if (values.redisUrl === undefined)
    mistakes.push("REDIS_URL: expected the address of Redis, because BACKEND_TYPE is redis; got nothing");
  const redis = oneRedisOf("redis", values, mistakes);
  const perSecondRedis = values.redisPerSecond ? oneRedisOf("redisPerSecond", values, mistakes) : undefined;
  if (values.redisPerSecond && values.redisPerSecondUrl === undefined)
    mistakes.push(
      "REDIS_PERSECOND_URL: expected the address of the second Redis, because REDIS_PERSECOND is true; got nothing",
    );
  checkTlsFiles(values, [redis, perSecondRedis], mistakes, warnings);
  return { redis, perSecondRedis };
}

/** Undefined without a usable URL. Both deployments use the first one's TLS files and sentinel settings. */
function oneRedisOf(prefix: Prefix, values: TableValues, mistakes: string[]): RedisSettings | undefined {
  const name = prefix === "redis" ? "REDIS" : "REDIS_PERSECOND";
  const text = values[`${prefix}Url`];
  if (text === undefined) return undefined;
  let url: RedisUrl;
  try {
    url = parseRedisUrl(text, values[`${prefix}Type`]);
  } catch (error) {
    if (!(error instanceof RedisUrlError)) throw error;
    mistakes.push(`${name}_URL: ${error.message.replace("REDIS_TYPE", `${name}_TYPE`)}`);
    return undefined;
  }
  const { place } = url;
  const files = Object.freeze({
    certFile: values.redisTlsCertFile,
    keyFile: values.redisTlsKeyFile,
    caFile: values.redisTlsCaFile,
    skipsHostName: values.redisTlsSkipsHostName,
  });
  const usesTls = values[`${prefix}Tls`] || url.usesTls;
  const connectTimeoutMs = values[`${prefix}ConnectTimeoutMs`];
  const loginOf = (whose: string, setting: string, auth?: string, file?: string, ofUrl?: RedisLogin) => {
    checkOne(`login of ${whose}`, { [`${name}_URL`]: ofUrl, [setting]: auth, [`${setting}_FILE`]: file }, mistakes);
    const login = auth === undefined ? ofUrl : parseRedisAuth(auth);
    return { login: login && Object.freeze(login), loginFile: file };
  };
  const access = {
    database: url.database,
    ...loginOf("Redis", `${name}_AUTH`, values[`${prefix}Auth`], values[`${prefix}AuthFile`], url.login),
    tls: usesTls ? files : undefined,
    connectTimeoutMs,
  };
  const sentinelAuth = values[`${prefix}SentinelAuth`];
  const sentinelFile = prefix === "redis" ? values.redisSentinelAuthFile : undefined;
  if (place.kind !== "sentinel") {
    const given = `${name}_SENTINEL_AUTH${sentinelAuth === undefined ? "_FILE" : ""}`;
    if ((sentinelAuth ?? sentinelFile) !== undefined)
      mistakes.push(`${given}: expected sentinels in ${name}_URL (redis-sentinel://), got none`);
    if (usesTls && place.kind === "single" && place.address.kind === "unix")
      mistakes.push(`${name}_TLS: expected false for a Unix socket, got true`);
    return Object.freeze({ ...place, ...access });
  }
  const sentinelAccess = Object.freeze({
    database: 0,
    ...loginOf("the sentinels", `${name}_SENTINEL_AUTH`, sentinelAuth, sentinelFile),
    tls: usesTls ? files : undefined,
    connectTimeoutMs,
  });
  return Object.freeze({ ...place, ...access, sentinelAccess });
}

function checkTlsFiles(
  { redisTlsCertFile: cert, redisTlsKeyFile: key, redisTlsCaFile: ca, redisTlsSkipsHostName: skips }: TableValues,
  deployments: readonly (RedisSettings | undefined)[],
  mistakes: string[],
  warnings: string[],
): void {
  const usesTls = deployments.some(
    (one) => one?.tls !== undefined || (one?.kind === "sentinel" && one.sentinelAccess.tls),
  );
  if (!usesTls) {
    if ((cert ?? key ?? ca) !== undefined || skips)
      warnings.push("REDIS_TLS_*: no effect, because REDIS_TLS is false and REDIS_URL is not a rediss:// URL");
    return;
  }
  checkBoth("REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY", cert, key, mistakes);
}
