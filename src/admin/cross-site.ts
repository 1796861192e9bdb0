// Whether a request comes from a page of another site in somebody's browser. Such a page can send requests to ports that only the
// browser's host reaches; what tells them is what browsers add and pages can't change.

import type { IncomingMessage } from "node:http";

/** Exactly these: a mesh's proxy may call from 127.0.0.6 for somebody far away. */
const LOOPBACK_PEERS: readonly string[] = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i;
/** Set by proxies on what they pass on. */
const FORWARDED_HEADER = /^(?:x-forwarded-.*|forwarded|via|x-real-ip|x-envoy-.*)$/;
/** What browsers say of requests of the page's own origin, and of addresses typed in. */
const OWN_SITES: readonly (string | undefined)[] = [undefined, "none", "same-origin"];

/** Whether a socket's other end is on this host. */
export function isLoopback(peer: string | undefined): boolean {
  return peer !== undefined && LOOPBACK_PEERS.includes(peer);
}

/** Whether a Host names this host as seen from itself. */
export function isLoopbackHost(host: string | undefined): boolean {
  return LOOPBACK_HOST.test(host ?? "");
}

/** The header by which a proxy shows that it passed the request on. */
export function forwardedHeaderOf({ headers }: IncomingMessage): string | undefined {
  return Object.keys(headers).find((name) => FORWARDED_HEADER.test(name));
}

/** Why a page of another site may have sent the request, as the end of a sentence; undefined if nothing shows that. */
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
 * As whyCrossSite, for pages that callers on other hosts may use, who call this host by any name. A caller on this host uses few
 * names: another name may belong to a site whose owner has it point here.
 */
export function whyCrossSiteOnOpenPage(request: IncomingMessage): string | undefined {
  const why = whyCrossSite(request);
  if (why !== undefined || !isLoopback(request.socket.remoteAddress)) return why;
  const { host } = request.headers;
  const isNamed = host !== undefined && /[a-z]\.|\.[a-z]/i.test(host) && !isLoopbackHost(host);
  return isNamed && forwardedHeaderOf(request) === undefined ? "names another host" : undefined;
}
