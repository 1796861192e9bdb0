// /top of a whole service: who is limited, in each store, over workers, and who may ask.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { PostgresServer } from "../support/postgres-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { askOnce, openClient, startTestApp, type TestApp } from "../support/test-app.ts";
import { startWorkers } from "../support/worker-rig.ts";

const TOKEN = "a-token-of-the-operators";
const RULES = `domain: edge
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 3, unit: day, algorithm: fixed_window }
  - key: token
    hash_values: true
    rate_limit: { requests_per_unit: 1, unit: day }
`;

interface Top {
  readonly window: string;
  readonly window_seconds: number;
  readonly by: string;
  readonly keys: readonly {
    readonly rule: string;
    readonly asked: number;
    readonly refused: number;
    readonly refused_since: string | null;
    readonly descriptor?: readonly { readonly key: string; readonly value: string }[];
  }[];
  readonly workers?: number;
}

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0)) await stop();
});

async function start(env: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  const app = await startTestApp(RULES, { STORE_DEADLINE: "10s", ...env });
  stops.push(() => app.stop());
  return app;
}

async function topOf(app: Pick<TestApp, "http">, query = ""): Promise<Top> {
  return (await (await app.http(`/top${query}`)).json()) as Top;
}

function countsOf({ keys }: Top): readonly unknown[] {
  return keys.map(({ rule, asked, refused, descriptor }) => [rule, descriptor?.[0]?.value, asked, refused]);
}

describe("in a store", () => {
  let redis: RedisServer;
  let postgres: PostgresServer;
  beforeAll(async () => {
    redis = await RedisServer.start();
    postgres = await PostgresServer.start();
  });
  afterAll(async () => {
    await redis.stop();
    await postgres.stop();
  });
  const inRedis = () => ({ REDIS_URL: `127.0.0.1:${redis.port}`, CACHE_KEY_PREFIX: `t${Math.random()}:` });

  test.each([
    { name: "memory", env: () => ({}) },
    { name: "Redis, where most refusals come from what is remembered of denials", env: inRedis },
    { name: "Redis without that", env: () => ({ ...inRedis(), DENIALS_MAX: "0" }) },
    {
      name: "counters in Redis behind their local cache",
      env: () => ({ ...inRedis(), COMPATIBILITY_MODE: "true", LOCAL_CACHE_SIZE_IN_BYTES: "600000" }),
    },
    { name: "PostgreSQL", env: () => ({ POSTGRES_URL: `postgres://headgate@127.0.0.1:${postgres.port}/postgres` }) },
  ])("$name: every refusal is counted, whoever refuses", async ({ env }) => {
    const app = await start(env());
    for (let i = 0; i < 10; i++) await app.hit({ user: "alice" });
    await app.hit({ user: "bob" });
    for (const window of ["minute", "hour"]) {
      expect(countsOf(await topOf(app, `?window=${window}`))).toEqual([["user", "alice", 10, 7]]);
      expect(countsOf(await topOf(app, `?window=${window}&by=asked`))).toEqual([
        ["user", "alice", 10, 7],
        ["user", "bob", 1, 0],
      ]);
    }
  });

  test("workers are added up, and the answer says how many there are", async () => {
    const rig = await startWorkers({ ...inRedis(), WORKERS: "2" });
    stops.push(() => rig.stop());
    const calls = Array.from({ length: 6 }, async () => {
      // A connection each, so that both workers get some.
      const client = openClient(rig.target, { "grpc.use_local_subchannel_pool": 1 });
      const descriptors = [{ entries: [{ key: "user", value: "alice" }] }];
      for (let i = 0; i < 30; i++) await askOnce(client, { domain: "edge", descriptors }, 20_000);
      client.close();
    });
    await Promise.all(calls);
    // Otherwise there would be nothing to add up.
    await expect.poll(async () => (await rig.workers()).filter((worker) => (worker.calls ?? 0) > 0).length).toBe(2);
    const top = await topOf(rig);
    expect([countsOf(top), top.workers]).toEqual([[["user", "alice", 180, 80]], 2]);
  });
});

test("JSON says what was asked for, by default the refused of the last minute", async () => {
  const app = await start();
  expect(await topOf(app)).toMatchObject({ window: "minute", window_seconds: 60, by: "refused", keys: [] });
  for (let i = 0; i < 3; i++) await app.hit({ user: "alice" });
  await app.hit({ user: "bob" });
  const top = await topOf(app, "?window=hour&by=asked&keys=1");
  expect(top).toMatchObject({ window: "hour", window_seconds: 3_600, by: "asked" });
  expect(countsOf(top)).toEqual([["user", "alice", 3, 0]]);
  expect(top).not.toHaveProperty("workers");
});

test("calls of /json count as those of gRPC do", async () => {
  const app = await start();
  const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "user", value: "alice" }] }] });
  for (let i = 0; i < 4; i++) await app.http("/json", { method: "POST", body });
  expect(countsOf(await topOf(app))).toEqual([["user", "alice", 4, 1]]);
});

test("a value that its rule hides is not on the page", async () => {
  const app = await start();
  for (let i = 0; i < 3; i++) await app.hit({ token: "s3cret" });
  const text = await (await app.http("/top")).text();
  expect(JSON.parse(text)).toMatchObject({ keys: [{ rule: "token", asked: 3, refused: 2 }] });
  expect(text).not.toContain("s3cret");
});

test.each([
  { query: "?window=day", says: "expected minute or hour as window, got day" },
  { query: "?by=name", says: "expected refused or asked as by, got name" },
  { query: "?keys=0", says: "expected a whole number from 1 to 100 as keys, got 0" },
  { query: "?keys=101", says: "expected a whole number from 1 to 100 as keys, got 101" },
  { query: "?key=5", says: "expected window, by or keys, got key" },
])("$query is 400 and says what was expected", async ({ query, says }) => {
  const response = await (await start()).http(`/top${query}`);
  expect([response.status, await response.text()]).toEqual([400, `400 ${says}\n`]);
});

test("TOP_KEYS=0 counts nothing and says so", async () => {
  const response = await (await start({ TOP_KEYS: "0" })).http("/top");
  expect([response.status, await response.text()]).toEqual([404, expect.stringContaining("TOP_KEYS is 0")]);
});

describe("who may look", () => {
  const ask = async (app: TestApp, headers: Readonly<Record<string, string>>) =>
    (await app.http("/top", { headers })).status;

  test("with a token set, only who sends one that is in force", async () => {
    const app = await start({ ADMIN_TOKEN: TOKEN });
    expect([
      await ask(app, {}),
      await ask(app, { authorization: "Bearer not-the-operators-token" }),
      await ask(app, { authorization: `Bearer ${TOKEN}` }),
    ]).toEqual([401, 401, 200]);
    const metrics = await (await app.http("/metrics")).text();
    expect(metrics).toContain('headgate_admin_requests_total{action="top",outcome="refused"} 2');
    expect(metrics).toContain('headgate_admin_requests_total{action="top",outcome="done"} 1');
  });

  test("without one, no page of another site, and nobody by way of a proxy", async () => {
    const app = await start();
    expect([
      await ask(app, { origin: "http://elsewhere.example" }),
      await ask(app, { "sec-fetch-site": "cross-site" }),
      await ask(app, { "x-forwarded-for": "203.0.113.7" }),
      await ask(app, {}),
    ]).toEqual([403, 403, 403, 200]);
  });

  test("POST is no way to ask", async () => {
    const response = await (await start()).http("/top", { method: "POST" });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });
});
