// Which requests are told to come from a page of another site, by what browsers add to them.

import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { whyCrossSite, whyCrossSiteOnOpenPage } from "../../../src/admin/cross-site.ts";

type Fields = readonly (readonly [name: string, value: string])[];

function request(peer: string, ...fields: Fields): IncomingMessage {
  const headers: Record<string, string> = {};
  // Of several Node keeps the first.
  for (const [name, value] of fields) headers[name.toLowerCase()] ??= value;
  return { headers, rawHeaders: fields.flat(), socket: { remoteAddress: peer } } as unknown as IncomingMessage;
}

describe("a request passes", () => {
  test.each<{ name: string; peer: string; fields: Fields }>([
    { name: "of a program", peer: "10.0.0.7", fields: [["Host", "headgate.example.com"]] },
    { name: "of a program on this host", peer: "127.0.0.1", fields: [["Host", "localhost:8080"]] },
    { name: "by address", peer: "127.0.0.1", fields: [["Host", "192.168.1.7:8080"]] },
    { name: "by a name of one part", peer: "127.0.0.1", fields: [["Host", "headgate:8080"]] },
    {
      name: "of the page itself",
      peer: "10.0.0.7",
      fields: [
        ["Host", "h:8080"],
        ["Origin", "http://h:8080"],
        ["Sec-Fetch-Site", "same-origin"],
      ],
    },
    {
      name: "typed in by hand",
      peer: "10.0.0.7",
      fields: [
        ["Host", "h:8080"],
        ["Sec-Fetch-Site", "none"],
      ],
    },
    {
      name: "that a proxy beside us passed on",
      peer: "127.0.0.1",
      fields: [
        ["Host", "www.example.com"],
        ["X-Forwarded-For", "10.0.0.7"],
      ],
    },
  ])("$name", ({ peer, fields }) => {
    expect(whyCrossSiteOnOpenPage(request(peer, ...fields))).toBeUndefined();
  });
});

describe("a request is refused", () => {
  const host = ["Host", "localhost:8080"] as const;
  test.each<{ name: string; fields: Fields }>([
    { name: "with another origin", fields: [host, ["Origin", "http://evil.example"]] },
    { name: "with an origin that is none", fields: [host, ["Origin", "null"]] },
    { name: "with the origin of another port", fields: [host, ["Origin", "http://localhost:3000"]] },
    { name: "across sites", fields: [host, ["Sec-Fetch-Site", "cross-site"]] },
    { name: "of the same site", fields: [host, ["Sec-Fetch-Site", "same-site"]] },
    { name: "in words that no browser says", fields: [host, ["Sec-Fetch-Site", "same-origin, cross-site"]] },
    { name: "with two hosts", fields: [host, ["host", "evil.example"]] },
    { name: "with the same host twice", fields: [host, host] },
  ])("$name, from anywhere", ({ fields }) => {
    for (const peer of ["127.0.0.1", "10.0.0.7"]) {
      expect(whyCrossSite(request(peer, ...fields))).toBeDefined();
      expect(whyCrossSiteOnOpenPage(request(peer, ...fields))).toBeDefined();
    }
  });

  test("by a name that somebody had point to this host", () => {
    expect(whyCrossSiteOnOpenPage(request("127.0.0.1", ["Host", "evil.example:8080"]))).toBe("names another host");
  });
});
