// Combines the POSTGRES_* settings into one PostgresTarget and finds contradictions. Opens nothing.

import { checkBoth, checkOne } from "./mistakes.ts";
import { parsePostgresUrl, SSL_MODES, type SslMode } from "./postgres-address.ts";
import type { ClientTls, PostgresTarget } from "./store-address.ts";
import type { BackendType } from "./store-table.ts";
import type { TableValues } from "./table.ts";

const CONNECT_TIMEOUT_MS = 2_000;

/**
 * How to reach PostgreSQL if it is the store, else undefined. Adds a line to `mistakes` or `warnings` for each
 * contradiction.
 */
export function postgresOf(
  values: TableValues,
  backendType: BackendType,
  mistakes: string[],
  warnings: string[],
): PostgresTarget | undefined {
  if (backendType !== "postgres") {
    if (values.postgresUrl !== undefined) {
      warnings.push(
        `POSTGRES_URL: no effect, because ${values.backendType === undefined ? "REDIS_URL is set" : `BACKEND_TYPE is ${values.backendType}`}`,
      );
    }
    return undefined;
  }
  if (values.postgresUrl === undefined) {
    mistakes.push("POSTGRES_URL: expected the address of PostgreSQL, because BACKEND_TYPE is postgres; got nothing");
    return undefined;
  }
  const url = parsePostgresUrl(values.postgresUrl);
  if (url === undefined) {
    mistakes.push(
      "POSTGRES_URL: expected postgres://user:password@host:port/database, with no parameters but host and sslmode" +
        ` (${SSL_MODES.join(", ")}), got something else (${values.postgresUrl.length} characters, not shown)`,
    );
    return undefined;
  }
  const { sslMode, ...address } = url;
  const { postgresPassword, postgresPasswordFile: passwordFile } = values;
  const given = {
    POSTGRES_URL: url.password,
    POSTGRES_PASSWORD: postgresPassword,
    POSTGRES_PASSWORD_FILE: passwordFile,
  };
  checkOne("password of PostgreSQL", given, mistakes);
  return Object.freeze({
    ...address,
    password: values.postgresPassword ?? url.password,
    passwordFile,
    tls: tlsOf(sslMode, values, mistakes, warnings),
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
  });
}

function tlsOf(sslMode: SslMode, values: TableValues, mistakes: string[], warnings: string[]): ClientTls | undefined {
  const { postgresTlsCertFile: certFile, postgresTlsKeyFile: keyFile, postgresTlsCaFile: caFile } = values;
  if (sslMode === "disable") {
    if ((certFile ?? keyFile ?? caFile) !== undefined)
      warnings.push("POSTGRES_TLS_*: no effect, because POSTGRES_URL has no sslmode");
    return undefined;
  }
  checkBoth("POSTGRES_TLS_CLIENT_CERT, POSTGRES_TLS_CLIENT_KEY", certFile, keyFile, mistakes);
  return Object.freeze({ certFile, keyFile, caFile, skipsHostName: sslMode !== "verify-full" });
}
