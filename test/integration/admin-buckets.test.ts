// The guarded pages of a whole service: looking at buckets and resetting them over HTTP and by the command line, who may,
// and what log and metrics say of it.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { callRaw, openRawClient } from "../support/grpc-test-server.ts";
import { runProgram } from "../support/run-program.ts";
import { type SharedServers, startPostgres, startRedis } from "../support/shared-stores.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";
import { bytesField } from "../support/wire.ts";

const TOKEN = "a-token-of-the-operators";
const RULES = `domain: edge
global_limit: { requests_per_unit: 100, unit: day }
descriptors:
  - key: tenant
    rate_limits:
      - { name: burst, requests_per_unit: 3, unit: hour, algorithm: token_bucket }
      - { name: daily, requests_per_unit: 5, unit: day, algorithm: fixed_window }
`;
const ACME = { domain: "edge", descriptors: [{ entries: [{ key: "tenant", value: "acme" }] }] };

let app: TestApp;

async function start(env: Readonly<Record<string, string>> = {}): Promise<void> {
  app = await startTestApp(RULES, env);
}

async function post(path: string, body: unknown, headers: Readonly<Record<string, string>> = {}) {
  const response = await app.http(path, { method: "POST", body: JSON.stringify(body), headers });
  return { status: response.status, text: await response.text() };
}

async function use(): Promise<string[]> {
  const codes: string[] = [];
  for (let i = 0; i < 4; i++) codes.push((await app.hit({ tenant: "acme" })).overall_code);
  return codes;
}

describe("a bucket", () => {
  test("is seen and reset by descriptor, with a line in the log for each and a count", async () => {
    await start();
    expect(await use()).toEqual(["OK", "OK", "OK", "OVER_LIMIT"]);
    const seen = await post("/buckets/peek", ACME);
    expect(JSON.parse(seen.text)).toMatchObject({
      says: "2 buckets; nothing was paid",
      buckets: [
        {
          path: "tenant",
          name: "burst",
          algorithm: "token_bucket",
          bucket: "{edge|tenant=acme}|tb/3600/burst",
          remaining: 0,
        },
        { name: "daily", algorithm: "fixed_window", remaining: 2, wait_seconds: 0 },
      ],
    });
    const reset = await post("/buckets/reset", ACME);
    expect(JSON.parse(reset.text)).toMatchObject({
      says: "2 buckets reset",
      buckets: [
        { before: { remaining: 0 }, after: { remaining: 3, wait_seconds: 0, reset_seconds: 0 } },
        { before: { remaining: 2 }, after: { remaining: 5, wait_seconds: 0, reset_seconds: 0 } },
      ],
    });
    expect(await use()).toEqual(["OK", "OK", "OK", "OVER_LIMIT"]);
    const lines = app.log.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.find(({ msg }) => msg === "buckets were read")).toMatchObject({ level: "info", who: "local" });
    expect(lines.find(({ msg }) => msg === "buckets were reset")).toMatchObject({
      level: "warn",
      who: "local",
      peer: "127.0.0.1",
      domain: "edge",
      buckets: [{ bucket: "{edge|tenant=acme}|tb/3600/burst", before: { remaining: 0 }, after: { remaining: 3 } }, {}],
    });
    const metrics = await (await app.http("/metrics")).text();
    expect(metrics).toMatch(/headgate_admin_requests_total\{action="reset",outcome="done"\} 1/);
    expect(metrics).toMatch(/headgate_admin_requests_total\{action="peek",outcome="done"\} 1/);
  });

  // Promise(operators): Operators can name a bucket whose key is not text, and that name means no other bucket.
  test("of a value that is no text is named by its bytes, in JSON and at the terminal, and is nobody else's", async () => {
    await start();
    const bytes = Buffer.from([0x78, 0xff]);
    const entry = Buffer.concat([bytesField(1, "tenant"), bytesField(2, bytes)]);
    const request = Buffer.concat([bytesField(1, "edge"), bytesField(2, bytesField(1, entry))]);
    const client = openRawClient(app.grpcPort);
    const calls = [1, 2].map(() => callRaw(client, request, { path: SHOULD_RATE_LIMIT_PATH }));
    expect((await Promise.all(calls)).map(({ code }) => code)).toEqual([0, 0]);
    const peek = async (value: object) =>
      JSON.parse(
        (await post("/buckets/peek", { domain: "edge", descriptors: [{ entries: [{ key: "tenant", ...value }] }] }))
          .text,
      );
    expect(await peek({ value_base64: "eP8=" })).toMatchObject({
      buckets: [{ remaining: 1, bucket_base64: expect.stringMatching(/^e2VkZ2/) }, { remaining: 3 }],
    });
    expect(await peek({ value_base64: "eP4=" })).toMatchObject({ buckets: [{ remaining: 3 }, { remaining: 5 }] });
    const other = await peek({ value: "x\ufffd" });
    expect(other).toMatchObject({ buckets: [{ remaining: 3 }, { remaining: 5 }] });
    expect(other.buckets[0]).not.toHaveProperty("bucket_base64");
    const typed = ["buckets", "reset", "-d", "edge", "-s", `127.0.0.1:${app.httpPort}`, "tenant=x\\xff"];
    const { out } = await runProgram(typed);
    expect(out).toContain("bucket  {edge|tenant=x\ufffd}|tb/3600/burst\n  before  1,");
    expect(await peek({ value_base64: "eP8=" })).toMatchObject({ buckets: [{ remaining: 3 }, { remaining: 5 }] });
  });

  test("with holds tells how many of them are live, in JSON and at the terminal", async () => {
    app = await startTestApp(
      "domain: edge\ndescriptors: [{ key: job, hold: { id: request_id, ttl: 1h }, concurrent: 5 }]\n",
    );
    for (const id of ["r1", "r2"]) await app.hit({ job: "a", request_id: id });
    const { text } = await post("/buckets/peek", {
      domain: "edge",
      descriptors: [{ entries: [{ key: "job", value: "a" }] }],
    });
    expect(JSON.parse(text)).toMatchObject({ buckets: [{ remaining: 3, live_holds: 2 }] });
    const { out } = await runProgram(["buckets", "peek", "-d", "edge", "-s", `127.0.0.1:${app.httpPort}`, "job=a"]);
    expect(out).toMatch(/left {4}3, .*, 2 live holds\n/);
  });

  test("of the global limit is meant only when it is asked for by name", async () => {
    await start();
    await use();
    const { text } = await post("/buckets/peek", { domain: "edge", global_limit: true });
    expect(JSON.parse(text)).toMatchObject({ buckets: [{ descriptor: "global_limit", remaining: 97 }] });
  });

  test("is there for people by `headgate buckets`", async () => {
    await start({ ADMIN_TOKEN: TOKEN });
    await use();
    const server = ["-d", "edge", "-s", `127.0.0.1:${app.httpPort}`];
    const without = await runProgram(["buckets", "peek", ...server, "tenant=acme"]);
    expect([without.exitCode, without.err]).toEqual([2, expect.stringMatching(/answered 401: this page .*Bearer/)]);
    const seen = await runProgram(["buckets", "peek", ...server, "tenant=acme"], { env: { ADMIN_TOKEN: TOKEN } });
    expect(seen.out).toMatch(
      /burst[^\n]*: token_bucket of 3\n.*\n {2}left {4}0, passes again in \d+ min, full again in (\d+ min|1 h)/,
    );
    const file = join(temporaryFolder("token"), "tokens");
    await writeFile(file, `alice ${TOKEN}\n`);
    const reset = await runProgram(["buckets", "reset", ...server, "--token-file", file, "tenant=acme"]);
    expect([reset.exitCode, reset.out]).toEqual([0, expect.stringMatching(/reset[\s\S]*now {5}3, full/)]);
    const two = await runProgram(["buckets", "peek", ...server, "tenant=acme", "other=x"], {
      env: { ADMIN_TOKEN: TOKEN },
    });
    expect(two.out).toMatch(/\n\nNo limit for descriptor 2 of 2\. Commas separate the entries of a descriptor\.\n$/);
    expect(seen.out).not.toContain("no limit matches");
    const none = await runProgram(["buckets", "peek", ...server, "other=x"], { env: { ADMIN_TOKEN: TOKEN } });
    expect([none.exitCode, none.out]).toEqual([1, expect.stringContaining("no limit matches")]);
  });
});

describe("the guarded pages", () => {
  const PAGES = ["/state", "/top", "/explain", "/buckets/peek", "/buckets/reset"];
  const ask = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
    const isRead = path === "/state" || path === "/top";
    const response = await app.http(
      path,
      isRead ? { headers } : { method: "POST", body: JSON.stringify(ACME), headers },
    );
    return { status: response.status, text: await response.text() };
  };
  const access = async (headers: Readonly<Record<string, string>> = {}) =>
    (await app.http("/access", { headers })).json() as Promise<unknown>;

  // Promise(operators): Guarded pages are closed without the token; if none is set, only callers on the same host may use them.
  test("are closed without the right token and change nothing, which is counted and logged; all others stay open", async () => {
    await start({ ADMIN_TOKEN: TOKEN });
    await use();
    for (const path of PAGES) {
      for (const headers of [{}, { authorization: "Bearer not-the-operators-token" }]) {
        expect(await ask(path, headers)).toMatchObject({ status: 401, text: expect.stringContaining("Bearer") });
      }
    }
    expect((await app.hit({ tenant: "acme" })).overall_code).toBe("OVER_LIMIT");
    expect(await access()).toEqual({ wants: "token" });
    for (const path of ["/", "/livez", "/readyz", "/healthcheck", "/metrics", "/config", "/rlconfig"]) {
      const response = await app.http(path);
      expect([path, response.status, (await response.text()).includes(TOKEN)]).toEqual([path, 200, false]);
    }
    expect(app.log.join("")).toContain("an admin page was refused");
    expect(app.log.join("")).not.toContain(TOKEN);
    for (const path of PAGES) expect((await ask(path, { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
    const metrics = await (await app.http("/metrics")).text();
    for (const action of ["state", "top", "explain", "peek", "reset"]) {
      expect(metrics).toContain(`headgate_admin_requests_total{action="${action}",outcome="refused"} 2\n`);
      expect(metrics).toContain(`headgate_admin_requests_total{action="${action}",outcome="done"} 1\n`);
    }
  });

  test.each<Readonly<Record<string, string>>>([
    { "x-forwarded-for": "203.0.113.7" },
    { "sec-fetch-site": "cross-site" },
  ])("are closed without a configured token to a request with %o, and /access says so beforehand", async (headers) => {
    await start();
    expect(await access(headers)).toEqual({ wants: "another caller", says: expect.stringContaining("ADMIN_TOKEN") });
    expect(app.log.join("\n")).not.toContain("refused");
    for (const path of PAGES) expect((await ask(path, headers)).status).toBe(403);
    expect(await access()).toEqual({ wants: "nothing" });
  });
});

test("a query is rejected, as it asks for something else than the body", async () => {
  await start();
  for (const [path, method] of [
    ["/state", "GET"],
    ["/explain", "POST"],
    ["/buckets/peek", "POST"],
    ["/buckets/reset", "POST"],
  ] as const) {
    const body = method === "POST" ? JSON.stringify(ACME) : null;
    const response = await app.http(`${path}?global_limit=true`, { method, body });
    expect(response.status).toBe(400);
    expect(await response.text()).toMatch(/^REQUEST_BODY: expected \w+ in the query, got 'global_limit'\n$/);
  }
});

// Promise(operators): All JSON of the HTTP port has keys in snake_case, but for /json.
test("answers of all pages have keys in snake_case", async () => {
  await start();
  await use();
  await app.hit({ nobody: "knows" });
  const asked = { ...ACME, descriptors: [...ACME.descriptors, { entries: [{ key: "tenant", value_base64: "/w==" }] }] };
  const answers = await Promise.all([
    app.http("/config"),
    app.http("/readyz"),
    app.http("/state"),
    app.http("/top"),
    app.http("/access"),
    ...["/explain", "/buckets/peek", "/buckets/reset"].map((path) =>
      app.http(path, { method: "POST", body: JSON.stringify(asked) }),
    ),
  ]);
  const bodies = (await Promise.all(answers.map((answer) => answer.json()))) as Readonly<Record<string, unknown>>[];
  const keys = bodies.flatMap(({ settings: _settings, ...body }) => keysOf(body));
  expect(keys.length).toBeGreaterThan(100);
  expect(keys.filter((key) => !/^[a-z][a-z0-9_]*$/.test(key))).toEqual([]);
});

function keysOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const inner = Object.values(value).flatMap(keysOf);
  return Array.isArray(value) ? inner : [...Object.keys(value), ...inner];
}

describe("in a shared store", () => {
  let redis: SharedServers;
  let postgres: SharedServers;
  beforeAll(async () => {
    redis = await startRedis();
    postgres = await startPostgres();
  });
  const inRedis = () => ({ ...redis.env, CACHE_KEY_PREFIX: `b${Math.random()}:` });

  // Promise(operators): A reset gives back the full limit once, for every process and any `sync`.
  test.each([
    { name: "buckets in Redis", env: () => inRedis() },
    { name: "counters in Redis", env: () => ({ ...inRedis(), COMPATIBILITY_MODE: "true" }) },
    { name: "buckets in PostgreSQL", env: () => postgres.env },
    {
      name: "counters in PostgreSQL",
      env: () => ({ ...postgres.env, COMPATIBILITY_MODE: "true", POSTGRES_SCHEMA: "counters" }),
    },
  ])("$name are reset for every process", async ({ env }) => {
    const rules = "domain: edge\ndescriptors: [{ key: tenant, rate_limit: { requests_per_unit: 3, unit: day } }]\n";
    const all = { STORE_DEADLINE: "1s", ...env() };
    app = await startTestApp(rules, all);
    const other = await startTestApp(rules, all);
    expect(await use()).toEqual(["OK", "OK", "OK", "OVER_LIMIT"]);
    const { text } = await post("/buckets/reset", ACME);
    expect(JSON.parse(text)).toMatchObject({
      buckets: [{ before: { remaining: 0 }, after: { remaining: 3, reset_seconds: 0 } }],
    });
    expect((await other.hit({ tenant: "acme" })).overall_code).toBe("OK");
    expect(JSON.parse((await post("/buckets/peek", ACME)).text)).toMatchObject({ buckets: [{ remaining: 2 }] });
  });
});
