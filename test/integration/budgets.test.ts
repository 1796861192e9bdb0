// headgate.v1.Budgets of the running service, on both transports: with ShouldRateLimit on the same holds, and as
// health knows it.

import { beforeAll, describe, expect, test } from "vitest";
import { BUDGETS_SERVICE } from "../../src/grpc/transport/load-proto.ts";
import { BUDGET_RULES, type BudgetsCaller, budgetLeft, callBudgets } from "../support/budgets.ts";
import { endWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { checkHealth, openRawClient } from "../support/grpc-test-server.ts";
import { RedisServer } from "../support/redis-server.ts";
import { SHARED_STORES, type SharedServers } from "../support/shared-stores.ts";
import { openClient, startTestApp, type TestApp } from "../support/test-app.ts";
import { bytesField } from "../support/wire.ts";

const TRANSPORTS = ["fast-lane", "grpc-js"];
const tenant = { tenant: "a" };

/** A client whose calls can be given up. */
interface Cancelled {
  shouldRateLimit(request: object, callback: () => void): { cancel(): void };
  close(): void;
}

/** Two budgets that a call reserves of at once. Of two Redis servers each has one. */
const TWO_BUDGETS = `${BUDGET_RULES}
  - key: both
    rate_limits:
      - { name: second, algorithm: token_bucket, requests_per_unit: 1, unit: second, burst: 500 }
      - { name: day, algorithm: fixed_window, requests_per_unit: 700, unit: day }
    hold: { id: request_id, estimate: max_tokens, ttl: 1h }
`;

async function serve(env: Readonly<Record<string, string>>): Promise<{ app: TestApp; budgets: BudgetsCaller }> {
  const app = await startTestApp(TWO_BUDGETS, env);
  return { app, budgets: callBudgets(`127.0.0.1:${app.grpcPort}`) };
}

/** Settles r1 at what was used, and again, which changes nothing. */
async function settleTwice(budgets: BudgetsCaller, used: number, remaining: number): Promise<void> {
  const settlement = { entries: tenant, id: "r1", number: used };
  expect(await budgets.settle(settlement)).toMatchObject({ found: "SETTLED", remaining });
  expect(await budgets.settle(settlement)).toMatchObject({ found: "ALREADY_SETTLED", remaining });
}

describe.each(TRANSPORTS)("on %s", (transport) => {
  // Promise(holds): `Reserve` and `Settle` work on every store.
  test("reserves, refuses, settles, says what it found, and is known to health", async () => {
    const { app, budgets } = await serve({ GRPC_TRANSPORT: transport });
    expect(await checkHealth(`127.0.0.1:${app.grpcPort}`, BUDGETS_SERVICE)).toBe("SERVING");
    expect(await budgets.reserve({ entries: tenant, id: "r1", number: 55 })).toMatchObject({
      code: "OK",
      reserved: 55,
    });
    expect(await budgets.reserve({ entries: tenant, id: "r2", number: 46 })).toMatchObject({
      code: "OVER_LIMIT",
      remaining: 45,
      rule: "edge/tenant#tokens",
      reason: "fixed_window_exceeded",
      reserved: 0,
    });
    await settleTwice(budgets, 5, 95);
    expect(await budgets.settle({ entries: tenant, id: "r2", number: 2 })).toMatchObject({
      found: "UNKNOWN",
      remaining: 93,
    });
    expect(await budgetLeft(app)).toBe(93);
  });

  test("settles what Envoy's call has reserved", async () => {
    const { app, budgets } = await serve({ GRPC_TRANSPORT: transport });
    await app.hit({ ...tenant, request_id: "r1", max_tokens: "50" });
    expect(await budgetLeft(app)).toBe(50);
    expect(await budgets.settle({ entries: tenant, id: "r1", number: 0 })).toMatchObject({ found: "SETTLED" });
    expect(await budgetLeft(app)).toBe(100);
  });

  // Promise(holds): The hold of a caller that leaves or times out before its answer is given back.
  test("gives back the hold of a caller that leaves while its call is decided, and no settlement", async () => {
    const redis = await RedisServer.start();
    const env = { GRPC_TRANSPORT: transport, REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "5s" };
    const { app } = await serve(env);
    endWithTest(() => redis.resume());
    await app.hit({ ...tenant, request_id: "r1", max_tokens: "30" });
    redis.pause();
    const entries = (more: Record<string, string>) =>
      Object.entries({ ...tenant, ...more }).map(([key, value]) => ({ key, value }));
    const client = openClient(`127.0.0.1:${app.grpcPort}`) as unknown as Cancelled;
    const descriptors = [
      { entries: entries({ request_id: "r2", max_tokens: "50" }) },
      { entries: entries({ request_id: "r1", settle: "" }), hits_addend: { value: 7 } },
    ];
    const calls = descriptors.map((descriptor) => {
      let ended = () => undefined as unknown;
      const end = new Promise((resolve) => {
        ended = () => resolve(undefined);
      });
      const call = client.shouldRateLimit({ domain: "edge", descriptors: [descriptor] }, () => ended());
      return { call, end };
    });
    await expect.poll(async () => await (await app.http("/metrics")).text()).toMatch(/^headgate_calls_in_flight 2$/m);
    for (const { call } of calls) call.cancel();
    await Promise.all(calls.map(({ end }) => end));
    // Nothing tells that the service has heard of it; what comes after it over other connections has.
    for (let asked = 0; asked < 5; asked++) await app.http("/metrics");
    redis.resume();
    await expect.poll(() => budgetLeft(app)).toBe(93);
    // Nobody heard of the second.
    const metrics = await (await app.http("/metrics")).text();
    expect(metrics).toMatch(/^headgate_hold_opened_total\{.*limit="tokens"\} 1$/m);
  });

  test("fails calls that no hold can come of", async () => {
    const { budgets } = await serve({ GRPC_TRANSPORT: transport });
    const failures = await Promise.all(
      [
        { entries: { plain: "a" }, id: "r1" },
        { entries: tenant, id: "" },
      ].map((asked) =>
        budgets.reserve(asked).then(
          () => "",
          (error: Error) => error.message,
        ),
      ),
    );
    expect(failures).toEqual([
      "9 FAILED_PRECONDITION: REQUEST_NOT_HELD: expected entries of a rule with 'hold', but the rule plain has none",
      "3 INVALID_ARGUMENT: REQUEST_HOLD_ID: the request has no id; expected a new id for each reservation",
    ]);
  });
});

// Promise(holds): The hold of a caller that leaves or times out before its answer is given back.
test("the hold of a /json caller that leaves while its call is decided is given back", async () => {
  const redis = await RedisServer.start();
  const proxy = await FaultProxy.start(redis.port);
  const { app } = await serve({ REDIS_URL: `127.0.0.1:${proxy.port}`, STORE_DEADLINE: "5s" });
  await expect.poll(async () => (await app.http("/readyz")).status).toBe(200);
  // Redis knows the script of holds from then on.
  expect(await budgetLeft(app)).toBe(100);
  proxy.hold();
  const asked = Object.entries({ ...tenant, request_id: "r1", max_tokens: "50" });
  const entries = asked.map(([key, value]) => ({ key, value }));
  const body = JSON.stringify({ domain: "edge", descriptors: [{ entries }] });
  const leaving = new AbortController();
  const call = app.http("/json", { method: "POST", body, signal: leaving.signal });
  await expect.poll(() => redis.command("KEYS", "*tenant*")).not.toEqual([]);
  leaving.abort();
  await expect(call).rejects.toThrow(/abort/);
  // Nothing tells that the service has heard of it; what comes after it over other connections has.
  for (let asked = 0; asked < 5; asked++) await app.http("/metrics");
  proxy.release();
  await expect.poll(() => budgetLeft(app)).toBe(100);
});

test.each(TRANSPORTS)("is known to reflection on %s", async (transport) => {
  const { app } = await serve({ GRPC_TRANSPORT: transport });
  const client = openRawClient(app.grpcPort);
  const same = (bytes: Buffer) => bytes;
  const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const askedOf = (request: Buffer) =>
    new Promise<string>((resolve, reject) => {
      const stream = client.makeBidiStreamRequest(path, same, same);
      stream.on("data", (bytes: Buffer) => resolve(bytes.toString("latin1")));
      stream.on("error", reject);
      stream.end(request);
    });
  const listed = await askedOf(bytesField(7, "*"));
  expect(listed.split(BUDGETS_SERVICE).length - 1).toBe(1);
  expect(await askedOf(bytesField(4, BUDGETS_SERVICE))).toContain(".headgate.v1.ReserveRequest");
});

describe.each(SHARED_STORES)("with $name", ({ start }) => {
  let servers: SharedServers;
  beforeAll(async () => {
    servers = await start();
  }, 60_000);

  // Promise(holds): `Reserve` and `Settle` work on every store.
  // Promise(holds): Callers in two processes never overspend a budget, on every shared store.
  // Promise(holds): A hold opened in one process settles once in another.
  test("200 callers at once overspend no budget, in two processes", async () => {
    const env = { ...servers.env, CACHE_KEY_PREFIX: "many:", STORE_DEADLINE: "10s" };
    const processes = [await serve(env), await serve(env)] as const;
    const ids = Array.from({ length: 200 }, (_, caller) => `r${caller}`);
    const of = (caller: number) => processes[caller % 2 === 0 ? 0 : 1].budgets;
    // 100 tokens, of which each call estimates two.
    const reserved = await Promise.all(
      ids.map((id, caller) => of(caller).reserve({ entries: tenant, id, number: 2 }, 20_000)),
    );
    const passed = ids.filter((_, caller) => reserved[caller]?.code === "OK");
    expect(passed).toHaveLength(50);
    const settled = await Promise.all(
      passed.map((id, caller) => of(caller + 1).settle({ entries: tenant, id, number: 1 }, 20_000)),
    );
    expect(new Set(settled.map(({ found }) => found))).toEqual(new Set(["SETTLED"]));
    expect(await budgetLeft(processes[0].app)).toBe(50);
  });

  // Promise(holds): A call on two budgets reserves from both or neither, even on two servers.
  test("reserves of two budgets or of none", async () => {
    const { budgets } = await serve({ ...servers.env, CACHE_KEY_PREFIX: "two:", STORE_DEADLINE: "5s" });
    const entries = { both: "a" };
    const reserve = (id: string, number: number) => budgets.reserve({ entries, id, number });
    expect(await reserve("r1", 400)).toMatchObject({ code: "OK", reserved: 400 });
    expect(await reserve("r2", 250)).toMatchObject({ code: "OVER_LIMIT", rule: "edge/both#second", reserved: 0 });
    expect(await budgets.settle({ entries, id: "r1", number: 0 })).toMatchObject({ found: "SETTLED" });
    // Only if the second call has left nothing behind: neither payments nor holds, on no server.
    expect(await reserve("r3", 500)).toMatchObject({ code: "OK", reserved: 500 });
    expect(await budgets.settle({ entries, id: "r2", number: 0 })).toMatchObject({ found: "UNKNOWN" });
  });
});

describe.each(TRANSPORTS)("with Redis, on %s", (transport) => {
  // Promise(holds): The hold of a caller that leaves or times out before its answer is given back.
  test("gives back the hold of a call whose deadline passes before Redis answers", async () => {
    const redis = await RedisServer.start();
    const proxy = await FaultProxy.start(redis.port);
    const { app, budgets } = await serve({
      GRPC_TRANSPORT: transport,
      REDIS_URL: `127.0.0.1:${proxy.port}`,
      CACHE_KEY_PREFIX: `late-${transport}:`,
      STORE_DEADLINE: "60s",
    });
    expect(await budgetLeft(app)).toBe(100);
    proxy.hold();
    await expect(budgets.reserve({ entries: tenant, id: "r1", number: 50 }, 500)).rejects.toMatchObject({ code: 4 });
    // The service has noticed it, too: an answer that is on its way to the caller by then gives nothing back.
    await expect
      .poll(async () => (await app.http("/metrics")).text(), { interval: 5 })
      .toMatch(/^headgate_calls_in_flight 0$/m);
    proxy.release();
    await expect.poll(() => budgetLeft(app)).toBe(100);
    await expect.poll(async () => (await app.http("/metrics")).text()).toMatch(/^headgate_store_gave_back_total 1$/m);
  });
});

test("live holds of a rule that is dropped are not counted, until it is there again and holds", async () => {
  const { app, budgets } = await serve({ BACKEND_TYPE: "memory" });
  const live = async () =>
    /^headgate_hold_live\{.*rule="tenant".*\} (\d+)$/m.exec(await (await app.http("/metrics")).text())?.[1];
  await budgets.reserve({ entries: tenant, id: "r1" });
  await budgets.reserve({ entries: tenant, id: "r2" });
  expect(await live()).toBe("2");
  await app.writeRules({ "rules.yaml": BUDGET_RULES.replace("key: tenant", "key: other") });
  await expect.poll(live).toBeUndefined();
  await app.writeRules({ "rules.yaml": BUDGET_RULES });
  await expect
    .poll(() =>
      budgets.reserve({ entries: tenant, id: "r3" }).then(
        ({ code }) => code,
        () => "",
      ),
    )
    .toBe("OK");
  expect(await live()).toBe("3");
});
