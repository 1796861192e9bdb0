// What callers and operators see of a decision: headers by Envoy and by Headgate, Retry-After, the access log, gRPC.

import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { callRaw, openRawClient } from "../support/grpc-test-server.ts";
import { cluster, fixed, fromHeader, listener, route } from "./support/bootstrap.ts";
import { type Answer, headerOf } from "./support/caller.ts";
import { Rig, startHeadgate } from "./support/rig.ts";
import { ECHO_PATH, startGrpcUpstream } from "./support/upstream.ts";

const RULES = `
domain: edge
descriptors:
  - key: named
    rate_limit: { name: per-case, requests_per_unit: 3, unit: hour, algorithm: fixed_window }
  - key: short
    rate_limit: { name: short, requests_per_unit: 1, unit: minute, algorithm: sliding_log }
  - key: long
    rate_limit: { name: long, requests_per_unit: 1, unit: day, algorithm: sliding_log }
  - key: half
    rate_limit: { name: half-minute, requests_per_unit: 10, window: 30s }
  - key: rpc
    rate_limit: { requests_per_unit: 2, unit: hour }
  - key: forged
    rate_limit: { name: "a\\"b\\r\\nset-cookie: name=1", requests_per_unit: 5, unit: hour }
  - key: query
    rate_limit: { requests_per_unit: 5, unit: hour }
`;

const SHORT_AND_LONG = [
  { actions: [fromHeader("x-case", "short")] },
  { actions: [fromHeader("x-case", "long")] },
  { actions: [fromHeader("x-case", "named")] },
];

const ROUTES = [
  route({ prefix: "/named", rateLimits: [{ actions: [fromHeader("x-case", "named")] }] }),
  route({ prefix: "/several", rateLimits: SHORT_AND_LONG }),
  route({ prefix: "/half", rateLimits: [{ actions: [fromHeader("x-case", "half")] }] }),
  route({ prefix: "/forged", rateLimits: [{ actions: [fromHeader("x-case", "forged")] }] }),
  route({
    prefix: "/query",
    rateLimits: [{ actions: [{ query_parameters: { query_parameter_name: "q", descriptor_key: "query" } }] }],
  }),
];

/** Calls of gRPC, limited for each listener by itself. */
const grpcRoutes = (name: string) => [
  route({ prefix: "/test.Echo/", cluster: "grpc-upstream", rateLimits: [{ actions: [fixed("rpc", name)] }] }),
];

const BY_ENVOY = { enable_x_ratelimit_headers: "DRAFT_VERSION_03", enable_retry_after_header: true };

let rig: Rig;
beforeAll(async () => {
  const grpcUpstream = await startGrpcUpstream();
  rig = await Rig.start({
    rules: RULES,
    env: { RESPONSE_HEADERS: "ratelimit,structured,x-ratelimit" },
    listeners: [
      listener({ name: "ours", routes: ROUTES }),
      listener({ name: "open", routes: ROUTES, filter: { failure_mode_deny: false } }),
      listener({ name: "both", routes: ROUTES, filter: BY_ENVOY }),
      listener({ name: "envoys", routes: ROUTES, asks: "plain", filter: BY_ENVOY }),
      listener({ name: "grpc", routes: grpcRoutes("grpc") }),
      listener({
        name: "grpc-plain",
        routes: grpcRoutes("grpc-plain"),
        filter: { rate_limited_as_resource_exhausted: false },
      }),
    ],
    clusters: async (redis) => {
      const plain = await startHeadgate(redis, RULES, {
        RESPONSE_DYNAMIC_METADATA: "true",
        RESPONSE_UNIT_MULTIPLIER: "true",
      });
      return [
        cluster({ name: "plain", endpoints: [plain.grpcPort], http2: true }),
        cluster({ name: "grpc-upstream", endpoints: [grpcUpstream.port], http2: true }),
      ];
    },
  });
});

/** The last of so many requests of a case. */
async function nth(times: number, name: string, path: string, testCase: string): Promise<Answer> {
  await rig.caller(name).statuses(times - 1, path, { "x-case": testCase });
  return await rig.caller(name).get(path, { "x-case": testCase });
}

describe("headers", () => {
  test("of Envoy tell a window of thirty seconds, if RESPONSE_UNIT_MULTIPLIER is on", async () => {
    const { headers } = await nth(1, "envoys", "/half", "envoys");
    expect(headers["x-ratelimit-limit"]).toEqual(['10, 10;w=30;name="half-minute"']);
  });

  test("of Headgate reach the caller of an allowed request in every family asked for", async () => {
    const { headers } = await nth(2, "ours", "/named", "ours");
    const reset = Number(headers["ratelimit-reset"]?.[0]);
    expect(reset).toBeGreaterThan(0);
    expect(reset).toBeLessThanOrEqual(3_600);
    expect(headers).toMatchObject({
      "ratelimit-limit": ["3"],
      "ratelimit-remaining": ["1"],
      "ratelimit-policy": ['"per-case";q=3;w=3600'],
      ratelimit: [`"per-case";r=1;t=${reset}`],
      "x-ratelimit-limit": ["3"],
      "x-ratelimit-remaining": ["1"],
      "x-ratelimit-reset": [String(reset)],
    });
    expect(headers["retry-after"]).toBeUndefined();
  });

  test("of a refusal add Retry-After and the reason", async () => {
    const { status, headers } = await nth(4, "ours", "/named", "refused");
    expect(status).toBe(429);
    expect(headers["x-ratelimit-reason"]).toEqual(["fixed_window_exceeded"]);
    expect(headers["retry-after"]).toEqual(headers["ratelimit-reset"]);
    expect(headers["ratelimit-remaining"]).toEqual(["0"]);
  });

  test("that Envoy makes of the statuses say what Headgate's say", async () => {
    for (let request = 1; request <= 5; request++) {
      const answer = await nth(1, "both", "/named", "beside");
      const left = String(Math.max(0, 3 - request));
      expect(headerOf(answer, "x-ratelimit-limit")).toBe('3 | 3, 3;w=3600;name="per-case"');
      expect(headerOf(answer, "x-ratelimit-remaining")).toBe(`${left} | ${left}`);
      expect(headerOf(answer, "ratelimit-remaining")).toBe(left);
      const [byHeadgate, byEnvoy] = answer.headers["x-ratelimit-reset"] ?? [];
      expect(byEnvoy).toBe(byHeadgate);
      expect(headerOf(answer, "ratelimit-reset")).toBe(byEnvoy);
    }
  });

  test("that Envoy makes name every descriptor's limit, and the one with least left leads", async () => {
    const answer = await nth(1, "envoys", "/several", "listed");
    const policies = '1;w=60;name="short", 1;w=86400;name="long", 3;w=3600;name="per-case"';
    expect(headerOf(answer, "x-ratelimit-limit")).toBe(`1, ${policies}`);
    expect(headerOf(answer, "x-ratelimit-remaining")).toBe("0");
    expect(headerOf(answer, "x-ratelimit-reset")).toBe("60");
  });
});

describe("Retry-After", () => {
  test("by Envoy is the longest wait of the descriptors that refuse", async () => {
    const refused = await nth(2, "envoys", "/several", "waits");
    expect(Number(headerOf(refused, "retry-after"))).toBeGreaterThan(86_390);
  });

  test("by Headgate is that too, and Envoy leaves it alone", async () => {
    const refused = await nth(2, "both", "/several", "waits-too");
    expect(refused.headers["retry-after"]).toHaveLength(1);
    expect(Number(headerOf(refused, "retry-after"))).toBeGreaterThan(86_390);
  });
});

describe("the access log", () => {
  test("tells which rule refused, what is left and how long it takes", async () => {
    const { headers } = await nth(4, "ours", "/named?refused", "logged");
    const line = (await rig.envoy.accessLines("/named?refused", 4)).at(-1);
    expect(line).toMatchObject({
      status: 429,
      flags: "RL",
      details: "request_rate_limited",
      code: "OVER_LIMIT",
      remaining: 0,
      reset_seconds: Number(headers["ratelimit-reset"]?.[0]),
      reason: "fixed_window_exceeded",
      source: "store",
      degraded: null,
    });
    expect(line?.rule).toMatch(/named/);
  });

  test("names the strictest of several rules", async () => {
    await nth(2, "ours", "/several?which", "which");
    const line = (await rig.envoy.accessLines("/several?which", 2)).at(-1);
    expect(line).toMatchObject({ status: 429, reason: "sliding_log_exceeded" });
    expect(line?.rule).toMatch(/long/);
  });

  test("has nothing of allowed requests by default, and everything with RESPONSE_DYNAMIC_METADATA=true", async () => {
    await nth(1, "ours", "/named?quiet", "quiet");
    expect(await rig.envoy.accessLine("/named?quiet")).toMatchObject({ status: 200, rule: null, headgate: null });
    await nth(1, "envoys", "/named?full", "full");
    expect(await rig.envoy.accessLine("/named?full")).toMatchObject({
      status: 200,
      code: "OK",
      remaining: 2,
      headgate: { domain: "edge", descriptors: [{ entries: ["named=full"] }] },
    });
  });
});

describe("text that tries to inject", () => {
  test("in the name of a limit comes out harmless", async () => {
    const answer = await nth(1, "both", "/forged", "x");
    expect(answer.status).toBe(200);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    expect(headerOf(answer, "ratelimit")).toMatch(/^"[\w.:/%-]+";r=4;t=\d+$/);
    expect(headerOf(answer, "x-ratelimit-limit")).toMatch(/^5 \| 5, 5;w=3600;name="[\w.:/%-]+"$/);
  });

  test("in what callers send stays data: one line of the log, no header", async () => {
    const answer = await rig.caller("envoys").get("/query?q=a%22%0d%0aset-cookie:%20q=1", {});
    expect(answer.status).toBe(200);
    expect(answer.headers["set-cookie"]).toBeUndefined();
    for (const line of rig.envoy.accessText().trim().split("\n")) expect(() => JSON.parse(line)).not.toThrow();
  });

  // docs/decisions/0009-bytes-that-are-no-text.md: a bad byte in a header is no way around a limit.
  // Promise(input): Values that are not text are limited by their bytes, also behind Envoy.
  test("that is no UTF-8 is limited as any text, by its bytes", async () => {
    const caller = rig.caller("open");
    expect(await caller.statuses(5, "/named", { "x-case": "\xff\xfe" })).toEqual([200, 200, 200, 429, 429]);
    expect(await caller.statuses(1, "/named", { "x-case": "\xff\xfd" })).toEqual([200]);
  });
});

describe("gRPC callers", () => {
  test.each([
    { name: "grpc", code: status.RESOURCE_EXHAUSTED },
    { name: "grpc-plain", code: status.UNAVAILABLE },
  ])("get an answer or code $code by the listener $name", async ({ name, code }) => {
    const client = openRawClient(rig.envoy.port(name));
    const say = () => callRaw(client, Buffer.from("hello"), { path: ECHO_PATH });
    expect(await say()).toMatchObject({ code: status.OK, message: Buffer.from("hello") });
    expect(await say()).toMatchObject({ code: status.OK });
    expect(await say()).toMatchObject({ code });
  });
});
