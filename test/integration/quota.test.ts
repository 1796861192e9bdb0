// Quota handed to Envoys by a whole service, on both transports, in memory and on Redis. Its Envoys are streams of the
// test; test/envoy/quota.test.ts has real ones.

import { describe, expect, test } from "vitest";
import { QuotaStream } from "../support/quota-stream.ts";
import { RedisServer } from "../support/redis-server.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const TOKEN = "a-token-of-the-operators";
const RULES = `domain: edge
descriptors:
  - key: tenant
    rate_limit: { tokens_per_second: 200, burst: 200 }
    hand_out: {}
  - key: pool
    descriptors:
      - { key: user, rate_limit: { tokens_per_second: 40, burst: 40 }, hand_out: {} }
  - { key: asked, rate_limit: { tokens_per_second: 10 } }
  - { key: small, rate_limit: { tokens_per_second: 10, burst: 10 }, hand_out: {} }
`;
const ACME = { tenant: "acme" };

const start = (env: Readonly<Record<string, string>> = {}) => startTestApp(RULES, { ADMIN_TOKEN: TOKEN, ...env });
const streamTo = (app: TestApp, options = {}) => new QuotaStream(`127.0.0.1:${app.grpcPort}`, options);

interface State {
  readonly quota: {
    readonly streams: number;
    readonly parts: number;
    readonly counts: { readonly tooMany: number };
    readonly buckets: readonly { readonly envoys: number; readonly left_out: number; readonly limit: string }[];
    readonly unknown: readonly { readonly why: string }[];
  } | null;
  readonly conditions: readonly { readonly id: string; readonly details?: readonly string[] }[];
}
const stateOf = async (app: TestApp) =>
  (await (await app.http("/state", { headers: { authorization: `Bearer ${TOKEN}` } })).json()) as State;

async function setLimit(app: TestApp, body: object): Promise<number> {
  const response = await app.http("/limits", {
    method: "PUT",
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ limits: [{ domain: "edge", entries: [{ key: "tenant", value: "acme" }], ...body }] }),
  });
  return response.status;
}

describe.each(["fast-lane", "grpc-js"])("by %s", (transport) => {
  const env = { GRPC_TRANSPORT: transport };

  test("two streams share a limit, reduced first, and one that asks sees what is left", async () => {
    const app = await start(env);
    const [one, other] = [streamTo(app), streamTo(app)];
    expect(await stateOf(app)).toMatchObject({ quota: null });
    one.report("edge", [{ id: ACME, denied: 1 }]);
    await expect.poll(() => one.toldOf(ACME)).toBe("12000/60s, 25 tokens");
    other.report("edge", [{ id: ACME, denied: 1 }]);
    await expect.poll(() => one.toldOf(ACME)).toBe("6000/60s, 12 tokens");
    await expect.poll(() => other.toldOf(ACME)).toBe("6000/60s, 12 tokens");
    const reply = await app.hit(ACME);
    expect(reply.statuses[0]?.limit_remaining).toBeLessThan(180);
    expect(await stateOf(app)).toMatchObject({ quota: { streams: 2, buckets: [{ envoys: 2, limit: "edge/tenant" }] } });
    const explained = await app.http("/explain", {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ domain: "edge", descriptors: [{ entries: [{ key: "tenant", value: "acme" }] }] }),
    });
    expect(await explained.text()).toContain("handed out: 2 Envoys have 200 of 200/s");
  });

  test("keys of an id have no order; ids that no rule hands out are denied, with the near rule", async () => {
    const app = await start(env);
    const stream = streamTo(app);
    const ids = [{ user: "u", pool: "p" }, { asked: "x" }, { tenants: "acme" }];
    stream.report(
      "edge",
      ids.map((id) => ({ id, denied: 1 })),
    );
    await expect.poll(() => ids.map((id) => stream.toldOf(id))).toEqual(["2400/60s, 5 tokens", "deny", "deny"]);
    const { quota, conditions } = await stateOf(app);
    expect(quota?.unknown.map(({ why }) => why)).toEqual([
      "the rule asked has no 'hand_out'",
      "the nearest rule with 'hand_out' has the key tenant",
    ]);
    expect(conditions.find(({ id }) => id === "quota unknown")?.details).toHaveLength(2);
    expect(app.log.filter((line) => line.includes("no rule hands out"))).toHaveLength(1);
  });

  test("a limit too small for its streams serves one, and says what would do", async () => {
    const app = await start(env);
    const streams = [streamTo(app), streamTo(app), streamTo(app)];
    for (const stream of streams) {
      stream.report("edge", [{ id: { small: "x" }, denied: 1 }]);
      await expect.poll(() => stream.answers).toBeGreaterThan(0);
    }
    await expect
      .poll(() => streams.map((each) => each.toldOf({ small: "x" })))
      .toEqual(["600/60s, 1 tokens", "deny", "deny"]);
    // A new stream is denied at once, and counted when the bucket is divided next.
    await expect
      .poll(async () => (await stateOf(app)).conditions.find(({ id }) => id === "quota too small")?.details)
      .toEqual(["edge/small: a burst of 10 suffices for 1 of 3 Envoys, 2 denied; 24 would do"]);
  });

  // Promise(quota): A block, another amount, and an edited rule reach streams that read within two seconds.
  test("limits at run time and edited rules reach streams", async () => {
    const app = await start(env);
    const stream = streamTo(app);
    stream.report("edge", [{ id: ACME, denied: 1 }]);
    await expect.poll(() => stream.toldOf(ACME)).toBe("12000/60s, 25 tokens");
    const within = { timeout: 2_500 };
    expect(await setLimit(app, { block: true })).toBe(200);
    await expect.poll(() => stream.toldOf(ACME), within).toBe("deny");
    expect(await setLimit(app, { exempt: true })).toBe(200);
    await expect.poll(() => stream.toldOf(ACME), within).toBe("allow");
    expect(await setLimit(app, { requests_per_unit: 400, unit: "second" })).toBe(200);
    await expect.poll(() => stream.toldOf(ACME), within).toMatch(/^24000\/60s, (49|50) tokens$/);
    await app.writeRules({ "rules.yaml": RULES.replace("hand_out: {}\n  - key: pool", "rarely: true\n  - key: pool") });
    await expect.poll(() => stream.toldOf(ACME), { timeout: 5_000 }).toBe("abandon");
  });

  test.each<[what: string, send: (stream: QuotaStream) => void, end: RegExp]>([
    ["without a domain", (stream) => stream.report("", [{ id: ACME }]), /^3 expected one domain/],
    [
      "of another domain",
      (stream) => {
        stream.report("edge", [{ id: ACME }]);
        stream.report("other", [{ id: ACME }]);
      },
      /^3 expected one domain/,
    ],
    [
      "with an endless id",
      (stream) => stream.report("edge", [{ id: { tenant: "x".repeat(9_000) } }]),
      /^3 .*at most 8192 bytes/,
    ],
  ])("a report %s ends its stream", async (_, send, end) => {
    const app = await start(env);
    const stream = streamTo(app);
    for (let again = 0; again < 5; again++) send(stream);
    await expect.poll(() => stream.end).toMatch(end);
    await expect.poll(async () => (await stateOf(app)).quota?.streams ?? 0).toBe(0);
  });

  test("a stream that ends its half is ended, and a shutdown ends those that are open with OK", async () => {
    const app = await start(env);
    const [one, other] = [streamTo(app), streamTo(app)];
    for (const stream of [one, other]) stream.report("edge", [{ id: ACME, denied: 1 }]);
    await expect.poll(() => other.answers).toBeGreaterThan(0);
    one.close();
    await expect.poll(() => one.end).toMatch(/^0 /);
    const fromMs = performance.now();
    await app.stop();
    expect(performance.now() - fromMs).toBeLessThan(900);
    await expect.poll(() => other.end).toMatch(/^0 /);
  });

  // Promise(quota): Hostile reports and streams are bounded and refused with a reason, and others are served.
  test("15,000 ids, counts of 2^64 and streams that don't read leave others served", async () => {
    const app = await start(env);
    const honest = streamTo(app);
    const hostile = Array.from({ length: 3 }, (_, i) => streamTo(app, { isRead: i % 2 === 0 }));
    hostile.forEach((stream, i) => {
      const ids = Array.from({ length: 5_000 }, (_unused, j) => ({ tenant: `${i}-${j}` }));
      stream.report(
        "edge",
        ids.map((id) => ({ id, allowed: "18446744073709551615", seconds: 5 })),
      );
    });
    honest.report("edge", [{ id: ACME, denied: 1 }]);
    await expect.poll(() => honest.toldOf(ACME), { timeout: 20_000 }).toMatch(/^12000/);
    expect((await stateOf(app)).quota?.parts).toBeLessThanOrEqual(100_000);
    await expect
      .poll(async () => (await stateOf(app)).quota?.counts.tooMany, { timeout: 20_000 })
      .toBeGreaterThan(2_000);
  }, 60_000);
});

test("on Redis, what is handed out is paid there, and a flush gives the burst once more", async () => {
  const redis = await RedisServer.start();
  const app = await start({ REDIS_URL: `127.0.0.1:${redis.port}` });
  const stream = streamTo(app);
  // Nothing is handed out before the count of processes is sure.
  await expect
    .poll(
      () => {
        stream.report("edge", [{ id: ACME, denied: 300, seconds: 5 }]);
        return stream.toldOf(ACME);
      },
      { timeout: 10_000, interval: 500 },
    )
    .toBe("12000/60s, 25 tokens");
  const remaining = async () => (await app.hit(ACME)).statuses[0]?.limit_remaining;
  expect(await remaining()).toBeLessThan(180);
  await redis.command("FLUSHALL");
  expect(await remaining()).toBeGreaterThan(170);
  expect(stream.toldOf(ACME)).toBe("12000/60s, 25 tokens");
});
