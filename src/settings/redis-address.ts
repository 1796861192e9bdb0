// Where Redis is and how to log in, read from REDIS_URL, REDIS_SOCKET_TYPE and REDIS_AUTH. Opens nothing.

/** Where one Redis server listens. */
export type RedisAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** Name and password for AUTH; without a username it is the default user's password. */
export interface RedisLogin {
  readonly username: string | undefined;
  readonly password: string;
}

/** What a REDIS_URL says. */
export interface RedisUrl {
  readonly address: RedisAddress;
  /** Database number, 0 unless the URL names one. */
  readonly database: number;
  readonly login: RedisLogin | undefined;
  /** True for `rediss://`. */
  readonly usesTls: boolean;
}

const PORT_DEFAULT = 6_379;
const DATABASE_MAX = 65_535;

/** Reads `host:port`, `host`, `[ipv6]:port`, `/path/to/socket` or a redis://, rediss://, unix:// URL; else undefined. */
export function parseRedisUrl(text: string): RedisUrl | undefined {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return parseUrl(text);
  if (text.startsWith("/") || text.startsWith("./")) return plain({ kind: "unix", path: text });
  const match = /^(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = match?.[3] === undefined ? PORT_DEFAULT : Number(match[3]);
  if (host === undefined || port < 1 || port > 65_535) return undefined;
  return plain({ kind: "tcp", host, port });
}

/** Splits `user:password` at the first colon; text without a colon is a password, `:a:b` is the password `a:b`. */
export function parseRedisAuth(text: string): RedisLogin {
  const colon = text.indexOf(":");
  if (colon < 0) return { username: undefined, password: text };
  return { username: colon === 0 ? undefined : text.slice(0, colon), password: text.slice(colon + 1) };
}

/** The URL without its login. */
export function showRedisUrl(url: RedisUrl): string {
  const { address } = url;
  const at = address.kind === "unix" ? address.path : `${bracketed(address.host)}:${address.port}`;
  const login = url.login === undefined ? "" : "[redacted]@";
  const scheme = address.kind === "unix" ? "unix" : url.usesTls ? "rediss" : "redis";
  return `${scheme}://${login}${at}${url.database === 0 ? "" : address.kind === "unix" ? `?db=${url.database}` : `/${url.database}`}`;
}

function plain(address: RedisAddress): RedisUrl {
  return { address, database: 0, login: undefined, usesTls: false };
}

function parseUrl(text: string): RedisUrl | undefined {
  let url: URL;
  try {
    url = new URL(text);
  } catch (cause) {
    if (cause instanceof TypeError) return undefined;
    throw cause;
  }
  const login = loginOf(url);
  if (login === "malformed") return undefined;
  if (url.protocol === "unix:") {
    const database = databaseOf(url.searchParams.get("db") ?? "");
    const path = decoded(url.pathname);
    if (database === undefined || path === undefined || path === "" || url.host !== "") return undefined;
    return { address: { kind: "unix", path }, database, login, usesTls: false };
  }
  if ((url.protocol !== "redis:" && url.protocol !== "rediss:") || url.hostname === "" || url.port === "0")
    return undefined;
  const database = databaseOf(url.pathname.replace(/^\//, ""));
  if (database === undefined) return undefined;
  return {
    address: {
      kind: "tcp",
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port === "" ? PORT_DEFAULT : Number(url.port),
    },
    database,
    login,
    usesTls: url.protocol === "rediss:",
  };
}

function loginOf(url: URL): RedisLogin | undefined | "malformed" {
  if (url.username === "" && url.password === "") return undefined;
  const username = decoded(url.username);
  const password = decoded(url.password);
  if (username === undefined || password === undefined || password === "") return "malformed";
  return { username: username === "" ? undefined : username, password };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (cause instanceof URIError) return undefined;
    throw cause;
  }
}

function databaseOf(text: string): number | undefined {
  if (text === "") return 0;
  return /^\d{1,5}$/.test(text) && Number(text) <= DATABASE_MAX ? Number(text) : undefined;
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
