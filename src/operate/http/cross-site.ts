// Detects requests that a page of another site may have sent from somebody's browser, even to ports that only the
// browser's host reaches. Browsers add headers to such requests that pages can't change.

import type { IncomingMessage } from "node:http";
import { isIPv4 } from "node:net";
import { type HttpAnswer, text, withHeaders } from "./page-server.ts";

/** No other address of 127.0.0.0/8: Istio's sidecar calls from 127.0.0.6 on behalf of remote callers. */
const LOOPBACK_PEERS: readonly string[] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** Headers that proxies set on requests that they pass on. */
const FORWARDED_HEADER = /^(?:x-forwarded-.*|forwarded|via|x-real-ip|x-envoy-.*)$/;
/** Names that nobody can register; names without a dot and addresses are private, too. */
const PRIVATE_HOSTS = ["*.localhost", "*.internal", "*.svc", "*.svc.cluster.local"];
/** A Host header; the name in it, or the address in brackets, without its last dot. */
const HOST_WITH_PORT = /^(\[[0-9a-f:.]+\]|[\w.-]+?)\.?(?::\d{1,5})?$/;
/** Values of Sec-Fetch-Site for requests of the page's own origin (same-origin) and for typed addresses (none). */
const OWN_SITES: readonly (string | undefined)[] = [undefined, "none", "same-origin"];

/** Whether the socket's other end is on this host. */
export function isLoopback(peer: string | undefined): boolean {
  return peer !== undefined && LOOPBACK_PEERS.includes(peer);
}

/** Whether a Host header names this host by a loopback name or address. */
export function isLoopbackHost(host: string | undefined): boolean {
  return LOOPBACK_HOST.test(host ?? "");
}

/** The name of the first header that shows a proxy on the way. */
export function forwardedHeaderOf({ headers }: IncomingMessage): string | undefined {
  return Object.keys(headers).find((name) => FORWARDED_HEADER.test(name));
}

/** Why a page of another site may have sent the request, as the end of a sentence; undefined if nothing shows it. */
export function whyCrossSite({ headers, rawHeaders }: IncomingMessage): string | undefined {
  const hosts = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === "host");
  if (hosts.length > 1) return "names several hosts";
  const { origin, host } = headers;
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return "comes from a page of another site";
  const site = headers["sec-fetch-site"];
  if (!OWN_SITES.includes(Array.isArray(site) ? site.join() : site)) return "comes from a page of another site";
  return undefined;
}

/**
 * Like whyCrossSite, for pages that callers on other hosts may use, too. `hosts` are names, in addition to the private
 * ones, by which callers may call this port (HTTP_HOSTS). No header lifts this check: a page can set almost all of them
 * on requests to its own origin.
 */
export function whyCrossSiteOnOpenPage(request: IncomingMessage, hosts: readonly string[]): string | undefined {
  const { host } = request.headers;
  // Only programs send no host.
  const isOurs = host === undefined || host === "" || isOwnHost(host, hosts);
  if (isOurs) return whyCrossSite(request);
  const name = nameIn(host);
  const remedy =
    name === undefined ? "" : `; if it is this port's own name, set HTTP_HOSTS=${[...hosts, name].join(",")}`;
  return `names a host that HTTP_HOSTS does not list${remedy}`;
}

function nameIn(host: string): string | undefined {
  return HOST_WITH_PORT.exec(host.toLowerCase())?.[1];
}

// The owner of a public name may point it at an address in here (DNS rebinding); then a page from there has this port's
// origin.
function isOwnHost(host: string, hosts: readonly string[]): boolean {
  const name = nameIn(host);
  if (name === undefined) return false;
  if (!name.includes(".") || name.startsWith("[") || isIPv4(name)) return true;
  return [...PRIVATE_HOSTS, ...hosts].some((one) => (one.startsWith("*") ? name.endsWith(one.slice(1)) : name === one));
}

/** The answer to a request that a page of another site may have sent; undefined for others. */
export function refuseForeign(request: IncomingMessage, hosts: readonly string[]): HttpAnswer | undefined {
  const why = whyCrossSiteOnOpenPage(request, hosts);
  if (why === undefined) return undefined;
  const answer = text(403, `403 only programs and this port's own pages may ask here; this request ${why}\n`);
  // The rest of the request is not read, so the connection can't be used again.
  return withHeaders(answer, { connection: "close" });
}
