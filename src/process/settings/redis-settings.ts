// Combines the REDIS_* settings into one RedisSettings and finds contradictions. Does so too for the second Redis of limits per second
// (REDIS_PERSECOND_*).

import type { RedisAccess, RedisLogin } from "../../stores/store-address.ts";
import { checkBoth } from "./mistakes.ts";
import { parseRedisAuth, parseRedisUrl, type RedisPlace, type RedisUrl, RedisUrlError } from "./redis-address.ts";
import type { BackendType } from "./store-table.ts";
import type { TableValues } from "./table.ts";

/** Where Redis is and how to reach it. */
export type RedisSettings = RedisAccess &
  (
    | Extract<RedisPlace, { kind: "single" | "cluster" }>
    | (Extract<RedisPlace, { kind: "sentinel" }> & { readonly sentinelAccess: RedisAccess })
  );

/** The Redis deployments that the settings describe. */
interface SettledRedis {
  readonly redis: RedisSettings | undefined;
  /** The Redis of limits per second, if they have one of their own. */
  readonly perSecondRedis: RedisSettings | undefined;
}

/** The settings of one of the two deployments. */
type Inputs = ReturnType<typeof mainInputs>;

/** How to reach Redis if it is the store. Adds a line to `mistakes` or `warnings` for each contradiction. */
export function settleRedis(
  values: TableValues,
  backendType: BackendType,
  mistakes: string[],
  warnings: string[],
): SettledRedis {
  if (backendType !== "redis") {
    if (values.redisUrl !== undefined)
      warnings.push(`REDIS_URL: without effect, because BACKEND_TYPE is ${backendType}`);
    if (values.redisPerSecond) warnings.push("REDIS_PERSECOND: without effect, because Redis is not the store");
    return { redis: undefined, perSecondRedis: undefined };
  }
  if (values.redisUrl === undefined)
    mistakes.push("REDIS_URL: expected where Redis is, because BACKEND_TYPE is redis; got nothing");
  const redis = settleOne(mainInputs(values), values, mistakes);
  const perSecondRedis = values.redisPerSecond ? settleOne(perSecondInputs(values), values, mistakes) : undefined;
  if (values.redisPerSecond && values.redisPerSecondUrl === undefined)
    mistakes.push(
      "REDIS_PERSECOND_URL: expected the Redis of limits per second, because REDIS_PERSECOND is true; got nothing",
    );
  checkTlsFiles(values, [redis, perSecondRedis], mistakes, warnings);
  return { redis, perSecondRedis };
}

function mainInputs(values: TableValues) {
  return {
    prefix: "REDIS",
    url: values.redisUrl,
    type: values.redisType,
    socketType: values.redisSocketType,
    auth: values.redisAuth,
    authFile: values.redisAuthFile,
    tls: values.redisTls,
    sentinelAuth: values.redisSentinelAuth,
    sentinelAuthFile: values.redisSentinelAuthFile,
    sentinelTls: values.redisSentinelTls,
    connectTimeoutMs: values.redisConnectTimeoutMs,
  };
}

function perSecondInputs(values: TableValues): Inputs {
  return {
    prefix: "REDIS_PERSECOND",
    url: values.redisPerSecondUrl,
    type: values.redisPerSecondType,
    socketType: values.redisPerSecondSocketType,
    auth: values.redisPerSecondAuth,
    authFile: values.redisPerSecondAuthFile,
    tls: values.redisPerSecondTls,
    sentinelAuth: values.redisPerSecondSentinelAuth,
    sentinelAuthFile: undefined,
    sentinelTls: values.redisSentinelTls,
    connectTimeoutMs: values.redisPerSecondConnectTimeoutMs,
  };
}

function settleOne(inputs: Inputs, values: TableValues, mistakes: string[]): RedisSettings | undefined {
  if (inputs.url === undefined) return undefined;
  let url: RedisUrl;
  try {
    url = parseRedisUrl(inputs.url, inputs.type);
  } catch (error) {
    if (!(error instanceof RedisUrlError)) throw error;
    mistakes.push(`${inputs.prefix}_URL: ${error.message.replace("REDIS_TYPE", `${inputs.prefix}_TYPE`)}`);
    return undefined;
  }
  checkSocketType(inputs, url, mistakes);
  const { prefix, connectTimeoutMs } = inputs;
  const files = Object.freeze({
    certFile: values.redisTlsCertFile,
    keyFile: values.redisTlsKeyFile,
    caFile: values.redisTlsCaFile,
    skipsHostName: values.redisTlsSkipsHostName,
  });
  const usesTls = inputs.tls || url.usesTls;
  const access = {
    database: url.database,
    ...loginOf("Redis", [`${prefix}_URL`, url.login], [`${prefix}_AUTH`, inputs.auth, inputs.authFile], mistakes),
    tls: usesTls ? files : undefined,
    connectTimeoutMs,
  };
  const { place } = url;
  const { sentinelAuth: auth, sentinelAuthFile: authFile } = inputs;
  if (place.kind !== "sentinel") {
    const name = auth === undefined ? `${prefix}_SENTINEL_AUTH_FILE` : `${prefix}_SENTINEL_AUTH`;
    if ((auth ?? authFile) !== undefined)
      mistakes.push(`${name}: expected sentinels in ${prefix}_URL (redis-sentinel://), got none`);
    if (usesTls && place.kind === "single" && place.address.kind === "unix")
      mistakes.push(`${prefix}_TLS: expected false for a Unix socket, got true`);
    return Object.freeze({ ...place, ...access });
  }
  const sentinelAccess = Object.freeze({
    database: 0,
    ...loginOf(
      "the sentinels",
      [`${prefix}_URL`, url.sentinelLogin],
      [`${prefix}_SENTINEL_AUTH`, auth, authFile],
      mistakes,
    ),
    tls: (url.sentinelUsesTls ?? inputs.sentinelTls ?? usesTls) ? files : undefined,
    connectTimeoutMs,
  });
  return Object.freeze({ ...place, ...access, sentinelAccess });
}

function checkSocketType({ prefix, socketType }: Inputs, { place }: RedisUrl, mistakes: string[]): void {
  const kind = place.kind === "single" ? place.address.kind : "tcp";
  if (socketType === undefined || socketType === kind) return;
  const expected = socketType === "unix" ? "the path of a socket" : "host:port";
  const has = kind === "unix" ? "a path" : "a host";
  mistakes.push(`${prefix}_SOCKET_TYPE: ${socketType} expects ${expected} in ${prefix}_URL, which has ${has}`);
}

/** The login, and the file that has it. Adds a mistake if more than one place gives a login. */
function loginOf(
  whose: string,
  [urlName, fromUrl]: readonly [string, RedisLogin | undefined],
  [name, auth, file]: readonly [string, string | undefined, string | undefined],
  mistakes: string[],
): Pick<RedisAccess, "login" | "loginFile"> {
  const given = [fromUrl && urlName, auth && name, file && `${name}_FILE`].filter((one) => one !== undefined);
  if (given.length > 1)
    mistakes.push(`${given.join(", ")}: expected the login of ${whose} in one of them, got it in ${given.length}`);
  const login = auth === undefined ? fromUrl : parseRedisAuth(auth);
  return { login: login && Object.freeze(login), loginFile: file };
}

function checkTlsFiles(
  { redisTlsCertFile: cert, redisTlsKeyFile: key, redisTlsCaFile: ca, redisTlsSkipsHostName: skips }: TableValues,
  settled: readonly (RedisSettings | undefined)[],
  mistakes: string[],
  warnings: string[],
): void {
  const usesTls = settled.some((one) => one?.tls !== undefined || (one?.kind === "sentinel" && one.sentinelAccess.tls));
  if (!usesTls) {
    if ((cert ?? key ?? ca) !== undefined || skips)
      warnings.push("REDIS_TLS_*: without effect, because REDIS_TLS is false and REDIS_URL is no rediss:// URL");
    return;
  }
  checkBoth("REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY", cert, key, mistakes);
}
