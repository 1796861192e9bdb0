// The options of createLimiter: checked once, with defaults filled in. Needs no types of Node.js.

import type { CheckFailure, OnFailure } from "./failure.ts";
import { checkMembers, checkType, checkWhole, describeValue } from "./misuse.ts";

export interface LimiterOptions {
  /** At least one `host:port`, `unix:PATH`, or `dns:///NAME:PORT` for a name with several addresses. Used in turn. */
  readonly servers: readonly string[];
  /** Longest time of a check in milliseconds, with connecting: 1 to 2,147,483,647. Default: 100. */
  readonly deadlineMs?: number;
  /** What a check without a usable answer becomes. Default: `allow`. */
  readonly onFailure?: OnFailure;
  /** Called once for every check without a usable answer, for example to count them. Must not throw. */
  readonly onDegraded?: (failure: CheckFailure) => void;
  /** Interval of pings on connections, in milliseconds, which find dead connections. 0: no pings. Default: 20,000. */
  readonly keepaliveMs?: number;
  /** `true`: TLS with the public authorities. Default: no TLS. */
  readonly tls?: boolean | TlsOptions;
}

/** TLS to the servers. */
export interface TlsOptions {
  /** PEM of the authorities to trust. Default: the public ones. */
  readonly ca?: string | Uint8Array;
  /** PEM of the client's own certificate and its key: both or neither. */
  readonly cert?: string | Uint8Array;
  readonly key?: string | Uint8Array;
  /** The name in the servers' certificates, if it differs from the name in `servers`. */
  readonly serverName?: string;
}

/** The options with all defaults filled in. */
export interface CompleteOptions extends Required<Omit<LimiterOptions, "onDegraded" | "tls">> {
  readonly onDegraded: LimiterOptions["onDegraded"] | undefined;
  /** Undefined: no TLS. */
  readonly tls: TlsOptions | undefined;
}

/** The longest timer of Node.js; it would fire a longer one at once. */
export const TIMER_MS_MAX = 2_147_483_647;

const NAMES: readonly (keyof LimiterOptions)[] = [
  "servers",
  "deadlineMs",
  "onFailure",
  "onDegraded",
  "keepaliveMs",
  "tls",
];
const TLS_NAMES: readonly (keyof TlsOptions)[] = ["ca", "cert", "key", "serverName"];
const POLICIES: readonly OnFailure[] = ["allow", "deny", "throw"];

/** Throws TypeError for whatever would otherwise fail in every check. */
export function completeOptions(options: LimiterOptions): CompleteOptions {
  checkMembers("createLimiter", options, NAMES);
  const { servers, deadlineMs = 100, onFailure = "allow", onDegraded } = options;
  const { keepaliveMs = 20_000, tls = false } = options;
  checkServers(servers);
  checkWhole("deadlineMs", deadlineMs, 1, TIMER_MS_MAX);
  checkWhole("keepaliveMs", keepaliveMs, 0, TIMER_MS_MAX);
  checkType("onDegraded", onDegraded, "function");
  if (!POLICIES.includes(onFailure)) {
    throw new TypeError(`onFailure: expected one of ${POLICIES.join(", ")}, got ${describeValue(onFailure)}`);
  }
  if (typeof tls !== "boolean") checkTls(tls);
  return {
    servers: [...servers],
    deadlineMs,
    onFailure,
    onDegraded,
    keepaliveMs,
    tls: tls === true ? {} : tls === false ? undefined : tls,
  };
}

function checkServers(servers: unknown): void {
  if (!Array.isArray(servers) || servers.length === 0) {
    throw new TypeError(`servers: expected an array of at least one host:port, got ${describeValue(servers)}`);
  }
  for (const server of servers) {
    if (typeof server === "string" && isAddress(server)) continue;
    const hint = typeof server === "string" && /^\w+:\/\//.test(server) ? ", without a scheme such as http://" : "";
    throw new TypeError(`servers: expected host:port${hint}, got ${describeValue(server)}`);
  }
}

// What grpc-js takes for an address may never lead anywhere: without a port it would use 443.
function isAddress(server: string): boolean {
  if (server.startsWith("unix:")) return server.length > "unix:".length;
  const port = ADDRESS.exec(server)?.[1];
  return port !== undefined && Number(port) >= 1 && Number(port) <= 65_535;
}

/** A name or an IP address with its port, as a target of gRPC's resolvers or alone. */
const ADDRESS = /^(?:dns:(?:\/\/[^/]*\/)?|ipv4:|ipv6:)?(?:\[[\da-fA-F:.]+(?:%\w+)?\]|[\w.-]+):(\d{1,5})$/;

function checkTls(tls: TlsOptions): void {
  checkMembers("tls", tls, TLS_NAMES);
  if (tls.serverName !== undefined && (typeof tls.serverName !== "string" || tls.serverName === "")) {
    throw new TypeError(`tls.serverName: expected a name, got ${describeValue(tls.serverName)}`);
  }
}
