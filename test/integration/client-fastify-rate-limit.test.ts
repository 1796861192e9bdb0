// The store for @fastify/rate-limit, in the released plugin on Fastify, against a real service whose time is moved by hand.

import rateLimit, { type RateLimitOptions, type RateLimitPluginOptions } from "@fastify/rate-limit";
import Fastify, { type FastifyInstance } from "fastify";
import { beforeAll, describe, expect, test } from "vitest";
import { headgateStore, type StoreOptions } from "../../packages/client/src/fastify-rate-limit.ts";
import { closedWithTest } from "../support/ends.ts";
import { addressOf, NOBODY, openLimiter } from "../support/limiters.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { compileYaml } from "../support/rules.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
descriptors:
  - key: ruled
    rate_limit: { requests_per_unit: 1, window: 90s, algorithm: fixed_window }
    descriptors:
      - key: route
        value: GET /own
        rate_limit: { requests_per_unit: 2, window: 90s, algorithm: fixed_window }
`;

const clock = new ManualClock();
let app: TestApp;
beforeAll(async () => {
  app = await startTestApp(RULES, {}, clock);
});

const newStore = (options: Partial<StoreOptions>) =>
  headgateStore(openLimiter([addressOf(app)]), { domain: "edge", entry: "api", ...options });

/** A process of a service with the routes /, and /own with numbers of its own. */
async function serviceWith(options: RateLimitPluginOptions, own: RateLimitOptions = {}) {
  const service: FastifyInstance = closedWithTest(Fastify());
  await service.register(rateLimit, { timeWindow: 60_000, keyGenerator: () => "caller", ...options });
  service.get("/", async () => "served");
  service.get("/own", { config: { rateLimit: own } }, async () => "served");
  return service;
}

const statusesOf = async (service: FastifyInstance, url: string, calls: number) => {
  const statuses = [];
  for (let i = 0; i < calls; i++) statuses.push((await service.inject({ url })).statusCode);
  return statuses;
};

describe("processes with the store", () => {
  test("allow together exactly the limit, and say what remains and when to come back", async () => {
    const options = { max: 5, store: newStore({ entry: "together" }) };
    const processes = [await serviceWith(options), await serviceWith(options), await serviceWith(options)];
    const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => processes[i % 3]?.inject({ url: "/" })));
    expect(answers.map((answer) => answer?.statusCode).toSorted()).toEqual([
      ...Array(5).fill(200),
      ...Array(7).fill(429),
    ]);
    const served = answers.filter((answer) => answer?.statusCode === 200);
    expect(served.map((answer) => answer?.headers["x-ratelimit-remaining"]).toSorted()).toEqual([..."01234"]);
    const refused = answers.find((answer) => answer?.statusCode === 429);
    expect(refused?.headers).toMatchObject({
      "x-ratelimit-limit": "5",
      "x-ratelimit-reset": "60",
      "retry-after": "60",
    });
    expect(refused?.json()).toMatchObject({ message: "Rate limit exceeded, retry in 1 minute" });
    clock.advanceSeconds(60);
    expect(await processes[0]?.inject({ url: "/" })).toMatchObject({ statusCode: 200 });
  });

  test("count a route with numbers of its own apart, and all others together", async () => {
    const options = { max: 2, store: newStore({ entry: "routes" }) };
    const [one, other] = [await serviceWith(options, { max: 3 }), await serviceWith(options, { max: 3 })];
    expect(await statusesOf(one, "/", 1)).toEqual([200]);
    expect(await statusesOf(other, "/", 2)).toEqual([200, 429]);
    expect(await statusesOf(one, "/own", 2)).toEqual([200, 200]);
    expect(await statusesOf(other, "/own", 2)).toEqual([200, 429]);
  });

  test("take numbers that depend on the request", async () => {
    const options = { max: () => 2, timeWindow: () => 3_600_000, store: newStore({ entry: "dynamic" }) };
    const service = await serviceWith(options);
    expect(await statusesOf(service, "/", 3)).toEqual([200, 200, 429]);
    const odd = await serviceWith({ ...options, timeWindow: () => 5 });
    expect((await odd.inject({ url: "/" })).json()).toMatchObject({
      statusCode: 500,
      message: expect.stringMatching(/^timeWindow: expected a second, .* got 5\./),
    });
  });

  test.each([
    { algorithm: undefined, statuses: [200, 200, 200, 200] },
    { algorithm: "sliding_window" as const, statuses: [200, 429, 200, 429] },
  ])("let callers pass who keep the pace, unless told to count by $algorithm", async ({ algorithm, statuses }) => {
    const own = algorithm === undefined ? {} : { algorithm };
    const service = await serviceWith({ max: 1, store: newStore({ entry: `pace ${algorithm}`, ...own }) });
    const got = [];
    for (let i = 0; i < 4; i++) {
      got.push(...(await statusesOf(service, "/", 1)));
      clock.advanceSeconds(61);
    }
    expect(got).toEqual(statuses);
  });

  test("count callers without a key together", async () => {
    const keyGenerator = () => undefined as unknown as string;
    const service = await serviceWith({ max: 2, keyGenerator, store: newStore({ entry: "no key" }) });
    expect(await statusesOf(service, "/", 3)).toEqual([200, 200, 429]);
  });

  test("let rules decide if configured, for all routes and for one", async () => {
    const options = { max: 1, timeWindow: "90s", store: newStore({ entry: "ruled", ruleDecides: true }) };
    const service = await serviceWith(options, { max: 2 });
    service.get("/unruled", { config: { rateLimit: { max: 7 } } }, async () => "served");
    expect(await statusesOf(service, "/", 2)).toEqual([200, 429]);
    expect(await statusesOf(service, "/own", 3)).toEqual([200, 200, 429]);
    const { message } = (await service.inject({ url: "/unruled" })).json() as { message: string };
    expect(message).toContain("Headgate has no such rule. Write this rule file:\n");
    expect(compileYaml(message.slice(message.indexOf("domain: "))).problems).toEqual([]);
    expect(message).toContain('value: "GET /unruled"');
  });

  test("read what is used without a hit, and name limits of no route by their groupId", async () => {
    const service = await serviceWith({ max: 2, global: false, store: newStore({ entry: "read" }) });
    const count = service.createRateLimit({ max: 9, groupId: "jobs" } as RateLimitOptions);
    service.get("/jobs", { config: { rateLimit: false } }, async (request) => {
      const before = await count(request, { increment: false });
      const after = await count(request);
      return [before, after].map((each) => (each.isAllowed ? undefined : [each.remaining, each.isExceeded]));
    });
    expect((await service.inject({ url: "/jobs" })).json()).toEqual([
      [9, false],
      [8, false],
    ]);
    expect(() => service.createRateLimit({ max: 9 })).toThrow("groupId: expected a name for a limit");
  });

  test.each([
    { onFailure: "allow" as const, statuses: [200, 200] },
    { onFailure: "deny" as const, statuses: [429, 429] },
    { onFailure: "throw" as const, statuses: [500, 500] },
    { onFailure: "throw" as const, skipOnError: true, statuses: [200, 200] },
  ])(
    "leave calls that no server answers to the client's policy: $onFailure",
    async ({ onFailure, statuses, ...skip }) => {
      const store = headgateStore(openLimiter([NOBODY], { onFailure }), { domain: "edge", entry: "api" });
      expect(await statusesOf(await serviceWith({ max: 1, store, ...skip }), "/", 2)).toEqual(statuses);
    },
  );
});

describe("what can't be expressed", () => {
  const WINDOW =
    /^timeWindow: expected a second, minute, .* got 900000\. For other windows write a rule .* 900s, algorithm: sliding_log }$/s;
  const BEYOND = "Headgate counts no hits beyond the limit";
  test.each<[options: RateLimitPluginOptions, says: string | RegExp]>([
    [{ timeWindow: "15m" }, WINDOW],
    [{ ban: 2 }, `ban: expected -1, got 2: ${BEYOND}`],
    [{ continueExceeding: true }, `continueExceeding: expected false, got true: ${BEYOND}`],
    [{ exponentialBackoff: true }, `exponentialBackoff: expected false, got true: ${BEYOND}`],
    [{ max: 2 ** 32 }, "max: expected a whole number from 0 to 4294967295, got 4294967296"],
  ])("fails when the plugin is registered, or the route is made: %o", async (options, says) => {
    await expect(serviceWith({ store: newStore({}), ...options })).rejects.toThrow(says);
    const { timeWindow = 60_000, ...rest } = options;
    await expect(serviceWith({ store: newStore({}) }, { timeWindow, ...rest })).rejects.toThrow(says);
  });

  test("fails when the store is made: a name that is missing", () => {
    expect(() => newStore({ entry: "" })).toThrow(new TypeError('entry: expected text, got ""'));
  });
});
