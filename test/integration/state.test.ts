// GET /state of a whole service: who is shown it, what it says of calls, rules and troubles, and since when.

import { afterEach, expect, test } from "vitest";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const TOKEN = "a-token-of-the-operators";
const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 3, unit: hour } }
  - { key: tenant, detailed_metric: true, rate_limit: { requests_per_unit: 100, unit: hour } }
`;

let app: TestApp;
afterEach(() => app.stop());

async function get(path: string, headers: Readonly<Record<string, string>> = {}) {
  const response = await app.http(path, { headers });
  const text = await response.text();
  return { status: response.status, text, json: text.startsWith("{") ? JSON.parse(text) : undefined };
}

test("tells what was counted, also of rules whose metrics are by value, and is well", async () => {
  app = await startTestApp(RULES);
  for (let i = 0; i < 5; i++) await app.hit({ user: "ann" });
  for (const tenant of ["a", "b"]) await app.hit({ tenant });
  const { json } = await get("/state");
  expect(json).toMatchObject({
    status: "well",
    store: "memory",
    conditions: [],
    calls: { allowed: 5, refused: 2, degraded: 0, errors: 0 },
    rules: {
      version: 1,
      rows: [
        { name: "edge", depth: 0 },
        { id: "edge/user", where: "rules.yaml:3:5", count: { hits: 5, refused: 2, shadowed: 0 } },
        { id: "edge/tenant", count: { hits: 2, refused: 0, shadowed: 0 } },
      ],
    },
    certificate: null,
  });
});

test("a trouble keeps the time since when it is one, and is gone with its cause", async () => {
  app = await startTestApp(RULES);
  await app.writeRules({ "rules.yaml": RULES.replace("user", "user: x") });
  await app.app.reload();
  const first = (await get("/state")).json;
  expect(first.conditions).toMatchObject([
    { id: "rules refused", severity: "critical", details: [expect.any(String)] },
  ]);
  const at = () => get("/state").then(({ json }) => json.at as string);
  await expect.poll(at).not.toBe(first.at);
  expect((await get("/state")).json.conditions[0].since).toBe(first.conditions[0].since);
  await app.writeRules({ "rules.yaml": RULES });
  await app.app.reload();
  expect((await get("/state")).json.conditions).toEqual([]);
});

test.each([
  { name: "no token", headers: {}, status: 401 },
  { name: "another token", headers: { authorization: "Bearer not-the-operators-token" }, status: 401 },
  { name: "the token", headers: { authorization: `Bearer ${TOKEN}` }, status: 200 },
])("with ADMIN_TOKEN, whoever sends $name gets $status", async ({ headers, status }) => {
  app = await startTestApp(RULES, { ADMIN_TOKEN: TOKEN });
  const { status: answered, text } = await get("/state", headers);
  expect([answered, text.includes("edge")]).toEqual([status, status === 200]);
  expect((await get("/access", headers)).json).toEqual({ wants: "token" });
});

test.each([
  { name: "a proxy that says so", headers: { "x-forwarded-for": "203.0.113.7" } },
  { name: "a page that was opened under a path", headers: { "x-forwarded-prefix": "/tools/" } },
  { name: "a page of another site", headers: { origin: "http://elsewhere.example" } },
])("without a token, $name is shown nothing, and told so beforehand", async ({ headers }) => {
  app = await startTestApp(RULES);
  expect((await get("/access", headers)).json).toEqual({
    wants: "another caller",
    says: expect.stringContaining("ADMIN_TOKEN"),
  });
  expect(app.log.join("\n")).not.toContain("refused");
  expect((await get("/state", headers)).status).toBe(403);
  expect((await get("/access")).json).toEqual({ wants: "nothing" });
});

test("uses and refusals are counted", async () => {
  app = await startTestApp(RULES);
  await get("/state");
  await get("/state", { via: "1.1 proxy" });
  const { text } = await get("/metrics");
  expect(text).toContain('headgate_admin_requests_total{action="state",outcome="done"} 1\n');
  expect(text).toContain('headgate_admin_requests_total{action="state",outcome="refused"} 1\n');
});
