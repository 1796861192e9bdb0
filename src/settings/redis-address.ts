// Parses REDIS_URL and REDIS_AUTH: a single server, a primary that sentinels know by name, or the seed nodes of a
// cluster. Opens nothing. redis-settings.ts combines them with the other settings.

import { nearestName } from "../base/near-name.ts";
import { unlessThrown } from "../base/thrown.ts";
import type { RedisAddress, RedisLogin, TcpAddress } from "./store-address.ts";
import { percentDecoded, SECRET, type SettingType } from "./value-types.ts";

/** Kinds of deployments, as REDIS_TYPE names them. */
export const REDIS_TYPES = ["single", "sentinel", "cluster"] as const;
type RedisType = (typeof REDIS_TYPES)[number];

/** Which servers to connect to. */
export type RedisPlace =
  | { readonly kind: "single"; readonly address: RedisAddress }
  | { readonly kind: "sentinel"; readonly primaryName: string; readonly sentinels: readonly TcpAddress[] }
  | { readonly kind: "cluster"; readonly seeds: readonly TcpAddress[] };

/** The parts of a REDIS_URL. */
export interface RedisUrl {
  readonly place: RedisPlace;
  /** Database number, 0 unless the URL names one. */
  readonly database: number;
  readonly login: RedisLogin | undefined;
  /** True for `rediss` schemes. */
  readonly usesTls: boolean;
}

const PORT_DEFAULT = 6_379;
const SENTINEL_PORT_DEFAULT = 26_379;
const DATABASE_MAX = 65_535;
const SERVERS_MAX = 64;

/** Kind and TLS of each URL scheme. */
const SCHEMES: Readonly<Record<string, { readonly type: RedisType; readonly usesTls: boolean }>> = {
  redis: { type: "single", usesTls: false },
  rediss: { type: "single", usesTls: true },
  unix: { type: "single", usesTls: false },
  "redis-sentinel": { type: "sentinel", usesTls: false },
  "rediss-sentinel": { type: "sentinel", usesTls: true },
  "redis-cluster": { type: "cluster", usesTls: false },
  "rediss-cluster": { type: "cluster", usesTls: true },
};

/** A mistake in the text. The message follows the setting's name in a line; it contains no secret. */
export class RedisUrlError extends Error {
  override readonly name = "RedisUrlError";
}

/**
 * Reads a URL with one of the schemes above, or text without a scheme, whose form depends on `type`: `host:port` or a
 * socket's path (single, the default), `name,host:port,...` (sentinel), `host:port,...` (cluster). Throws
 * RedisUrlError.
 */
export function parseRedisUrl(text: string, type: RedisType | undefined): RedisUrl {
  return parseUrl(/^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : urlOf(text, type), type);
}

/** The URL that text without a scheme means. */
function urlOf(text: string, type: RedisType = "single"): string {
  if (type === "cluster") return `redis-cluster://${text}`;
  if (type === "single")
    return /^\.?\//.test(text) ? `unix://${text.replace(/[%?#]/g, encodeURIComponent)}` : `redis://${text}`;
  const [, name, sentinels] = /^([^,/]*),(.*)$/.exec(text) ?? [];
  if (name === undefined)
    throw new RedisUrlError("expected the primary's name, then sentinels (name,host:port,host:port), got no such list");
  return `redis-sentinel://${sentinels}/${name.trim()}`;
}

/** Splits `user:password` at the first colon. Text without a colon is a password; `:a:b` is the password `a:b`. */
export function parseRedisAuth(text: string): RedisLogin {
  const colon = text.indexOf(":");
  if (colon < 0) return { username: undefined, password: text };
  return { username: colon === 0 ? undefined : text.slice(0, colon), password: text.slice(colon + 1) };
}

/** Shown without its login, and not at all if no REDIS_TYPE can read it: a URL that is not used was never checked. */
export const REDIS_URL: SettingType<string> = {
  ...SECRET,
  show(text) {
    const isRead = REDIS_TYPES.some((type) => unlessThrown(RedisUrlError, () => parseRedisUrl(text, type)));
    return isRead ? text.replace(/^([a-z][a-z0-9+.-]*:\/\/)?.*@/is, "$1[redacted]@") : SECRET.show(text);
  },
};

// A regex and not `URL`, which accepts no list of hosts with ports.
function parseUrl(text: string, type: RedisType | undefined): RedisUrl {
  const [, schemeText = "", beforePath = "", path = "", query = ""] =
    /^([^:]*):\/\/([^/?#]*)([^?#]*)(?:\?([^#]*))?$/s.exec(text) ?? [];
  const scheme = schemeText.toLowerCase();
  const { kind, usesTls } = readScheme(scheme, type);
  const at = beforePath.lastIndexOf("@");
  const login = at < 0 ? undefined : parseLogin(beforePath.slice(0, at));
  const hosts = beforePath.slice(at + 1);
  const { place, databaseText } = parsePlace(scheme === "unix" ? "unix" : kind, hosts, path);
  const database = databaseOf(databaseText === "" ? databaseTextOf(query) : databaseText);
  if (kind === "cluster" && database !== 0)
    throw new RedisUrlError("expected database 0, the only one in a cluster, got a different one");
  return { place, database, login, usesTls };
}

function readScheme(
  scheme: string,
  type: RedisType | undefined,
): { readonly kind: RedisType; readonly usesTls: boolean } {
  const known = SCHEMES[scheme];
  if (known === undefined) {
    // The scheme is not shown, because it may be the beginning of a misplaced password.
    const meant = nearestName(scheme, Object.keys(SCHEMES));
    const hint = meant === undefined ? "" : `; did you mean ${meant}://?`;
    throw new RedisUrlError(
      `expected host:port, the path of a socket, or a URL of redis, rediss, redis-sentinel, redis-cluster or unix, got a different scheme${hint}`,
    );
  }
  // As in other tools, a cluster may be given by the redis:// URL of one node.
  const kind = type === "cluster" && scheme.startsWith("redis") ? "cluster" : known.type;
  if (type !== undefined && type !== kind)
    throw new RedisUrlError(`expected a URL that fits REDIS_TYPE ${type}, got one of ${scheme}://`);
  return { kind, usesTls: known.usesTls };
}

function parsePlace(
  kind: RedisType | "unix",
  hosts: string,
  path: string,
): { readonly place: RedisPlace; readonly databaseText: string } {
  if (kind === "unix") {
    if (!/^\.?$/.test(hosts) || path === "")
      throw new RedisUrlError("expected unix:///path/to/socket, got no path or a host");
    return { place: { kind: "single", address: { kind: "unix", path: decoded(hosts + path) } }, databaseText: "" };
  }
  const parts = path.split("/").slice(1);
  if (kind === "sentinel") {
    const [name = "", databaseText = "", ...rest] = parts;
    const primaryName = decoded(name);
    if (!isName(primaryName))
      throw new RedisUrlError(
        "expected the primary's name after the sentinels (redis-sentinel://host:port,host:port/name), got none",
      );
    if (rest.length > 0) throw new RedisUrlError("expected at most a database after the primary's name, got more");
    const sentinels = parseList(hosts, SENTINEL_PORT_DEFAULT);
    return { place: { kind, primaryName, sentinels }, databaseText };
  }
  const [databaseText = "", ...rest] = parts;
  if (rest.length > 0) throw new RedisUrlError("expected at most a database number as the path, got more");
  if (kind === "cluster") return { place: { kind, seeds: parseList(hosts, PORT_DEFAULT) }, databaseText };
  if (hosts.includes(","))
    throw new RedisUrlError("expected one server, got several; redis-sentinel:// and redis-cluster:// take lists");
  return { place: { kind, address: parseServer(hosts, PORT_DEFAULT) }, databaseText };
}

function parseList(text: string, portDefault: number): TcpAddress[] {
  const parts = text.split(",");
  const servers = parts.map((one, i) => parseServer(one.trim(), portDefault, ` as server ${i + 1} of ${parts.length}`));
  if (servers.length > SERVERS_MAX)
    throw new RedisUrlError(`expected at most ${SERVERS_MAX} servers, got ${servers.length}`);
  return servers;
}

// `which` names the server's place in a list in messages. The text itself is not shown: it may contain a misplaced
// password.
function parseServer(text: string, portDefault: number, which = ""): TcpAddress {
  const match = /^(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined)
    throw new RedisUrlError(`expected host or host:port${which}, got ${text === "" ? "nothing" : "something else"}`);
  const port = match?.[3] === undefined ? portDefault : Number(match[3]);
  if (port < 1 || port > 65_535) throw new RedisUrlError(`expected a port from 1 to 65535${which}, got ${port}`);
  return { kind: "tcp", host, port };
}

function parseLogin(text: string): RedisLogin {
  const colon = text.indexOf(":");
  const username = decoded(colon < 0 ? text : text.slice(0, colon));
  const password = colon < 0 ? "" : decoded(text.slice(colon + 1));
  if (password === "") throw new RedisUrlError("expected user:password or :password before the @, got no password");
  return { username: username === "" ? undefined : username, password };
}

function databaseTextOf(query: string): string {
  const asked = /^(?:db=(.*))?$/s.exec(query);
  if (asked === null) throw new RedisUrlError("expected nothing but db after the question mark, got something else");
  return asked[1] ?? "";
}

function databaseOf(text: string): number {
  if (text === "") return 0;
  if (/^\d{1,5}$/.test(text) && Number(text) <= DATABASE_MAX) return Number(text);
  throw new RedisUrlError(`expected a database number from 0 to ${DATABASE_MAX}, got something else`);
}

function decoded(text: string): string {
  const found = percentDecoded(text);
  if (found === undefined) throw new RedisUrlError("expected two hex digits after each %, got something else");
  return found;
}

// The names that Sentinel accepts in its configuration.
function isName(text: string): boolean {
  return /^[\w.-]{1,256}$/.test(text);
}
