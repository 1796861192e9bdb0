// Parses POSTGRES_URL, and shows it without its password. Opens nothing. postgres-settings.ts combines it with the
// other settings.

import type { PostgresTarget } from "./store-address.ts";
import { percentDecoded, SECRET, type SettingType } from "./value-types.ts";

/** The parts of a POSTGRES_URL. */
type PostgresUrl = Pick<PostgresTarget, "host" | "port" | "database" | "user" | "password"> & {
  readonly sslMode: SslMode;
};

export const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
export type SslMode = (typeof SSL_MODES)[number];
const PORT_DEFAULT = 5_432;

/** Reads a postgres:// or postgresql:// URL of one server, with a user and a database. Undefined for any other text. */
export function parsePostgresUrl(text: string): PostgresUrl | undefined {
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
