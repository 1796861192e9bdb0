// Whether a page of another site, open in somebody's browser, may have sent a request. Such a page can send requests to ports that
// only the browser's host reaches. Headers that browsers add, and that pages can't change, tell its requests from others.

import type { IncomingMessage } from "node:http";

/** No other address of 127.0.0.0/8: Istio's sidecar calls from 127.0.0.6 on behalf of remote callers. */
const LOOPBACK_PEERS: readonly string[] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** Headers that proxies set on requests that they pass on. */
const FORWARDED_HEADER = /^(?:x-forwarded-.*|forwarded|via|x-real-ip|x-envoy-.*)$/;
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
 * Like whyCrossSite, for pages that callers on other hosts may use: they may call this host by any name. A caller on this host uses
 * only loopback names; another name may belong to a site whose owner has pointed it at 127.0.0.1 (DNS rebinding).
 */
export function whyCrossSiteOnOpenPage(request: IncomingMessage): string | undefined {
  const why = whyCrossSite(request);
  if (why !== undefined || !isLoopback(request.socket.remoteAddress)) return why;
  const { host } = request.headers;
  const isNamed = host !== undefined && /[a-z]\.|\.[a-z]/i.test(host) && !isLoopbackHost(host);
  return isNamed && forwardedHeaderOf(request) === undefined ? "names another host" : undefined;
}
