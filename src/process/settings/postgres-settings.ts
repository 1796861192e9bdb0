// Combines the POSTGRES_* settings into one PostgresTarget and finds contradictions. Opens nothing.

import type { ClientTls, PostgresTarget } from "../../stores/store-address.ts";
import { checkBoth, checkOne } from "./mistakes.ts";
import type { BackendType } from "./store-table.ts";
import type { TableValues } from "./table.ts";
import { percentDecoded, SECRET, type SettingType } from "./value-types.ts";

/** The parts of a POSTGRES_URL. */
type PostgresUrl = Pick<PostgresTarget, "host" | "port" | "database" | "user" | "password"> & {
  readonly sslMode: SslMode;
};

const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
type SslMode = (typeof SSL_MODES)[number];
const PORT_DEFAULT = 5_432;

/** Reads a postgres:// or postgresql:// URL of one server, with a user and a database. Undefined for any other text. */
function parsePostgresUrl(text: string): PostgresUrl | undefined {
  // URL requires a host after a user; a socket has none, so one is inserted.
  const whole = text.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#@]*@)?)(?=[:/])/, "$1socket");
  if (!URL.canParse(whole)) return undefined;
  const url = new URL(whole);
  if (!/^postgres(?:ql)?:$/.test(url.protocol) || url.port === "0" || !hasKnownParameters(url)) return undefined;
  const [user, password, database] = [url.username, url.password, url.pathname.slice(1)].map(percentDecoded);
  const host = hostOf(url, whole === text);
  const sslMode = SSL_MODES.find((mode) => mode === (url.searchParams.get("sslmode") ?? "disable"));
  if (!user || !database || database.includes("/") || !host || password === undefined || sslMode === undefined)
    return undefined;
  const port = url.port === "" ? PORT_DEFAULT : Number(url.port);
  return { host, port, database, user, password: password === "" ? undefined : password, sslMode };
}

/** The folder of a socket if `host` is a parameter, else the URL's own host. */
function hostOf({ hostname, searchParams }: URL, hasOwnHost: boolean): string | undefined {
  const folder = searchParams.get("host");
  if (folder !== null) return folder.startsWith("/") ? folder : undefined;
  return hasOwnHost ? percentDecoded(hostname)?.replace(/^\[|\]$/g, "") : undefined;
}

function hasKnownParameters({ searchParams }: URL): boolean {
  return [...searchParams.keys()].every((key) => key === "host" || key === "sslmode");
}

/** Shown without its password, and not at all if it can't be read. */
export const POSTGRES_URL: SettingType<string> = {
  ...SECRET,
  show: (text) =>
    parsePostgresUrl(text) === undefined ? SECRET.show(text) : text.replace(/^(\w+:\/\/[^:@/?#]*).*@/s, "$1@"),
};

/** How to reach PostgreSQL if it is the store, else undefined. Adds a line to `mistakes` or `warnings` for each contradiction. */
export function settlePostgres(
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
    connectTimeoutMs: values.postgresConnectTimeoutMs,
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
