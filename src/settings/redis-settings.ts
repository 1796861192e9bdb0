// Joins the REDIS_* settings into one description of where Redis is and how to reach it, and finds what does not fit.

import { parseRedisAuth, parseRedisUrl, type RedisAddress, type RedisLogin, type RedisUrl } from "./redis-address.ts";
import type { TableValues } from "./table.ts";

/** What a TLS connection to Redis needs; files are PEM. */
export interface RedisTlsSettings {
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
  /** Undefined: the public authorities. */
  readonly caFile: string | undefined;
  readonly skipsHostName: boolean;
}

/** Where Redis is and how to reach it. */
export interface RedisSettings {
  readonly address: RedisAddress;
  readonly database: number;
  readonly login: RedisLogin | undefined;
  /** A file with the login, to be read at every connect; then `login` is undefined. */
  readonly loginFile: string | undefined;
  /** Undefined: no TLS. */
  readonly tls: RedisTlsSettings | undefined;
  readonly connectTimeoutMs: number;
}

/** Settles whether Redis is the store and, if so, how to reach it. Adds a line for everything that does not fit together. */
export function settleRedis(
  values: TableValues,
  mistakes: string[],
  warnings: string[],
): { readonly backendType: "memory" | "redis"; readonly redis: RedisSettings | undefined } {
  const url = values.redisUrl === undefined ? undefined : parseRedisUrl(values.redisUrl);
  if (values.redisUrl !== undefined && url === undefined) {
    mistakes.push(
      "REDIS_URL: expected host:port, the path of a socket, or one redis://, rediss:// or unix:// URL, got something else" +
        ` (${values.redisUrl.length} characters, not shown)`,
    );
  }
  const backendType = values.backendType ?? (values.redisUrl === undefined ? "memory" : "redis");
  if (backendType !== "redis") {
    if (values.redisUrl !== undefined)
      warnings.push(`REDIS_URL: without effect, because BACKEND_TYPE is ${backendType}`);
    return { backendType: "memory", redis: undefined };
  }
  if (values.redisUrl === undefined)
    mistakes.push("REDIS_URL: expected where Redis is, because BACKEND_TYPE is redis; got nothing");
  if (url === undefined) return { backendType, redis: undefined };
  checkSocketType(values, url, mistakes);
  const login = settleLogin(values, url, mistakes);
  const tls = settleTls(values, url, mistakes, warnings);
  return {
    backendType,
    redis: Object.freeze({
      address: Object.freeze(url.address),
      database: url.database,
      login: login === undefined ? undefined : Object.freeze(login),
      loginFile: values.redisAuthFile,
      tls: tls === undefined ? undefined : Object.freeze(tls),
      connectTimeoutMs: values.redisConnectTimeoutMs,
    }),
  };
}

function checkSocketType(values: TableValues, url: RedisUrl, mistakes: string[]): void {
  if (values.redisSocketType === undefined || values.redisSocketType === url.address.kind) return;
  const expected = values.redisSocketType === "unix" ? "the path of a socket in REDIS_URL" : "host:port in REDIS_URL";
  mistakes.push(
    `REDIS_SOCKET_TYPE: ${values.redisSocketType} expects ${expected}, which has ${url.address.kind === "unix" ? "a path" : "a host"}`,
  );
}

function settleLogin(values: TableValues, url: RedisUrl, mistakes: string[]): RedisLogin | undefined {
  const given = [
    url.login === undefined ? "" : "REDIS_URL",
    values.redisAuth === undefined ? "" : "REDIS_AUTH",
    values.redisAuthFile === undefined ? "" : "REDIS_AUTH_FILE",
  ].filter((name) => name !== "");
  if (given.length > 1)
    mistakes.push(`${given.join(", ")}: expected the login of Redis in one of them, got it in ${given.length}`);
  return values.redisAuth === undefined ? url.login : parseRedisAuth(values.redisAuth);
}

function settleTls(
  values: TableValues,
  url: RedisUrl,
  mistakes: string[],
  warnings: string[],
): RedisTlsSettings | undefined {
  const tls = {
    certFile: values.redisTlsCertFile,
    keyFile: values.redisTlsKeyFile,
    caFile: values.redisTlsCaFile,
    skipsHostName: values.redisTlsSkipsHostName,
  };
  if (!values.redisTls && !url.usesTls) {
    const isNamed = tls.certFile ?? tls.keyFile ?? tls.caFile;
    if (isNamed !== undefined || tls.skipsHostName) {
      warnings.push("REDIS_TLS_*: without effect, because REDIS_TLS is false and REDIS_URL is no rediss:// URL");
    }
    return undefined;
  }
  if (url.address.kind === "unix") mistakes.push("REDIS_TLS: expected false for a Unix socket, got true");
  if ((tls.certFile === undefined) !== (tls.keyFile === undefined)) {
    mistakes.push("REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY: expected both or neither, got one");
  }
  return tls;
}
