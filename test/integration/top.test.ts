// /top of a whole service: who is limited, in each store.

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import type { RecordedTerminal } from "../support/recorded-terminal.ts";
import { runProgram } from "../support/run-program.ts";
import { type SharedServers, startPostgres, startRedis } from "../support/shared-stores.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

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
}

const start = (env: Readonly<Record<string, string>> = {}) => startTestApp(RULES, { STORE_DEADLINE: "10s", ...env });

async function topOf(app: Pick<TestApp, "http">, query = ""): Promise<Top> {
  return (await (await app.http(`/top${query}`)).json()) as Top;
}

function countsOf({ keys }: Top): readonly unknown[] {
  return keys.map(({ rule, asked, refused, descriptor }) => [rule, descriptor?.[0]?.value, asked, refused]);
}

describe("in a store", () => {
  let redis: SharedServers;
  let postgres: SharedServers;
  beforeAll(async () => {
    redis = await startRedis();
    postgres = await startPostgres();
  });
  const inRedis = () => ({ ...redis.env, CACHE_KEY_PREFIX: `t${Math.random()}:` });

  // Promise(operators): Every refusal counts in `/top`, whatever refuses.
  test.each([
    { name: "memory", env: () => ({}) },
    { name: "Redis, where most refusals come from what is remembered of denials", env: inRedis },
    { name: "Redis without that", env: () => ({ ...inRedis(), DENIALS_MAX: "0" }) },
    {
      name: "counters in Redis behind their local cache",
      env: () => ({ ...inRedis(), COMPATIBILITY_MODE: "true", LOCAL_CACHE_SIZE_IN_BYTES: "600000" }),
    },
    { name: "PostgreSQL", env: () => postgres.env },
  ])("$name: every refusal is counted, whichever part refuses", async ({ env }) => {
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
});

test("JSON says what was asked for, by default the refused of the last minute", async () => {
  const app = await start();
  expect(await topOf(app)).toMatchObject({ window: "minute", window_seconds: 60, by: "refused", keys: [] });
  for (let i = 0; i < 3; i++) await app.hit({ user: "alice" });
  await app.hit({ user: "bob" });
  const top = await topOf(app, "?window=hour&by=asked&keys=1");
  expect(top).toMatchObject({ window: "hour", window_seconds: 3_600, by: "asked" });
  expect(countsOf(top)).toEqual([["user", "alice", 3, 0]]);
});

test("a query that can't be read is 400 and says what was expected", async () => {
  const app = await start();
  for (const [query, says] of [
    ["window=day", "expected minute or hour as window, got 'day'"],
    ["by=name", "expected refused or asked as by, got 'name'"],
    ["keys=0", "expected a whole number from 1 to 100 as keys, got '0'"],
    ["scope=all", "expected process as scope, got 'all'"],
    ["keys=101", "expected a whole number from 1 to 100 as keys, got '101'"],
    ["key=5", "expected window or by or keys or scope in the query, got 'key'"],
    ["constructor=5", "expected window or by or keys or scope in the query, got 'constructor'"],
  ]) {
    const response = await app.http(`/top?${query}`);
    expect([response.status, await response.text()]).toEqual([400, `REQUEST_BODY: ${says}\n`]);
  }
});

test("TOP_KEYS=0 counts nothing and says so", async () => {
  const response = await (await start({ TOP_KEYS: "0" })).http("/top");
  expect([response.status, await response.text()]).toEqual([404, expect.stringContaining("TOP_KEYS is 0")]);
});

describe("metrics", () => {
  const seriesOf = async (app: TestApp) =>
    (await (await app.http("/metrics")).text()).split("\n").filter((line) => line.startsWith("headgate_top_refused"));

  // Promise(operators): Metrics name no caller among the top keys unless TOP_KEYS_METRICS asks for it.
  test("name no key unless TOP_KEYS_METRICS asks for it", async () => {
    const app = await start();
    for (let i = 0; i < 5; i++) await app.hit({ user: "alice" });
    expect(await seriesOf(app)).toEqual([]);
    expect(await (await app.http("/metrics")).text()).not.toContain("alice");
  });

  test("have as many of the refused as it says, the most refused first, and they go away again", async () => {
    const clock = new ManualClock();
    const app = await startTestApp(RULES, { TOP_KEYS_METRICS: "2" }, clock);
    for (const [user, calls] of [
      ["a", 5],
      ["b", 6],
      ["c", 4],
    ] as const) {
      for (let i = 0; i < calls; i++) await app.hit({ user });
    }
    expect(await seriesOf(app)).toEqual([
      'headgate_top_refused{domain="edge",rule="user",key="{edge|user=b}|fw/86400"} 3',
      'headgate_top_refused{domain="edge",rule="user",key="{edge|user=a}|fw/86400"} 2',
    ]);
    clock.advanceSeconds(70);
    expect(await seriesOf(app)).toEqual([]);
  });
});

describe("`headgate top`", () => {
  test("shows the others when one of several does not answer, and no more keys than asked for", async () => {
    const [app, gone] = [await start(), await start()];
    for (const user of ["a", "a", "b"]) await app.hit({ user });
    await gone.stop();
    const servers = [app, gone].map(({ httpPort }) => `127.0.0.1:${httpPort}`);
    const { out, err, exitCode } = await runProgram(["top", "-s", servers.join(","), "--by", "asked", "-k", "1"]);
    expect(out).toMatch(/UTC, 1 process\n/);
    expect(out.match(/edge\/user/g)).toHaveLength(1);
    expect([err, exitCode]).toEqual([expect.stringContaining(`can't ask http://${servers[1]}/top`), 2]);
  });

  const serverOf = (app: TestApp) => ["top", "-s", `127.0.0.1:${app.httpPort}`];

  test("prints who is refused, by which rule and since when", async () => {
    const app = await start();
    for (let i = 0; i < 5; i++) await app.hit({ user: "alice" });
    for (let i = 0; i < 2; i++) await app.hit({ token: "s3cret" });
    const { out, err, exitCode } = await runProgram(serverOf(app));
    expect([err, exitCode]).toEqual(["", 0]);
    expect(out).toMatch(/^refused most within the last minute, \d\d:\d\d:\d\d UTC\n\n/);
    expect(out).toMatch(
      /REFUSED {2}ASKED {2}SINCE {2}LAST {2}RULE {8}KEY\n +2 +5 +\d+ s +\d+ s {2}edge\/user {3}user=alice\n/,
    );
    expect(out).toMatch(/ 1 +2 +\d+ s +\d+ s {2}edge\/token {2}token=%#/);
    expect(out).not.toContain("s3cret");
  });

  test("takes window, count and number of keys, and prints JSON as /top has it", async () => {
    const app = await start();
    for (const user of ["alice", "alice", "bob"]) await app.hit({ user });
    const { out } = await runProgram([...serverOf(app), "--by", "asked", "--window", "hour", "-k", "1", "--json"]);
    const top = JSON.parse(out) as Top;
    expect([top.window, top.by, countsOf(top)]).toEqual(["hour", "asked", [["user", "alice", 2, 0]]]);
    expect((await runProgram([...serverOf(app), "--once"], { screenColumns: 80 })).out).toContain("nobody is refused");
  });

  test("refreshes on a screen, continues while the service is away, and ends when stopped", async () => {
    const app = await start();
    const tables = (terminal: RecordedTerminal) => terminal.outText.split("\x1b[H\x1b[2J").slice(1);
    const { out, err, exitCode } = await runProgram([...serverOf(app), "--every", "200ms"], {
      screenColumns: 80,
      async untilStopped(terminal) {
        await expect.poll(() => tables(terminal).length).toBeGreaterThan(1);
        for (let i = 0; i < 4; i++) await app.hit({ user: "alice" });
        await expect.poll(() => tables(terminal).at(-1)).toContain("user=alice");
        await app.stop();
        await expect.poll(() => terminal.errText).toContain("can't ask");
      },
    });
    expect([out.includes("nobody is refused"), err.includes("ECONNREFUSED"), exitCode]).toEqual([true, true, 0]);
  });

  test("says why a server refuses, and ends with 2", async () => {
    const app = await start({ ADMIN_TOKEN: TOKEN });
    const { err, exitCode } = await runProgram(serverOf(app), { env: { ADMIN_TOKEN: "not-the-operators-token" } });
    expect([err, exitCode]).toEqual([expect.stringMatching(/answered 401: .*invalid token/), 2]);
  });

  test("asks at a port that browsers keep for another protocol", async () => {
    const server = createServer((_, response) => response.writeHead(404).end("404 no such page\n"));
    closedWithTest(server);
    const port = await listenAtFirst(server, [10080, 6000, 6665, 6669, 5060]);
    const { err, exitCode } = await runProgram(["top", "--server", `localhost:${port}`]);
    expect([err, exitCode]).toEqual([expect.stringMatching(/answered 404: no such page\n$/), 2]);
  });
});

async function listenAtFirst(server: Server, ports: readonly number[]): Promise<number> {
  for (const port of ports) {
    const listening = once(server, "listening").catch((cause: NodeJS.ErrnoException) => {
      if (cause.code !== "EADDRINUSE") throw cause;
    });
    server.listen(port, "localhost");
    if ((await listening) !== undefined) return port;
  }
  throw new Error(`expected a free port among ${ports.join(", ")}`);
}
