// Limits at run time of whole services: set on one, in force in all that share the store, at once and whatever a process remembers; who may; what
// outlives a process.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BUDGET_RULES, budgetLeft, callBudgets } from "../support/budgets.ts";
import { runProgram } from "../support/run-program.ts";
import { type SharedServers, startCluster, startPostgres, startRedis } from "../support/shared-stores.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const TOKEN = "a-token-of-the-operators";
const RULES = `domain: edge
global_limit: { requests_per_unit: 1000, unit: day }
limits:
  free: { requests_per_unit: 2, unit: hour }
  all: { unlimited: true }
  gold: { requests_per_unit: 20, unit: hour }
descriptors:
  - key: tenant
    rate_limits:
      - { name: hourly, requests_per_unit: 2, unit: hour, algorithm: token_bucket }
      - { name: daily, requests_per_unit: 100, unit: day, algorithm: fixed_window }
  - { key: api_key, hash_values: true, rate_limit: { requests_per_unit: 2, unit: hour } }
  - { key: leased, rate_limit: { requests_per_unit: 6, unit: hour, algorithm: token_bucket, sync: lease } }
  - { key: local, rate_limit: { requests_per_unit: 2, unit: hour, algorithm: token_bucket, on_store_failure: local } }
  - { key: user, tier: { entry: plan, default: free } }
  - { key: shared, value: "s*", share_threshold: true, rate_limit: { requests_per_unit: 2, unit: hour } }
`;

async function start(env: Readonly<Record<string, string>> = {}): Promise<TestApp> {
  // No busy machine may let a call pass without the store.
  return startTestApp(RULES, { ADMIN_TOKEN: TOKEN, STORE_DEADLINE: "5s", ...env });
}

/** Runs `headgate limits` against the service. */
async function limits(app: TestApp, ...args: readonly string[]) {
  const [command = "", ...rest] = args;
  return runProgram(["limits", command, "-s", `127.0.0.1:${app.httpPort}`, ...rest], { env: { ADMIN_TOKEN: TOKEN } });
}

const codes = async (app: TestApp, entries: Readonly<Record<string, string>>, count: number) => {
  const found: string[] = [];
  for (let i = 0; i < count; i++) found.push((await app.hit(entries)).overall_code);
  return found.map((code) => (code === "OK" ? "ok" : "over")).join(" ");
};

/** Two processes on servers of that kind; on the memory store one, twice. */
async function startTwo(open?: () => Promise<SharedServers>): Promise<readonly [TestApp, TestApp]> {
  if (open === undefined) {
    const app = await start();
    return [app, app];
  }
  const { env } = await open();
  return [await start(env), await start(env)];
}

test.each([
  { name: "memory", open: undefined },
  { name: "Redis", open: startRedis },
  { name: "a Redis Cluster", open: startCluster },
  { name: "PostgreSQL", open: startPostgres },
])(
  "on $name a caller is raised, blocked, exempted and left to its rule again, in all processes, and keeps what it spent",
  async ({ open }) => {
    const [one, other] = await startTwo(open);
    const processes = one === other ? "1 of 1 process" : "2 of 2 processes";
    expect(await codes(other, { tenant: "acme" }, 3)).toBe("ok ok over");
    const raised = await limits(
      one,
      "set",
      "edge",
      "tenant=acme",
      "--limit",
      "hourly",
      "--requests",
      "5",
      "--until",
      "2h",
      "--note",
      "launch",
    );
    expect(raised.out).toContain("before  hourly: 2 tokens per hour");
    expect(raised.out).toContain(`in force in ${processes}`);
    // A denial that was remembered is one of another limit.
    expect(await codes(other, { tenant: "acme" }, 4)).toBe("ok ok ok over");
    expect((await limits(other, "block", "edge", "tenant=acme", "--note", "INC-1")).out).toContain(processes);
    expect(await codes(one, { tenant: "acme" }, 1)).toBe("over");
    expect(await codes(one, { tenant: "other" }, 1)).toBe("ok");
    expect((await limits(one, "exempt", "edge", "tenant=acme")).exitCode).toBe(0);
    expect(await codes(other, { tenant: "acme" }, 5)).toBe("ok ok ok ok ok");
    expect((await limits(one, "unset", "edge", "tenant=acme")).out).toContain(processes);
    expect(await codes(other, { tenant: "acme" }, 1)).toBe("over");
    expect((await limits(one, "list")).out).toBe("no limits at run time are in force\n");
  },
);

test("leases and the limits of a tier follow, and hidden values stay hidden", async () => {
  const [one, other] = await startTwo(startRedis);
  expect(await codes(one, { leased: "x" }, 2)).toBe("ok ok");
  await limits(other, "set", "edge", "leased=x", "--requests", "2");
  expect(await codes(one, { leased: "x" }, 1)).toBe("over");
  expect(await codes(other, { user: "u", plan: "free" }, 3)).toBe("ok ok over");
  await limits(one, "set", "edge", "user=u", "--use", "gold");
  expect(await codes(other, { user: "u", plan: "free" }, 3)).toBe("ok ok ok");
  await limits(one, "block", "edge", "user=v", "--until", "1h");
  const blocked = await other.hit({ user: "v", plan: "all" });
  expect([blocked.overall_code, blocked.statuses[0]?.code]).toEqual(["OVER_LIMIT", "OVER_LIMIT"]);
  expect(Number(blocked.statuses[0]?.duration_until_reset?.seconds)).toBeGreaterThan(3_000);
  await limits(one, "block", "edge", "api_key=secret");
  expect(await codes(other, { api_key: "secret" }, 1)).toBe("over");
  const shown = [(await limits(one, "list")).out, (await limits(one, "export")).out, ...one.log].join();
  expect(shown).toContain("api_key");
  expect(shown).not.toContain("secret");
});

test("of two operators who change one caller, the one who saw the older limit is refused", async () => {
  const [one, other] = await startTwo(startRedis);
  const put = async (app: TestApp, seen: number, requests: number) => {
    const limit = {
      domain: "edge",
      entries: [{ key: "tenant", value: "acme" }],
      limit: "hourly",
      requests_per_unit: requests,
      seen_us: seen,
    };
    const response = await app.http("/limits", {
      method: "PUT",
      body: JSON.stringify({ limits: [limit] }),
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    return { status: response.status, text: await response.text() };
  };
  expect((await put(one, 0, 5)).status).toBe(200);
  const second = await put(other, 0, 7);
  expect(second.status).toBe(409);
  expect(second.text).toContain("expected the limit that was shown");
  expect((await limits(one, "list")).out).toContain("hourly: 5");
});

test("metadata names the limit at run time of an exempt caller", async () => {
  const app = await start({ RESPONSE_DYNAMIC_METADATA: "true" });
  await limits(app, "exempt", "edge", "tenant=acme", "--global");
  const { dynamic_metadata: metadata } = await app.hit({ tenant: "acme" });
  expect(JSON.stringify(metadata)).toContain('"exempt"');
});

test("what can't be set is refused with what would be right, and what a rule file means is not changed", async () => {
  const one = await start();
  for (const [args, says] of [
    [["set", "edge", "tenat=acme", "--requests", "5"], "Did you mean 'tenant'?"],
    [["set", "edge", "tenant=acme", "--requests", "5"], "the rule 'tenant' has 'hourly', 'daily'"],
    [["set", "edge", "tenant=acme", "--limit", "dayly", "--requests", "5"], "did you mean 'daily'?"],
    [["set", "edge", "tenant=acme", "--limit", "daily", "--requests", "5", "--unit", "hour"], "expected unit day"],
    [["set", "edge", "tenant=acme", "--use", "gold"], "has no 'tier'"],
    [["set", "edge", "user=u", "--use", "golf"], "did you mean 'gold'?"],
    [["block", "edge", "shared=s1"], "share_threshold"],
    [["block", "nowhere", "a=b"], "no rules are for domain 'nowhere'"],
    [["unset", "edge", "tenant=acme"], "found none"],
    [["block", "edge", "tenant=acme", "--until", "2020-01-01T00:00:00Z"], "an end that is yet to come"],
  ] as const) {
    const { out, exitCode } = await limits(one, ...args);
    expect(out.replace(/\s+/g, " "), args.join(" ")).toContain(says);
    expect(exitCode).toBe(1);
  }
  for (const until of ["soon", "0s", "-5m", "40000d"]) {
    const { err, exitCode } = await limits(one, "block", "edge", "tenant=acme", `--until=${until}`);
    expect([err, exitCode]).toEqual([
      expect.stringContaining(
        `a duration such as 90s, 30m, 2h or 7d, at most 3650d, or a time such as 2026-12-24T18:00:00Z, got '${until}'`,
      ),
      2,
    ]);
  }
  expect((await limits(one, "list")).out).toBe("no limits at run time are in force\n");
});

test("explain and /state show what is in force, who set it and why; the list, that no rule matches any more", async () => {
  const app = await start();
  await limits(app, "block", "edge", "tenant=acme", "--until", "1h", "--note", "INC-1");
  const explain = ["explain", "-s", `127.0.0.1:${app.httpPort}`, "-d", "edge", "tenant=acme"];
  const { out } = await runProgram(explain, { env: { ADMIN_TOKEN: TOKEN } });
  expect(out.replace(/\s+/g, " ")).toMatch(
    /the rule 'tenant' applies; set at run time until \S+Z: blocked: every call is refused set at \S+Z by ADMIN_TOKEN: INC-1 /,
  );
  const state = await app.http("/state", { headers: { authorization: `Bearer ${TOKEN}` } });
  expect(await state.json()).toMatchObject({
    runtime_limits: { in_force: { block: 1 }, changes: 1, failures: 0, last_failure: null },
  });
  await app.writeRules({ "rules.yaml": "domain: edge\ndescriptors: [{ key: other }]\n" });
  await app.app.reload();
  const listed = await app.http("/limits", { headers: { authorization: `Bearer ${TOKEN}` } });
  expect(await listed.text()).toContain("no rule with limits matches");
});

test("a LIMITS_CACHE that can't be written is a condition", async () => {
  const noFolder = join(temporaryFolder("headgate-limits"), "nowhere");
  await writeFile(noFolder, "");
  const app = await start({ LIMITS_CACHE: join(noFolder, "limits") });
  const { out } = await limits(app, "block", "edge", "tenant=acme");
  expect(out).toContain("in force in 1 of 1 process; not yet in its file, so a restart would lose it");
  const headers = { authorization: `Bearer ${TOKEN}` };
  await expect
    .poll(async () => (await app.http("/state", { headers })).json())
    .toMatchObject({
      status: "warning",
      conditions: [{ says: expect.stringMatching(/^Can't update limits at run time: .*nowhere/) }],
      runtime_limits: { last_failure: expect.stringContaining("nowhere") },
    });
});

/** PostgreSQL with tables, and the settings of a role that is no owner of them. */
async function startLimitedPostgres(role: string) {
  const { env, postgres } = await startPostgres();
  if (postgres === undefined) throw new Error("expected PostgreSQL");
  const owner = await start(env);
  await postgres.query(`CREATE ROLE app LOGIN ${role}`);
  await postgres.query("GRANT USAGE ON SCHEMA headgate TO app");
  await postgres.query("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA headgate TO app");
  return { owner, postgres, env: { ...env, POSTGRES_URL: (env.POSTGRES_URL ?? "").replace("headgate@", "app@") } };
}

const ready = async (app: TestApp) => {
  const response = await app.http("/readyz");
  return `${response.status} ${await response.text()}`;
};

// Promise(operators): A process that has not read the limits at run time is not ready, and says why.
test("on PostgreSQL a role that may not read them is not ready and a condition, until it may", async () => {
  const { owner, postgres, env } = await startLimitedPostgres("");
  await limits(owner, "block", "edge", "tenant=acme");
  await postgres.query("REVOKE SELECT ON headgate.runtime_limit FROM app");
  const app = await start(env);
  expect(await ready(app)).toMatch(/^503 .*limits at run time can't be read: .* does not allow the user app /s);
  const headers = { authorization: `Bearer ${TOKEN}` };
  const says = expect.stringMatching(/^Limits at run time can't be read/);
  await expect
    .poll(async () => (await app.http("/state", { headers })).json(), { timeout: 5_000 })
    .toMatchObject({ status: "critical", conditions: expect.arrayContaining([expect.objectContaining({ says })]) });
  expect((await limits(owner, "exempt", "edge", "tenant=other")).out).toMatch(
    /in force in 1 of 2 processes; not confirmed: /,
  );
  await postgres.query("GRANT SELECT ON headgate.runtime_limit TO app");
  await expect.poll(() => ready(app), { timeout: 5_000 }).toMatch(/^200/);
  expect(await codes(app, { tenant: "acme" }, 1)).toBe("over");
});

test("on PostgreSQL a process that has only the connections of its takes knows all limits and confirms changes", async () => {
  const { owner, env } = await startLimitedPostgres("CONNECTION LIMIT 2");
  await limits(owner, "block", "edge", "tenant=acme");
  const app = await start({ ...env, POSTGRES_CONNECTIONS: "2" });
  await expect.poll(() => ready(app), { timeout: 5_000 }).toMatch(/^200/);
  expect(await codes(app, { tenant: "acme" }, 1)).toBe("over");
  expect((await limits(owner, "block", "edge", "tenant=other")).out).toContain("in force in 2 of 2 processes");
  expect(await codes(app, { tenant: "other" }, 1)).toBe("over");
});

test("a token is required even on this host; without one configured nobody may set limits", async () => {
  const app = await startTestApp(RULES);
  const response = await app.http("/limits");
  expect(response.status).toBe(403);
  expect(await response.text()).toContain("start the server with ADMIN_TOKEN");
  const guarded = await start();
  expect((await guarded.http("/limits")).status).toBe(401);
});

test("limits in memory outlive the process by a file; those of a store are there while it is away", async () => {
  const file = join(temporaryFolder("headgate-limits"), "limits");
  const app = await start({ LIMITS_CACHE: file });
  await limits(app, "block", "edge", "tenant=acme");
  await app.stop();
  expect(await codes(await start({ LIMITS_CACHE: file }), { tenant: "acme" }, 1)).toBe("over");
  const { env, stop } = await startRedis();
  const cached = join(temporaryFolder("headgate-limits"), "limits");
  const first = await start({ ...env, LIMITS_CACHE: cached });
  await limits(first, "block", "edge", "tenant=acme");
  await first.stop();
  await stop();
  expect(await codes(await start({ ...env, LIMITS_CACHE: cached }), { tenant: "acme" }, 1)).toBe("over");
});

test("an import sets what it can and names the lines that it can't; an export is imported as it was", async () => {
  const app = await start();
  const folder = temporaryFolder("headgate-limits");
  const csv = join(folder, "customers.csv");
  await writeFile(
    csv,
    "domain,descriptor,limit,requests_per_unit,use,block,note\nedge,tenant=a,hourly,7,,,x\nedge,tenat=b,,1,,,\nedge,user=u,,,gold,,\nedge,tenant=c,,,,true,\nedge,tenant=a,daily,8,,,\n",
  );
  const dry = await limits(app, "import", csv, "--dry-run");
  expect(dry.out).toContain("4 limits would be set, 1 refused");
  expect((await limits(app, "list")).out).toContain("no limits");
  const imported = await limits(app, "import", csv);
  expect([imported.out, imported.exitCode]).toEqual(["4 limits set, 1 refused\nin force in 1 of 1 process\n", 1]);
  expect(imported.err).toContain(`${csv}:3: edge tenat=b: refused`);
  // The second line of a caller adds to the first.
  expect((await limits(app, "list", "-d", "edge")).out).toContain("hourly: 7, daily: 8");
  // Lines that no request may have, and more bytes than one may have.
  await writeFile(
    csv,
    `domain,descriptor,limit,requests_per_unit,until\nedge,tenant=a,hourly,x,\nedge,tenant=b,hourly,1,${"y".repeat(99)}\n`,
  );
  const unread = await limits(app, "import", csv);
  expect([unread.out, unread.exitCode]).toEqual(["0 limits set, 2 refused\n", 1]);
  expect(unread.err).toContain(`${csv}:2: refused\n  expected a whole number`);
  const long = { domain: "edge", entries: [{ key: "tenant", value: "a" }], block: true, note: "語".repeat(256) };
  await writeFile(csv, `${JSON.stringify(long)}\n`.repeat(400));
  expect((await limits(app, "import", csv, "--dry-run")).out).toBe("400 limits would be set, 0 refused\n");
  // A value that is no text.
  await limits(app, "block", "edge", "tenant=x\\xff");
  const exported = (await limits(app, "export")).out;
  expect(exported).toContain('"value_base64":"eP8="');
  const jsonl = join(folder, "limits.jsonl");
  await writeFile(jsonl, exported);
  const again = await start();
  expect((await limits(again, "import", jsonl)).exitCode).toBe(0);
  expect((await limits(again, "export")).out).toBe(exported);
});

test("counters of COMPATIBILITY_MODE follow, also where LOCAL_CACHE remembers that they are over", async () => {
  const { env } = await startRedis();
  const rules = `domain: edge
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: 2, unit: hour } }
`;
  const settings = { COMPATIBILITY_MODE: "true", LOCAL_CACHE_SIZE_IN_BYTES: "1000000", STORE_DEADLINE: "5s" };
  const app = await startTestApp(rules, { ADMIN_TOKEN: TOKEN, ...settings, ...env });
  expect(await codes(app, { tenant: "acme" }, 4)).toBe("ok ok over over");
  expect((await limits(app, "set", "edge", "tenant=acme", "--requests", "7")).exitCode).toBe(0);
  // Counters are charged by refused calls, too, but not by those that the cache refuses.
  expect(await codes(app, { tenant: "acme" }, 5)).toBe("ok ok ok ok over");
  await limits(app, "block", "edge", "tenant=other", "--until", "1h");
  const blocked = await app.hit({ tenant: "other" });
  expect(blocked.overall_code).toBe("OVER_LIMIT");
  expect(Number(blocked.statuses[0]?.duration_until_reset?.seconds)).toBeGreaterThan(3_000);
  await limits(app, "exempt", "edge", "tenant=acme");
  expect(await codes(app, { tenant: "acme" }, 1)).toBe("ok");
});

test("Retry-After of a blocked caller is the end of the block, without jitter", async () => {
  const app = await start({ RETRY_AFTER_JITTER: "0.5", RESPONSE_HEADERS: "x-ratelimit" });
  for (const tenant of ["a", "b", "c", "d"]) {
    await limits(app, "block", "edge", `tenant=${tenant}`, "--until", "1h");
    const { response_headers_to_add: headers } = await app.hit({ tenant });
    const retryAfter = headers.find(({ key }) => key === "Retry-After")?.value;
    expect(Number(retryAfter)).toBeGreaterThan(3_000);
    expect(Number(retryAfter)).toBeLessThanOrEqual(3_600);
  }
});

test("what a blocked caller reserved is settled, and nothing else of its calls is paid", async () => {
  const rules = `domain: edge
descriptors:
  - { key: model, hold: { id: request_id, estimate: max_tokens, ttl: 1h }, rate_limit: { requests_per_unit: 10, unit: day, algorithm: token_bucket } }
  - { key: tenant, rate_limit: { requests_per_unit: 5, unit: day, algorithm: fixed_window } }
`;
  const app = await startTestApp(rules, { ADMIN_TOKEN: TOKEN });
  const ask = async (...descriptors: Readonly<Record<string, string>>[]) => {
    const asked = descriptors.map((entries) => ({
      entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
    }));
    return app.ask({ domain: "edge", descriptors: asked });
  };
  const left = async (entries: Readonly<Record<string, string>>) => {
    const descriptors = [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })) }];
    const response = await app.http("/buckets/peek", {
      method: "POST",
      body: JSON.stringify({ domain: "edge", descriptors }),
      headers: { authorization: `Bearer ${TOKEN}` },
    });
    return ((await response.json()) as { buckets: { remaining: number }[] }).buckets.map(({ remaining }) => remaining);
  };
  expect((await ask({ model: "m", request_id: "r1", max_tokens: "6" })).overall_code).toBe("OK");
  expect(await left({ model: "m" })).toEqual([4]);
  await limits(app, "block", "edge", "tenant=bad");
  await limits(app, "block", "edge", "model=m");
  const settlement = { model: "m", request_id: "r1", max_tokens: "1", settle: "1" };
  const refused = await ask({ tenant: "good" }, settlement, { tenant: "bad" });
  expect(refused.overall_code).toBe("OVER_LIMIT");
  expect(refused.statuses.map(({ code }) => code)).toEqual(["OK", "OK", "OVER_LIMIT"]);
  expect(await left({ tenant: "good" })).toEqual([5]);
  expect(await left({ model: "m" })).toEqual([9]);
  expect((await ask({ model: "m", request_id: "r2", max_tokens: "1" })).overall_code).toBe("OVER_LIMIT");
});

test("Budgets follows them: other amounts, a block, which still settles, and nothing to reserve for the exempt", async () => {
  const app = await startTestApp(BUDGET_RULES, { ADMIN_TOKEN: TOKEN });
  const budgets = callBudgets(`127.0.0.1:${app.grpcPort}`);
  const hold = (id: string, number: number) => ({ entries: { tenant: "a" }, id, number });
  expect(await budgets.reserve(hold("r1", 60))).toMatchObject({ code: "OK", reserved: 60 });
  expect(await budgets.reserve(hold("r2", 60))).toMatchObject({ code: "OVER_LIMIT" });
  await limits(app, "set", "edge", "tenant=a", "--requests", "200");
  expect(await budgets.reserve(hold("r2", 60))).toMatchObject({ code: "OK", reserved: 60, remaining: 80 });
  await limits(app, "block", "edge", "tenant=a");
  expect(await budgets.reserve(hold("r3", 1))).toMatchObject({ code: "OVER_LIMIT", reserved: 0 });
  expect(await budgets.settle(hold("r1", 10))).toMatchObject({ found: "SETTLED" });
  await limits(app, "exempt", "edge", "tenant=a");
  expect(await budgets.reserve(hold("r4", 60))).toMatchObject({ code: "OK", reserved: 0 });
  await limits(app, "unset", "edge", "tenant=a");
  expect(await budgetLeft(app)).toBe(30);
});

test.each([0, 1])(
  "a blocked caller's call pays no limit that it brings along, before or after the blocked descriptor",
  async (at) => {
    const rules = "domain: edge\ndescriptors: [{ key: tenant, rate_limit: { requests_per_unit: 5, unit: day } }]\n";
    const app = await startTestApp(rules, { ADMIN_TOKEN: TOKEN });
    await limits(app, "block", "edge", "tenant=bad");
    const own = { entries: [{ key: "user", value: "own" }], limit: { requests_per_unit: 9, unit: "DAY" } };
    const blocked = { entries: [{ key: "tenant", value: "bad" }] };
    const descriptors = at === 0 ? [own, blocked] : [blocked, own];
    expect((await app.ask({ domain: "edge", descriptors })).overall_code).toBe("OVER_LIMIT");
    const after = await app.ask({ domain: "edge", descriptors: [own] });
    expect(after.statuses[0]?.limit_remaining).toBe(8);
  },
);

test("LIMITS_UNTIL_MAX requires an end", async () => {
  const app = await start({ LIMITS_UNTIL_MAX: "1h" });
  const { out, exitCode } = await limits(app, "block", "edge", "tenant=acme");
  expect([out.includes("an end within the 1 h of LIMITS_UNTIL_MAX"), exitCode]).toEqual([true, 1]);
  expect((await limits(app, "block", "edge", "tenant=acme", "--until", "2h")).exitCode).toBe(1);
  expect((await limits(app, "block", "edge", "tenant=acme", "--until", "30m")).exitCode).toBe(0);
});
