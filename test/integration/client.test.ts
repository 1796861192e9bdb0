// The TypeScript client against real services in this process, and against servers that are away or do not answer.

import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { CheckFailure, httpLimit, type Limiter, WaitRefused } from "../../packages/client/src/client.ts";
import { Authority } from "../support/certificates.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { addressOf, openLimiter } from "../support/limiters.ts";
import { listen } from "../support/listen.ts";
import { freePort } from "../support/redis-server.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, requests_per_unit: 2, unit: hour, algorithm: fixed_window }
  - key: tokens
    rate_limit: { requests_per_unit: 10, unit: hour }
  - key: free
    rate_limit: { unlimited: true }
`;

const user = (name: string) => ({ domain: "edge", descriptors: [{ user: name }] });

describe("a client of one server", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startTestApp(RULES, { RESPONSE_HEADERS: "ratelimit" });
  });

  test("gets what remains, and rule, reason and wait of a refusal", async () => {
    const limiter = openLimiter([addressOf(app)]);
    const first = await limiter.check(user("a"));
    expect(first).toMatchObject({
      allowed: true,
      limit: { name: "per-user", requestsPerUnit: 2, unit: "hour" },
      remaining: 1,
      headers: { "RateLimit-Limit": "2" },
    });
    await limiter.check(user("a"));
    const third = await limiter.check(user("a"));
    expect(third).toMatchObject({
      allowed: false,
      remaining: 0,
      reason: "fixed_window_exceeded",
      statuses: [{ allowed: false }],
    });
    expect(third.rule).toContain("edge/user");
    expect(third.retryAfterSeconds).toBe(Number(third.headers["Retry-After"]));
    expect(third.degraded).toBeUndefined();
  });

  test("pays hits, peeks without paying, gives back, and brings a limit of its own", async () => {
    const limiter = openLimiter([addressOf(app)]);
    const entries = { tokens: "t" };
    const left = async (full: object) =>
      (await limiter.check({ domain: "edge", descriptors: [{ entries, ...full }] })).remaining;
    expect(await left({ hits: 4 })).toBe(6);
    expect(await left({ peek: true })).toBe(6);
    expect(await left({ hits: 3, refund: true })).toBe(9);
    expect(await left({ override: { requestsPerUnit: 100, unit: "day" } })).toBe(99);
  });

  test("waits for a turn that comes in time, and rejects at once what comes too late or is wrong", async () => {
    const limiter = openLimiter([addressOf(app)]);
    const asked = { ...user("w"), maxWaitMs: 60_000 };
    expect([await limiter.wait(asked), await limiter.wait(asked)]).toMatchObject([{ remaining: 1 }, { remaining: 0 }]);
    const late = await limiter.wait({ ...asked, maxWaitMs: 900 }).catch((error: unknown) => error);
    expect(late).toBeInstanceOf(WaitRefused);
    expect(late).toMatchObject({ decision: { rule: expect.stringContaining("edge/user") } });
    await expect(limiter.wait({ ...asked, maxWaitMs: -1 })).rejects.toThrow(/^maxWaitMs: expected a whole number/);
    await expect(limiter.wait({ ...asked, domain: "" })).rejects.toThrow(/^domain: expected/);
  });

  test("answers one status per descriptor, and refuses when one of them is over", async () => {
    const limiter = openLimiter([addressOf(app)]);
    const decision = await limiter.check({
      domain: "edge",
      descriptors: [{ free: "x" }, { entries: { tokens: "u" }, hits: 11 }, { nobody: "knows" }],
    });
    expect(decision.allowed).toBe(false);
    expect(decision.statuses.map(({ allowed, limit }) => [allowed, limit?.requestsPerUnit])).toEqual([
      [true, undefined],
      [false, 10],
      [true, undefined],
    ]);
  });

  test("gets the policy's answer for a request that the service refuses, with its words for it", async () => {
    const failures: CheckFailure[] = [];
    const limiter = openLimiter([addressOf(app)], {
      onFailure: "deny",
      onDegraded: (failure) => failures.push(failure),
    });
    const decision = await limiter.check({ domain: "edge", descriptors: [{ user: "a".repeat(70_000) }] });
    expect(decision).toMatchObject({ allowed: false, degraded: { by: "client", failure: "INVALID_ARGUMENT" } });
    expect(failures.map(({ message }) => message)).toEqual([expect.stringContaining("REQUEST_ENTRY_TOO_LONG")]);
  });

  // Promise(answers): Middleware and `/json` answer 429 with X-RateLimit-Limit, -Remaining, -Reset and Retry-After.
  test("limits a node:http server", async () => {
    const mayPass = httpLimit(openLimiter([addressOf(app)]), (request: { url?: string | undefined }) =>
      user(request.url ?? ""),
    );
    const server = createHttpServer(async (request, response) => {
      if (await mayPass(request, response)) response.end("served");
    });
    const url = `http://127.0.0.1:${await listen(server)}/http`;
    const answers = [await fetch(url), await fetch(url), await fetch(url)];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(await answers[0]?.text()).toBe("served");
    expect(answers[0]?.headers.get("x-ratelimit-remaining")).toBe("1");
    expect(Number(answers[2]?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(answers[2]?.headers.get("content-type")).toBe("application/problem+json");
    expect(await answers[2]?.json()).toMatchObject({ status: 429, reason: "fixed_window_exceeded" });
  });
});

describe("a client whose server is away", () => {
  let http = "";
  // Ports of their own: grpc-js remembers connections that failed, but not why.
  let nobody: readonly string[] = [];
  beforeAll(async () => {
    nobody = await Promise.all([1, 2, 3].map(async () => `127.0.0.1:${await freePort()}`));
    http = `127.0.0.1:${await listen(createHttpServer())}`;
  });

  test.each([
    {
      what: "nobody listens",
      servers: () => nobody.slice(0, 1),
      says: /^can't connect: connect ECONNREFUSED 127\.0\.0\.1:\d+$/,
    },
    { what: "there is no such host", servers: () => ["no-such-host.invalid:8081"], says: /^Name resolution failed/ },
    {
      what: "it is an HTTP port",
      servers: () => [http],
      says: "can't connect: Protocol error (is this the gRPC port?)",
    },
    {
      what: "it has no TLS",
      servers: () => [http],
      options: { tls: true },
      says: "can't connect: wrong version number (does this port use TLS?)",
    },
    { what: "neither of two is there", servers: () => nobody.slice(1), says: /^can't connect: connect ECONNREFUSED/ },
  ])("throws where it was asked to, and says why: $what", async ({ servers, options, says }) => {
    // Name resolution may be slow where there is no network.
    const limiter = openLimiter(servers(), { onFailure: "throw", deadlineMs: 10_000, ...options });
    const failure = await limiter.check(user("a")).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CheckFailure);
    const { code, server, message, cause } = failure as CheckFailure;
    expect(code).toBe("UNAVAILABLE");
    expect(servers()).toContain(server);
    expect(message).toEqual(typeof says === "string" ? says : expect.stringMatching(says));
    expect(cause).toBeInstanceOf(Error);
  });

  test("finds the server when it comes", async () => {
    const first = await startTestApp(RULES);
    const port = String(first.grpcPort);
    await first.stop();
    const limiter = openLimiter([`127.0.0.1:${port}`]);
    expect((await limiter.check(user("a"))).degraded?.failure).toBe("UNAVAILABLE");
    await startTestApp(RULES, { GRPC_PORT: port });
    await expect
      .poll(async () => (await limiter.check(user("a"))).degraded, { timeout: 10_000, interval: 50 })
      .toBeUndefined();
  });
});

describe("a client whose server does not answer", () => {
  test("gives up at its deadline", async () => {
    // Takes connections and says nothing.
    const port = await listen(createServer());
    const limiter = openLimiter([`127.0.0.1:${port}`], { deadlineMs: 150 });
    const startedMs = performance.now();
    const decision = await limiter.check(user("a"));
    const elapsedMs = performance.now() - startedMs;
    expect(decision).toMatchObject({ allowed: true, degraded: { by: "client", failure: "DEADLINE_EXCEEDED" } });
    expect(elapsedMs).toBeGreaterThan(100);
    expect(elapsedMs).toBeLessThan(1_500);
  });
});

describe("a client of two servers", () => {
  test("asks them in turn, and the other one alone when one is gone", async () => {
    const [one, two] = [await startTestApp(RULES), await startTestApp(RULES)];
    const failures: CheckFailure[] = [];
    const limiter = openLimiter([addressOf(one), addressOf(two)], { onDegraded: (failure) => failures.push(failure) });
    await connected(limiter);
    // Each counts in its own memory: a user's rest tells who was asked.
    const rests = [(await limiter.check(user("turn"))).remaining, (await limiter.check(user("turn"))).remaining];
    expect(rests).toEqual([1, 1]);
    await one.stop();
    const after = [];
    for (let i = 0; i < 4; i++) after.push((await limiter.check(user("gone"))).allowed);
    expect(failures).toEqual([]);
    expect(after.filter((allowed) => allowed)).toHaveLength(2);
  });

  test("passes over one that no longer answers after five failures in a row, and comes back to it", async () => {
    const [one, two] = [await startTestApp(RULES), await startTestApp(RULES)];
    const proxy = await FaultProxy.start(one.grpcPort);
    const codes: string[] = [];
    const limiter = openLimiter([`127.0.0.1:${proxy.port}`, addressOf(two)], {
      deadlineMs: 300,
      onDegraded: ({ code }) => codes.push(code),
    });
    await connected(limiter);
    proxy.hold();
    const before = codes.length;
    for (let i = 0; i < 16; i++) await limiter.check({ ...user("hung"), peek: true });
    expect(codes.slice(before)).toEqual(Array.from({ length: 5 }, () => "DEADLINE_EXCEEDED"));
    proxy.release();
    await connected(limiter);
  });
});

describe("a client over TLS", () => {
  test("trusts the configured authority, shows its certificate, and checks the configured name", async () => {
    const authority = new Authority();
    const [ours, theirs] = [authority.issue("client.test"), authority.issue("headgate.test")];
    const app = await startTestApp(RULES, {
      GRPC_SERVER_USE_TLS: "true",
      GRPC_SERVER_TLS_CERT: theirs.certFile,
      GRPC_SERVER_TLS_KEY: theirs.keyFile,
      GRPC_CLIENT_TLS_CACERT: authority.certFile,
    });
    const named = { ca: authority.cert, serverName: "headgate.test" };
    const known = openLimiter([addressOf(app)], { tls: { ...named, cert: ours.cert, key: ours.key } });
    const stranger = openLimiter([addressOf(app)], {
      tls: { ca: new Authority("stranger").cert, serverName: "headgate.test" },
    });
    const decisions = [await known.check(user("a")), await stranger.check(user("a"))];
    await app.stop();
    expect(decisions.map(({ degraded }) => degraded?.failure)).toEqual([undefined, "UNAVAILABLE"]);
  });
});

/** Resolves when both servers were asked: until then the one that connected first answers all. */
async function connected(limiter: Limiter): Promise<void> {
  await expect
    .poll(
      async () => {
        const name = `probe-${Math.random()}`;
        return [(await limiter.check(user(name))).remaining, (await limiter.check(user(name))).remaining];
      },
      { timeout: 10_000, interval: 20 },
    )
    .toEqual([1, 1]);
}
