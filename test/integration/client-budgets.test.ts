// limiter.reserve() against real services, with servers away, answers lost, and stores that do not answer.

import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { CheckFailure } from "../../packages/client/src/client.ts";
import { BUDGET_RULES, budgetLeft, callBudgets } from "../support/budgets.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { addressOf, NOBODY, openLimiter } from "../support/limiters.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const of = (tenant: string, amount?: number) => ({
  domain: "edge",
  entries: { tenant },
  ...(amount === undefined ? {} : { amount }),
});

describe("a client of one server", () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startTestApp(BUDGET_RULES);
  });

  test("reserves, and settles once at what was used", async () => {
    const limiter = openLimiter([addressOf(app)]);
    const held = await limiter.reserve(of("a", 50));
    expect(held).toMatchObject({ allowed: true, reserved: 50, remaining: 50, rule: "edge/tenant#tokens" });
    expect(held.id).toMatch(/^[0-9a-f-]{36}$/);
    expect(await held.settle(7)).toEqual({ found: "settled", remaining: 93 });
    expect(await held.settle(40)).toEqual({ found: "settled", remaining: 93 });
    expect(await budgetLeft(app, "a")).toBe(93);
  });

  test("gets the amount that the rule reserves, also without one", async () => {
    const limiter = openLimiter([addressOf(app)]);
    expect([(await limiter.reserve(of("b", 70))).reserved, (await limiter.reserve(of("b"))).reserved]).toEqual([
      60, 20,
    ]);
  });

  test("gets rule, reason and wait of a refusal, and has nothing to settle", async () => {
    const limiter = openLimiter([addressOf(app)]);
    await limiter.reserve(of("c", 60));
    const refused = await limiter.reserve(of("c", 41));
    expect(refused).toMatchObject({ allowed: false, reserved: 0, remaining: 40, rule: "edge/tenant#tokens" });
    expect([refused.reason, refused.degraded]).toEqual(["fixed_window_exceeded", undefined]);
    expect(refused.retryAfterSeconds).toBeGreaterThan(0);
    expect(await refused.settle(30)).toEqual({ found: "not_held" });
    expect(await budgetLeft(app, "c")).toBe(40);
  });

  test("settles by an id of the caller's what another has reserved", async () => {
    const budgets = callBudgets(addressOf(app));
    const held = await openLimiter([addressOf(app)]).reserve({ ...of("e", 50), id: "r1" });
    expect(await budgets.settle({ entries: { tenant: "e" }, id: "r1", number: 1 })).toMatchObject({ found: "SETTLED" });
    expect(await held.settle(9)).toMatchObject({ found: "already_settled" });
  });

  test("waits for the end of a hold that makes room, not for the next day", async () => {
    const rules = BUDGET_RULES.replace("ttl: 1h", "ttl: 1s");
    const limiter = openLimiter([addressOf(await startTestApp(rules))]);
    expect(await limiter.reserve(of("a", 60))).toMatchObject({ allowed: true });
    const entries = { tenant: "a", request_id: "r2", max_tokens: 50 };
    const asked = { domain: "edge", descriptors: [{ entries }] };
    expect(await limiter.check(asked)).toMatchObject({ allowed: false });
    expect(await limiter.wait({ ...asked, maxWaitMs: 10_000 })).toMatchObject({ allowed: true });
  });

  test("has what the service refuses left to the policy, and mistakes thrown", async () => {
    const failures: CheckFailure[] = [];
    const limiter = openLimiter([addressOf(app)], { onDegraded: (failure) => failures.push(failure) });
    const held = await limiter.reserve({ domain: "edge", entries: { plain: "a" } });
    const degraded = { by: "client", policy: "allow", failure: "FAILED_PRECONDITION" };
    expect(held).toMatchObject({ allowed: true, reserved: 0, degraded });
    expect(failures.map(({ message }) => message)).toEqual([expect.stringContaining("the rule plain has none")]);
    await expect(limiter.reserve({ domain: "edge", entries: {} })).rejects.toThrow(TypeError);
    await expect(limiter.reserve({ ...of("a"), amount: -1 })).rejects.toThrow(/^amount: expected a whole number/);
    await expect(limiter.reserve(undefined as never)).rejects.toThrow(/^reserve: expected an object/);
  });
});

describe("where no server answers", () => {
  test.each([
    { onFailure: "allow", expected: { allowed: true } },
    { onFailure: "deny", expected: { allowed: false, retryAfterSeconds: 1 } },
  ] as const)(
    "onFailure $onFailure decides, each call is reported once, and the end of a block throws nothing",
    async ({ onFailure, expected }) => {
      const told: string[] = [];
      const limiter = openLimiter([NOBODY], { onFailure, onDegraded: ({ code }) => told.push(code) });
      {
        await using held = await limiter.reserve(of("a", 5));
        const degraded = { by: "client", policy: onFailure, failure: "UNAVAILABLE" };
        expect(held).toMatchObject({ ...expected, reserved: 0, degraded });
        expect(await held.settle(3)).toEqual({ found: "unanswered", degraded });
      }
      expect(told).toEqual(["UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE"]);
    },
  );
});

describe("answers that are lost", () => {
  let app: TestApp;
  let proxy: FaultProxy;
  beforeAll(async () => {
    app = await startTestApp(BUDGET_RULES);
    proxy = await FaultProxy.start(app.grpcPort);
  });
  afterEach(() => proxy.release());

  // Promise(clients): The client settles a reservation even if its answer was lost.
  test("of a reservation: what was used is settled all the same", async () => {
    const limiter = openLimiter([`127.0.0.1:${proxy.port}`]);
    await limiter.reserve(of("warm", 1));
    const impatient = openLimiter([`127.0.0.1:${proxy.port}`], { deadlineMs: 300 });
    await impatient.check({ domain: "edge", descriptors: [{ tenant: "warm" }] });
    proxy.hold();
    const held = await impatient.reserve(of("a", 50));
    expect(held).toMatchObject({ allowed: true, degraded: { by: "client", failure: "DEADLINE_EXCEEDED" } });
    expect(await budgetLeft(app, "a")).toBe(50);
    proxy.release();
    expect(await held.settle(7)).toMatchObject({ found: "settled", remaining: 93 });
  });

  test("of a settlement: it is sent again, and counts once", async () => {
    const limiter = openLimiter([`127.0.0.1:${proxy.port}`], { deadlineMs: 300 });
    const held = await limiter.reserve(of("b", 50));
    proxy.hold();
    const settling = held.settle(7);
    await expect.poll(() => budgetLeft(app, "b")).toBe(93);
    proxy.release();
    expect(["settled", "already_settled"]).toContain((await settling).found);
    expect(await budgetLeft(app, "b")).toBe(93);
  });
});

// Promise(clients): With counts in memory, a settlement goes to the server that may have the hold, and is charged once.
test("of two servers with counts of their own, the one whose answer to the reservation was lost is settled at", async () => {
  const apps = [await startTestApp(BUDGET_RULES), await startTestApp(BUDGET_RULES)];
  const proxies = await Promise.all(apps.map((app) => FaultProxy.start(app.grpcPort)));
  const limiter = openLimiter(
    proxies.map(({ port }) => `127.0.0.1:${port}`),
    { deadlineMs: 300 },
  );
  // Both are connected once two calls in turn find a whole budget each.
  let warm = 0;
  await expect
    .poll(async () => {
      const tenant = `warm-${warm++}`;
      return [(await limiter.reserve(of(tenant, 1))).remaining, (await limiter.reserve(of(tenant, 1))).remaining];
    })
    .toEqual([99, 99]);
  for (const tenant of ["a", "b", "c"]) {
    for (const proxy of proxies) proxy.hold();
    const held = await limiter.reserve(of(tenant, 50));
    expect(held.degraded).toMatchObject({ failure: "DEADLINE_EXCEEDED" });
    for (const proxy of proxies) proxy.release();
    expect(await held.settle(7)).toMatchObject({ found: "settled", remaining: 93 });
    const lefts = await Promise.all(apps.map((app) => budgetLeft(app, tenant)));
    expect(lefts.sort()).toEqual([100, 93]);
  }
  // A connection that is lost for a moment.
  const held = await limiter.reserve(of("d", 50));
  for (const proxy of proxies) proxy.cutAll();
  expect(await held.settle(7)).toMatchObject({ found: "settled", remaining: 93 });
});

test("of two servers with one store, the other one settles what a hanging one has held", async () => {
  const app = await startTestApp(BUDGET_RULES);
  const proxies = [await FaultProxy.start(app.grpcPort), await FaultProxy.start(app.grpcPort)] as const;
  const limiter = openLimiter(
    proxies.map(({ port }) => `127.0.0.1:${port}`),
    { deadlineMs: 300 },
  );
  // Both are connected once one of two calls in turn gets no answer.
  await expect
    .poll(async () => {
      proxies[1].hold();
      const two = [await limiter.reserve(of("warm", 1)), await limiter.reserve(of("warm", 1))];
      proxies[1].release();
      return two.filter(({ degraded }) => degraded === undefined).length;
    })
    .toBe(1);
  const held = [await limiter.reserve(of("a", 50)), await limiter.reserve(of("b", 50))];
  proxies[0].begin({ kind: "black hole" });
  const settled = await Promise.all(held.map((each) => each.settle(7)));
  expect(settled.map(({ found }) => found)).toEqual(["settled", "settled"]);
  proxies[0].end();
});

test("of two servers with counts of their own, the one that holds is settled at", async () => {
  const apps = [await startTestApp(BUDGET_RULES), await startTestApp(BUDGET_RULES)];
  const limiter = openLimiter(apps.map(addressOf));
  for (let i = 0; i < 8; i++) {
    const held = await limiter.reserve(of("a", 20));
    expect([held.allowed, (await held.settle(1)).found]).toEqual([true, "settled"]);
  }
  const lefts = await Promise.all(apps.map((app) => budgetLeft(app, "a")));
  expect(lefts.reduce((sum = 0, each = 0) => sum + each, 0)).toBe(192);
  // A server that is gone does not take its settlements with it: another is asked, which knows of none.
  const held = await limiter.reserve(of("b", 20));
  const holds = (await budgetLeft(apps[0] as TestApp, "b")) === 80 ? 0 : 1;
  await apps[holds]?.stop();
  expect((await held.settle(1)).found).toBe("unknown");
});
