// The whole service on the memory store, over real sockets: decisions, the JSON endpoint, pages, reload, bad input.

import { beforeAll, describe, expect, test } from "vitest";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limit: { name: per-user, tokens_per_second: 1, burst: 2 }
  - key: plan
    value: gold
    rate_limit: { requests_per_unit: 100, unit: minute }
`;

describe("the service on the memory store", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startTestApp(RULES, { RESPONSE_HEADERS: "ratelimit,structured,x-ratelimit" });
  });

  test("allows up to the burst, then refuses and says why", async () => {
    const replies = [await app.hit({ user: "a" }), await app.hit({ user: "a" }), await app.hit({ user: "a" })];
    expect(replies.map((reply) => reply.overall_code)).toEqual(["OK", "OK", "OVER_LIMIT"]);
    expect(replies[2]?.statuses[0]).toMatchObject({
      code: "OVER_LIMIT",
      current_limit: { name: "per-user", requests_per_unit: 2, unit: "UNKNOWN" },
      limit_remaining: 0,
      duration_until_reset: { seconds: "1", nanos: 0 },
    });
    const headers = Object.fromEntries(
      (replies[2]?.response_headers_to_add ?? []).map(({ key, value }) => [key, value]),
    );
    expect(headers).toMatchObject({
      "RateLimit-Limit": "2",
      "X-RateLimit-Remaining": "0",
      RateLimit: '"per-user";r=0;t=1',
      "Retry-After": "1",
      "X-RateLimit-Reason": "token_bucket_exceeded",
    });
    expect(JSON.stringify(replies[2]?.dynamic_metadata)).toContain("edge/user");
  });

  // Promise(answers): Middleware and `/json` answer 429 with X-RateLimit-Limit, -Remaining, -Reset and Retry-After.
  test("answers /json with the same decision as an HTTP status and headers", async () => {
    const body = JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "user", value: "json" }] }] });
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push(await app.http("/json", { method: "POST", body }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[2]?.headers.get("retry-after")).toBe("1");
    expect(answers[2]?.headers.get("x-ratelimit-limit")).toBe("2");
    expect(await answers[0]?.json()).toMatchObject({ overallCode: "OK", statuses: [{ limitRemaining: 1 }] });
  });

  test("is alive and ready, and shows rules, metrics and explanations", async () => {
    expect((await app.http("/livez")).status).toBe(200);
    expect(await (await app.http("/readyz")).json()).toMatchObject({ status: "ready" });
    expect(await (await app.http("/config")).json()).toMatchObject({ rules: { version: 1, files: ["rules.yaml"] } });
    expect(await (await app.http("/rlconfig")).text()).toContain("edge.plan_gold: unit=MINUTE requests_per_unit=100");
    const metrics = await (await app.http("/metrics")).text();
    expect(metrics).toMatch(/^ratelimit_service_rate_limit_over_limit\{.*limit="per-user".*\} [1-9]/m);
    const question = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: "x" }] }] };
    const explained = await app.http("/explain", { method: "POST", body: JSON.stringify(question) });
    expect(JSON.stringify(await explained.json())).toContain("{edge|user=x}|tb/1/per-user");
  });
});

describe("reload", () => {
  test("keeps the count when the amount changes, keeps the old rules when the new ones are wrong, and shows both", async () => {
    const perMinute = (amount: number) =>
      `domain: edge\ndescriptors:\n  - { key: u, rate_limit: { requests_per_unit: ${amount}, unit: hour } }\n`;
    const app = await startTestApp(perMinute(100));
    await app.ask({
      domain: "edge",
      descriptors: [{ entries: [{ key: "u", value: "a" }], hits_addend: { value: 40 } }],
    });
    await app.writeRules({ "rules.yaml": perMinute(50) });
    await app.app.reload();
    expect((await app.hit({ u: "a" })).statuses[0]?.limit_remaining).toBe(9);
    await app.writeRules({ "rules.yaml": "domain: edge\ndescriptors:\n  - { kye: u }\n" });
    await app.app.reload();
    expect((await app.hit({ u: "a" })).statuses[0]?.limit_remaining).toBe(8);
    const config = (await (await app.http("/config")).json()) as { rules: { version: number; last_error: unknown } };
    expect(config.rules.version).toBe(2);
    expect(JSON.stringify(config.rules.last_error)).toContain("rules.yaml");
    expect(await (await app.http("/metrics")).text()).toMatch(/^ratelimit_service_config_load_error 1$/m);
    expect((await app.http("/readyz")).status).toBe(200);
  });

  // Promise(operators): Metric series of rules are bounded per domain, begin with the first hit, never fall, and lose nothing.
  test("keeps the counters of overrides, and those of rules that stay", async () => {
    // A rule of that name has its own.
    const limit = "rate_limit: { requests_per_unit: 5, unit: hour }";
    const rules = `domain: edge\ndescriptors:\n  - { key: u, ${limit} }\n  - { key: override, ${limit} }\n`;
    const app = await startTestApp(rules);
    const override = { requests_per_unit: 9, unit: "HOUR" };
    const descriptor = { entries: [{ key: "u", value: "a" }], limit: override };
    const hits = async () => {
      const text = await (await app.http("/metrics")).text();
      return [...text.matchAll(/^ratelimit_service_rate_limit_total_hits\{.*rule="([^"]+)".*\} (\d+)$/gm)].map(
        ([, key, count]) => [key, count],
      );
    };
    await app.ask({ domain: "edge", descriptors: [descriptor] });
    await app.hit({ u: "a" });
    for (let i = 0; i < 3; i++) await app.hit({ override: "a" });
    const counted = await hits();
    expect(counted).toContainEqual(["(overrides)", "1"]);
    expect(counted).toContainEqual(["override", "3"]);
    await app.writeRules({ "rules.yaml": `# the same\n${rules}` });
    await app.app.reload();
    expect(await hits()).toEqual(counted);
    await app.ask({ domain: "edge", descriptors: [descriptor] });
    expect(await hits()).toContainEqual(["(overrides)", "2"]);
  });

  test("with an invalid first rule set the service is not ready and answers UNAVAILABLE until it is fixed", async () => {
    const app = await startTestApp("domain: edge\ndescriptors: 5\n");
    expect((await app.http("/readyz")).status).toBe(503);
    expect((await app.http("/healthcheck")).status).toBe(500);
    await expect(app.hit({ u: "a" })).rejects.toMatchObject({
      code: 14,
      details: expect.stringContaining("SERVICE_NO_RULES"),
    });
    await app.writeRules({ "rules.yaml": "domain: edge\n" });
    await app.app.reload();
    expect((await app.http("/readyz")).status).toBe(200);
    expect((await app.hit({ u: "a" })).overall_code).toBe("OK");
  });
});
