// Who may use the guarded pages, by what a request's socket and headers say.

import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { judgeAccess } from "../../../../src/operate/http/access.ts";
import { Tokens } from "../../../../src/operate/http/tokens.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const TOKEN = "correct-horse-battery-staple";

function tokens(token?: string): Tokens {
  return new Tokens({ adminToken: token, adminTokenFile: undefined }, new ManualClock(), {} as never);
}

function request(remoteAddress: string | undefined, headers: Readonly<Record<string, string>>): IncomingMessage {
  return {
    headers,
    rawHeaders: Object.entries(headers).flat(),
    socket: { remoteAddress },
  } as unknown as IncomingMessage;
}

function judge(given: IncomingMessage, token?: string): string {
  const judgement = judgeAccess(given, tokens(token));
  return "caller" in judgement
    ? `${judgement.caller.who} at ${judgement.caller.peer}`
    : String(judgement.refusal.status);
}

describe("without a token", () => {
  test.each([
    { name: "IPv4", peer: "127.0.0.1", host: "localhost:8080" },
    { name: "IPv6", peer: "::1", host: "[::1]:8080" },
    { name: "IPv4 on an IPv6 socket", peer: "::ffff:127.0.0.1", host: "127.0.0.1" },
  ])("allows a caller on the same host by $name", ({ peer, host }) => {
    expect(judge(request(peer, { host }))).toBe(`local at ${peer}`);
  });

  test("allows a page of the service itself", () => {
    expect(judge(request("127.0.0.1", { host: "localhost:8080", origin: "http://localhost:8080" }))).toMatch(/^local/);
  });

  // Promise(operators): Guarded pages are closed without the token; if none is set, only callers on the same host may use them.
  test.each<[string, string | undefined, Readonly<Record<string, string>>]>([
    ["another host", "10.0.0.7", { host: "localhost:8080" }],
    ["nobody knows where", undefined, { host: "localhost" }],
    ["a mesh's proxy that stands in for others", "127.0.0.6", { host: "localhost" }],
    ["a proxy on this host", "127.0.0.1", { host: "localhost", "x-forwarded-for": "10.0.0.7" }],
    ["Envoy on this host", "127.0.0.1", { host: "localhost", "x-envoy-internal": "true" }],
    ["another proxy", "127.0.0.1", { host: "localhost", via: "1.1 somebody" }],
    ["a name that was made to point here", "127.0.0.1", { host: "evil.example:8080" }],
    ["no name at all", "127.0.0.1", {}],
    ["a page of another site", "127.0.0.1", { host: "localhost", origin: "http://evil.example" }],
  ])("rejects a request from %s and names the setting that would allow it", (_, peer, headers) => {
    const judgement = judgeAccess(request(peer, headers), tokens());
    expect(judgement).toMatchObject({ refusal: { status: 403, body: expect.stringContaining("ADMIN_TOKEN") } });
  });
});

describe("with a token", () => {
  test.each(["Bearer", "bearer", "BEARER"])("allows callers that send it, from anywhere (%s)", (scheme) => {
    expect(judge(request("10.0.0.7", { authorization: `${scheme} ${TOKEN}` }), TOKEN)).toBe("ADMIN_TOKEN at 10.0.0.7");
  });

  test.each([
    { name: "none", headers: {} },
    { name: "another one", headers: { authorization: "Bearer correct-horse-battery-stapler" } },
    { name: "a part of it", headers: { authorization: `Bearer ${TOKEN.slice(0, -1)}` } },
    { name: "it with more behind", headers: { authorization: `Bearer ${TOKEN} ${TOKEN}` } },
    { name: "it in another scheme", headers: { authorization: `Basic ${TOKEN}` } },
    { name: "an empty one", headers: { authorization: "Bearer " } },
  ])("asks a request with $name for the token, also from the same host", ({ headers }) => {
    const given = request("127.0.0.1", { host: "localhost", ...headers });
    const judgement = judgeAccess(given, tokens(TOKEN));
    expect(judgement).toMatchObject({
      refusal: { status: 401, headers: { "www-authenticate": 'Bearer realm="headgate"' } },
    });
    expect(JSON.stringify(judgement)).not.toContain(TOKEN.slice(0, -1));
  });
});
