// Which requests are told to come from a page of another site, by what browsers add to them.

import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { whyCrossSite, whyCrossSiteOnOpenPage } from "../../../../src/operate/http/cross-site.ts";

type Fields = readonly (readonly [name: string, value: string])[];

function request(peer: string, ...fields: Fields): IncomingMessage {
  const headers: Record<string, string> = {};
  // Of several Node keeps the first.
  for (const [name, value] of fields) headers[name.toLowerCase()] ??= value;
  return { headers, rawHeaders: fields.flat(), socket: { remoteAddress: peer } } as unknown as IncomingMessage;
}

describe("a request passes", () => {
  const own = ["Host", "h:8080"] as const;
  test.each<readonly [string, string, Fields]>([
    ["of a program without a host", "10.0.0.7", []],
    ["of a program on this host", "127.0.0.1", [["Host", "localhost:8080"]]],
    ["by address", "127.0.0.1", [["Host", "192.168.1.7:8080"]]],
    ["by a name of one part", "127.0.0.1", [["Host", "headgate:8080"]]],
    ["of the page itself", "10.0.0.7", [own, ["Origin", "http://h:8080"], ["Sec-Fetch-Site", "same-origin"]]],
    ["typed in by hand", "10.0.0.7", [own, ["Sec-Fetch-Site", "none"]]],
  ])("%s", (_, peer, fields) => {
    expect(whyCrossSiteOnOpenPage(request(peer, ...fields), [])).toBeUndefined();
  });

  test.each([
    "10.0.0.7",
    "[::1]:8080",
    "localhost:8080",
    "tenant.localhost",
    "headgate:8080",
    "headgate.limits.svc.cluster.local.:8080",
    "Headgate.Limits.SVC",
    "ip-10-0-0-7.ec2.internal",
    "limits.example.com:8080",
    "eu.example.net",
  ])("to %s", (host) => {
    const hosts = ["limits.example.com", "*.example.net"];
    expect(whyCrossSiteOnOpenPage(request("10.0.0.7", ["Host", host]), hosts)).toBeUndefined();
  });
});

// Promise(input): A page of another site neither pays through `/json` nor reads the rules, not even by DNS rebinding.
describe("a request is refused", () => {
  const host = ["Host", "localhost:8080"] as const;
  test.each<{ name: string; fields: Fields }>([
    { name: "with another origin", fields: [host, ["Origin", "http://evil.example"]] },
    { name: "with an invalid origin", fields: [host, ["Origin", "null"]] },
    { name: "with the origin of another port", fields: [host, ["Origin", "http://localhost:3000"]] },
    { name: "across sites", fields: [host, ["Sec-Fetch-Site", "cross-site"]] },
    { name: "of the same site", fields: [host, ["Sec-Fetch-Site", "same-site"]] },
    { name: "in words that no browser says", fields: [host, ["Sec-Fetch-Site", "same-origin, cross-site"]] },
    { name: "with two hosts", fields: [host, ["host", "evil.example"]] },
    { name: "with the same host twice", fields: [host, host] },
  ])("$name, from anywhere", ({ fields }) => {
    for (const peer of ["127.0.0.1", "10.0.0.7"]) {
      expect(whyCrossSite(request(peer, ...fields))).toBeDefined();
      expect(whyCrossSiteOnOpenPage(request(peer, ...fields), [])).toBeDefined();
    }
  });

  /** All that a page may set on requests to its own origin, and that proxies set. */
  const FORWARDED = [
    "x-forwarded-for",
    "x-forwarded-host",
    "forwarded",
    "via",
    "x-real-ip",
    "x-envoy-internal",
    "x-any",
  ];

  test.each([
    "evil.example:8080",
    "evil.example.",
    "evil.example/.svc",
    "evil.example%00.svc",
    " .svc",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.7.:8080x",
    "0x7f.0.0.1",
    "evil.svc.example",
    "evil-example.net",
    "example.net",
    "evil.cluster.local",
    "headgate.limits",
    "evil.example:8080:8080",
    "[::1].evil.example",
    "evil.example@localhost:8080",
  ])("to %s, whatever other headers say", (host) => {
    const hosts = ["limits.example.com", "*.example.net"];
    for (const peer of ["127.0.0.1", "10.0.0.7"]) {
      for (const name of FORWARDED)
        expect(whyCrossSiteOnOpenPage(request(peer, ["Host", host], [name, "localhost"]), hosts)).toMatch(
          /^names a host that HTTP_HOSTS does not list/,
        );
    }
  });

  test.each([
    { host: "headgate.limits:8080", says: "set HTTP_HOSTS=*.example.net,headgate.limits" },
    { host: "Limits.Example.Com.", says: "set HTTP_HOSTS=*.example.net,limits.example.com" },
  ])("to $host, and say what would admit it", ({ host, says }) => {
    const why = whyCrossSiteOnOpenPage(request("10.0.0.7", ["Host", host]), ["*.example.net"]);
    expect(why).toBe(`names a host that HTTP_HOSTS does not list; if it is this port's own name, ${says}`);
  });
});
