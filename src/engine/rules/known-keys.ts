// Keys of entries that say by their name who sets their values. A value that callers choose can be changed by them to
// dodge a limit.

import { foldName } from "../../base/near-name.ts";

interface KnownKeys {
  /** Without case and separators. */
  readonly names: readonly string[];
  /**
   * A value that callers send for `value` and that means the same to the service behind. Undefined: they can't choose.
   */
  readonly dodge?: (value: string) => string;
}

const KNOWN: readonly KnownKeys[] = [
  // Envoy's actions whose value the route names: generic_key, header_value_match, query_parameter_value_match,
  // remote_address_match.
  { names: ["generickey", "headermatch", "querymatch", "remoteaddressmatch"] },
  // The cluster that Envoy's route leads to, and the one that Envoy was started with.
  { names: ["destinationcluster", "sourcecluster"] },
  // The connection's own address, which callers can't choose.
  { names: ["remoteaddress", "maskedremoteaddress"] },
  // Services ignore parameters that they don't know; many also ignore a slash at the end, doubled ones, and %2e for a
  // dot.
  {
    names: ["path", "requestpath", "urlpath", "originalpath", "xenvoyoriginalpath", "url", "uri", "requesturi"],
    dodge: (value) => `${value}${value.includes("?") ? "&" : "?"}x=1`,
  },
  // Names of hosts have no case, and Envoy routes `host:port` as `host`.
  { names: ["host", "hostname", "httphost", "authority"], dodge: (value) => `${value}:443` },
  // Headers that nobody checks.
  {
    names: [
      "useragent",
      "referer",
      "referrer",
      "origin",
      "acceptlanguage",
      "header",
      "requestheader",
      "query",
      "querystring",
    ],
    dodge: (value) => `${value}x`,
  },
];

const BY_NAME = new Map(KNOWN.flatMap((known) => known.names.map((name) => [name, known] as const)));

/**
 * Whether routes or a control plane fix the values of the key. Envoy Gateway uses one text as key and value for its
 * routes and rules.
 */
export function isSetByOperators(key: string, value: string): boolean {
  if (key === value) return true;
  const known = BY_NAME.get(foldName(key));
  return known !== undefined && known.dodge === undefined;
}

/**
 * Another value with which callers could get around a rule for this one; undefined unless the key is known for that.
 */
export function dodgeOf(key: string, value: string): string | undefined {
  return BY_NAME.get(foldName(key))?.dodge?.(value);
}

/** Folded names of entries that usually carry addresses. */
const ADDRESS_NAMES: ReadonlySet<string> = new Set([
  "remoteaddress",
  "maskedremoteaddress",
  "remoteaddr",
  "remoteip",
  "clientip",
  "clientaddress",
  "clientaddr",
  "sourceip",
  "sourceaddress",
  "srcip",
  "peerip",
  "peeraddress",
  "userip",
  "ip",
  "ipaddress",
  "ipaddr",
  "address",
  "xforwardedfor",
  "forwardedfor",
  "forwarded",
  "xff",
  "xrealip",
  "realip",
  "xclientip",
  "xenvoyexternaladdress",
  "trueclientip",
  "cfconnectingip",
  "fastlyclientip",
  "flyclientip",
  "xazureclientip",
  "xoriginalforwardedfor",
]);

/** Whether values of the key are probably addresses. */
export function looksLikeAddress(key: string): boolean {
  return ADDRESS_NAMES.has(foldName(key));
}
