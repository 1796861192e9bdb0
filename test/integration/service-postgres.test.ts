// The whole service on a real PostgreSQL: two processes share their buckets, and say what is wrong when it goes.

import { afterAll, beforeAll, expect, test } from "vitest";
import { PostgresServer } from "../support/postgres-server.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
global_limit: { requests_per_unit: 1000, unit: minute }
descriptors:
  - key: user
    rate_limits:
      - { name: rate, tokens_per_second: 0.01, burst: 4 }
      - { name: day, requests_per_unit: 100, unit: day, algorithm: fixed_window }
  - key: exact
    rate_limit: { requests_per_unit: 3, unit: hour, algorithm: sliding_log }
`;
const SECRET = "p4ssword";

let server: PostgresServer;
let apps: TestApp[] = [];

beforeAll(async () => {
  server = await PostgresServer.start();
  await server.query(`CREATE ROLE gate LOGIN PASSWORD '${SECRET}'`);
  await server.query("GRANT CREATE ON DATABASE postgres TO gate");
  const env = {
    POSTGRES_URL: `postgres://gate:${SECRET}@127.0.0.1:${server.port}/postgres`,
    POSTGRES_UNLOGGED: "true",
    POSTGRES_CONNECTIONS: "2",
    // Nothing here is about time: a deadline that no busy machine reaches.
    STORE_DEADLINE: "2s",
  };
  apps = await Promise.all([startTestApp(RULES, env), startTestApp(RULES, env)]);
}, 60_000);
afterAll(async () => {
  await Promise.all(apps.map((app) => app.stop()));
  await server.stop();
});

test("processes pay into the same buckets, all limits of a call or none", async () => {
  const codes: string[] = [];
  for (let i = 0; i < 6; i++) codes.push((await apps[i % 2]?.hit({ user: "ann" }))?.overall_code ?? "");
  expect(codes).toEqual(["OK", "OK", "OK", "OK", "OVER_LIMIT", "OVER_LIMIT"]);
  const [day] = await server.query("SELECT used FROM headgate.bucket WHERE bucket_key LIKE '%user=ann}|fw/86400/day'");
  expect(Number(day?.used)).toBe(4);
  const [all] = await server.query("SELECT used FROM headgate.bucket WHERE bucket_key LIKE '{edge}|global%'");
  expect(Number(all?.used)).toBe(4);
});

test("the counters of COMPATIBILITY_MODE are counted there too, charged in any case and each for itself", async () => {
  const rules = `
domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 2, unit: day } }
  - { key: path, rate_limit: { requests_per_unit: 100, unit: day } }
`;
  const env = {
    COMPATIBILITY_MODE: "true",
    POSTGRES_URL: `postgres://gate:${SECRET}@127.0.0.1:${server.port}/postgres`,
    POSTGRES_SCHEMA: "compatible",
    STORE_DEADLINE: "2s",
    DEBUG_PORT: "0",
  };
  const pair = await Promise.all([startTestApp(rules, env), startTestApp(rules, env)]);
  try {
    const codes: string[] = [];
    const descriptors = [{ entries: [{ key: "user", value: "ann" }] }, { entries: [{ key: "path", value: "/" }] }];
    for (let i = 0; i < 4; i++)
      codes.push((await pair[i % 2]?.ask({ domain: "edge", descriptors }))?.overall_code ?? "");
    expect(codes).toEqual(["OK", "OK", "OVER_LIMIT", "OVER_LIMIT"]);
    const rows = await server.query(
      "SELECT bucket_key, used FROM compatible.bucket WHERE bucket_key LIKE 'edge%' ORDER BY bucket_key",
    );
    expect(rows.map(({ bucket_key, used }) => `${bucket_key} ${used}`)).toEqual([
      expect.stringMatching(/^edge_path_\/_\d+ 4$/),
      expect.stringMatching(/^edge_user_ann_\d+ 4$/),
    ]);
  } finally {
    await Promise.all(pair.map((app) => app.stop()));
  }
});

test("a sliding log holds between processes", async () => {
  const replies = await Promise.all(Array.from({ length: 8 }, (_, i) => apps[i % 2]?.hit({ exact: "x" })));
  expect(replies.filter((reply) => reply?.overall_code === "OK")).toHaveLength(3);
});

test("shows where it keeps its buckets, and no password", async () => {
  const pages = await Promise.all(
    ["/config", "/metrics", "/ready"].map(async (path) => (await apps[0]?.http(path))?.text()),
  );
  const log = apps.flatMap((app) => app.log).join("\n");
  expect(log).toContain('"store":"postgres"');
  for (const text of [...pages, log]) expect(text).not.toContain(SECRET);
});

test("a PostgreSQL that dies leaves the policy of the rule to answer, and is found again", async () => {
  await server.kill();
  const reply = await apps[0]?.hit({ user: "bob" });
  expect(reply?.overall_code).toBe("OK");
  expect(JSON.stringify(reply?.dynamic_metadata)).toContain("degraded");
  await server.restart();
  await expect
    .poll(async () => JSON.stringify((await apps[0]?.hit({ user: "eve" }))?.dynamic_metadata ?? {}), {
      timeout: 10_000,
    })
    .not.toContain("degraded");
});
