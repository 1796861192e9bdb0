// Several workers behind one port, with a real Redis: limits hold over all of them, every one gets its share, what one says the
// others say too, and none of it ends with a worker.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { PROGRAM } from "../support/built-program.ts";
import { type Caller, isOverLimit, openCallers, requestAbout } from "../support/callers.ts";
import { RedisServer } from "../support/redis-server.ts";
import { RUNS_NODE_24 } from "../support/require-node24.ts";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { RULES, startWorkers, type WorkerRig } from "../support/worker-rig.ts";

const TOTAL = 'ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}';
const RESTARTS = "headgate_worker_restarts_total";
const FREE = requestAbout("free", "x");
const TOKEN = "a-token-of-the-operators";

let redis: RedisServer;

beforeAll(async () => {
  redis = await RedisServer.start();
});
beforeEach(() => redis.flush());

function startFleet(env: Readonly<Record<string, string>>): Promise<WorkerRig> {
  return startWorkers({ REDIS_URL: `127.0.0.1:${redis.port}`, ...env });
}

const open = (count: number, rig: WorkerRig): Caller[] => openCallers(count, rig.target);

// One fleet for all of them: a start takes a second or two of processor time. The last one ends it.
describe("two workers on one Redis", () => {
  let rig: WorkerRig;
  beforeAll(async () => {
    rig = await startFleet({ ON_STORE_FAILURE: "error", SHUTDOWN_DELAY: "700ms" });
  });

  const connections = async () => (await rig.workers()).map((worker) => worker.connections);
  const count = async (series: string) => (await rig.metric(series)) ?? 0;
  /** Resolves when so many calls more were answered. */
  const untilCalled = async (calls: number) => {
    const before = await count(TOTAL);
    await expect.poll(() => count(TOTAL)).toBeGreaterThan(before + calls);
  };

  // Promise(processes): Each worker counts as a process where limits are leased.
  test("count as two processes, which lease at most a quarter of a limit together", async () => {
    const outcomes = [];
    const [one, other] = open(2, rig) as [Caller, Caller];
    const request = requestAbout("leased", "ann");
    // Two threads, and the process that keeps limits at run time.
    await expect.poll(() => redis.command("HLEN", "{headgate:limits}:processes")).toBe(3);
    await one.ask(FREE);
    await other.ask(FREE);
    // A process leases once it was on the list for 2.8 s, and hears of the others every second.
    await sleep(5_000);
    for (let i = 0; i < 100; i++) outcomes.push(await one.ask(request), await other.ask(request));
    const granted = outcomes.filter((outcome) => !isOverLimit(outcome)).length;
    expect(granted).toBeGreaterThanOrEqual(75);
    expect(granted).toBeLessThanOrEqual(100);
  });

  // Promise(processes): Workers on one store grant what the rule allows, share connections evenly, and show their numbers as one.
  test("grant what the rule allows and not one more, get half of the connections each, and show their numbers as one", async () => {
    await expect.poll(connections).toEqual([0, 0]);
    const before = await countsOf(rig);
    const sixteen = open(16, rig);
    for (const caller of sixteen) expect((await caller.ask(FREE)).code).toBe(status.OK);
    const request = requestAbout("user", "ann");
    const outcomes = (
      await Promise.all(sixteen.map((caller) => Promise.all(Array.from({ length: 25 }, () => caller.ask(request)))))
    ).flat();
    expect(outcomes.map(({ code }) => code)).toEqual(outcomes.map(() => status.OK));
    expect(outcomes.filter((outcome) => !isOverLimit(outcome))).toHaveLength(100);
    expect(await connections()).toEqual([8, 8]);
    expect(await rig.metric("headgate_workers")).toBe(2);
    const after = await countsOf(rig);
    expect(after.map((count, i) => count - (before[i] ?? 0))).toEqual([416, 400, 208, 208]);
  });

  test("SIGHUP has both read the rules again", async () => {
    rig.signal("SIGHUP");
    for (const worker of [1, 2]) {
      const line = () =>
        rig.log.find((each) => each.includes("rules are unchanged") && each.includes(`"worker":${worker}`));
      await expect.poll(line).toBeDefined();
    }
  });

  // Promise(processes): A worker that dies is replaced while the others go on, and no counter falls.
  test("a worker that dies of an error is replaced while calls go on at the other, and no number falls", async () => {
    const eight = open(8, rig);
    let isOver = false;
    const asking = eight.map((caller) =>
      caller.keepAsking(
        () => FREE,
        1,
        () => isOver,
      ),
    );
    await untilCalled(100);
    const before = await count(TOTAL);
    const restarts = await count(RESTARTS);
    rig.act(1, "throw");
    await expect.poll(() => rig.metric(RESTARTS)).toBe(restarts + 1);
    expect(await count(TOTAL)).toBeGreaterThanOrEqual(before);
    await expect
      .poll(async () => (await rig.workers()).map((each) => each.status), { timeout: 60_000 })
      .toEqual(["ready", "ready"]);
    await open(1, rig)[0]?.ask(FREE);
    isOver = true;
    const outcomes = (await Promise.all(asking)).flat();
    const failed = outcomes.filter(({ code }) => code !== status.OK);
    // One call of each connection of the worker that died, and those that asked before they were connected again.
    expect(failed.filter(({ code }) => code !== status.UNAVAILABLE)).toEqual([]);
    expect(failed.length).toBeLessThan(outcomes.length / 2);
    expect(rig.log.filter((line) => /"number":1.*thrown by a test.*a worker exited/.test(line))).toHaveLength(1);
  });

  // Promise(processes): A worker that hangs, even while it starts, is replaced.
  test("a worker that hangs is ended and replaced", async () => {
    const restarts = await count(RESTARTS);
    rig.act(1, "hang");
    await Promise.all(open(2, rig).map((caller) => caller.ask(FREE, 200)));
    const now = () => rig.metric(RESTARTS).catch(() => undefined);
    await expect.poll(now, { timeout: 60_000, interval: 500 }).toBe(restarts + 1);
    expect(rig.log.some((line) => line.includes("a worker does not respond"))).toBe(true);
    await expect.poll(async () => (await rig.workers())[0]?.status, { timeout: 60_000 }).toBe("ready");
  });

  // Promise(processes): A process is ready when all its workers are.
  test("any worker reports the readiness of all; what all report is shown once", async () => {
    await expect.poll(async () => (await rig.http("/readyz")).status).toBe(200);
    await redis.kill();
    const reasons = async () => ((await (await rig.http("/readyz")).json()) as { reasons: { store?: string } }).reasons;
    // Two questions, one to each worker; the second one hears of the first one's trouble within a second or so.
    const asked = async () => [await reasons(), await reasons()].map(({ store }) => store?.replace(/^in worker.*/, ""));
    const refused = expect.stringMatching(/^Redis at .* refuses connections/);
    await expect.poll(asked, { timeout: 60_000 }).toEqual([refused, refused]);
    await expect.poll(() => rig.metric("headgate_ready")).toBe(0);
    await redis.restart();
    await expect.poll(async () => (await rig.http("/readyz")).status, { timeout: 60_000 }).toBe(200);
  });

  // Promise(processes): SIGTERM to several workers loses no call.
  test("SIGTERM makes all of them unready, then drains them, and no call that was begun is lost", async () => {
    const eight = open(8, rig);
    const asking = eight.map(async (caller) => {
      const outcomes = [];
      do outcomes.push(await caller.ask(FREE));
      while (outcomes.at(-1)?.code === status.OK);
      return outcomes;
    });
    await untilCalled(100);
    rig.signal("SIGTERM");
    await expect.poll(async () => (await rig.http("/readyz")).status).toBe(503);
    expect(await rig.ended).toBe(0);
    const lasts = (await Promise.all(asking)).map((outcomes) => outcomes.at(-1));
    // Each caller went on until there was nobody to connect to any more.
    expect(lasts.map((last) => last?.code)).toEqual(eight.map(() => status.UNAVAILABLE));
    expect(lasts.filter((last) => !/No connection established|ECONNREFUSED/.test(last?.details ?? ""))).toEqual([]);
    expect(rig.log.at(-1)).toContain("done");
  });
});

// One fleet again, the last test ends it; the first one counts all of its calls.
describe("a fleet of two", () => {
  let rig: WorkerRig;
  beforeAll(async () => {
    rig = await startFleet({ SHUTDOWN_DELAY: "1m" });
  });

  // Promise(processes): Counters keep what a worker had counted when it died.
  test("nothing is lost of what a worker had counted when it ended, scraped or not", async () => {
    const four = open(4, rig);
    const ask = (times: number) =>
      Promise.all(four.flatMap((caller) => Array.from({ length: times }, () => caller.ask(FREE))));
    await ask(25);
    for (const worker of [1, 2]) rig.act(worker, "exit");
    const restarts = () => rig.metric(RESTARTS).catch(() => undefined);
    await expect.poll(restarts, { timeout: 60_000, interval: 200 }).toBe(2);
    expect(await rig.metric(TOTAL)).toBe(100);
    const hits = 'ratelimit_service_rate_limit_total_hits{domain="edge",key1="free",key2="",rule="free",limit=""}';
    // A worker that has just begun has no rules yet, and so no series of theirs.
    await expect.poll(() => rig.metric(hits)).toBe(100);
    expect(await rig.metric('ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}')).toBe(100);
  });

  // Promise(processes): A worker without rules gets no calls while others have theirs.
  test("whose rule file is wrong when a worker dies answers all calls by the rules that the other one has", async () => {
    const states = async () => (await rig.workers()).map((each) => each.status).sort();
    await expect.poll(states, { timeout: 60_000 }).toEqual(["ready", "ready"]);
    await writeFile(rig.rulesFile, "domain: [");
    await expect.poll(() => rig.log.some((line) => line.includes("the last good rules stay in force"))).toBe(true);
    rig.act(1, "exit");
    await expect.poll(states, { timeout: 60_000 }).toEqual(["not ready", "ready"]);
    await expect.poll(async () => (await rig.http("/readyz")).status).toBe(200);
    const outcomes = await Promise.all(open(8, rig).map((caller) => caller.ask(FREE)));
    expect(outcomes.map(({ code }) => code)).toEqual(outcomes.map(() => status.OK));
    await writeFile(rig.rulesFile, RULES);
    await expect.poll(states, { timeout: 60_000 }).toEqual(["ready", "ready"]);
  });

  test("a second signal ends all of them at once", async () => {
    rig.signal("SIGTERM");
    await expect.poll(() => rig.log.some((line) => line.includes("shutting down"))).toBe(true);
    rig.signal("SIGTERM");
    expect(await rig.ended).toBe(1);
  });
});

/** Calls, hits of the rule `user`, and the calls of each worker. */
async function countsOf(rig: WorkerRig): Promise<number[]> {
  const series = [
    TOTAL,
    'ratelimit_service_rate_limit_total_hits{domain="edge",key1="user",key2="",rule="user",limit=""}',
    'headgate_worker_calls_total{worker="1"}',
    'headgate_worker_calls_total{worker="2"}',
  ];
  return Promise.all(series.map(async (each) => (await rig.metric(each)) ?? 0));
}

/** Limits at run time are in force in all threads, and shown by all, whichever was asked. */
async function expectSharedLimits(rig: WorkerRig, callers: readonly Caller[]): Promise<void> {
  const send = (method: string, body?: string) =>
    fetch(`http://127.0.0.1:${rig.httpPort}/limits`, {
      method,
      headers: { authorization: `Bearer ${TOKEN}`, connection: "close" },
      ...(body === undefined ? {} : { body }),
    });
  const users = Array.from({ length: 6 }, (_, i) => `blocked-${i}`);
  for (const value of users) {
    const limits = [{ domain: "edge", entries: [{ key: "user", value }], block: true }];
    expect((await send("PUT", JSON.stringify({ limits }))).status).toBe(200);
  }
  const listed = (await (await send("GET")).json()) as { limits: readonly object[] };
  expect(listed.limits).toHaveLength(users.length);
  for (const [i, caller] of callers.entries()) {
    expect(isOverLimit(await caller.ask(requestAbout("user", users[i % users.length] ?? "")))).toBe(true);
  }
}

describe("a start", () => {
  // Promise(processes): With the memory store workers share one exact count, which outlives a worker and, with MEMORY_SNAPSHOT, the process.
  test("with the memory store share one exact count, through the end of a worker and a restart", async () => {
    const snapshot = join(temporaryFolder("headgate-snapshot"), "buckets");
    const env = { WORKERS: "3", MEMORY_SNAPSHOT: snapshot, ADMIN_TOKEN: TOKEN };
    const rig = await startWorkers(env);
    // It is ready when it says that it listens, whoever is asked.
    const ready = await Promise.all(Array.from({ length: 9 }, () => rig.http("/readyz")));
    expect(new Set(ready.map((answer) => answer.status))).toEqual(new Set([200]));
    const nine = open(9, rig);
    await expectSharedLimits(rig, nine);
    const outcomes = (about: ReturnType<typeof requestAbout>, callers = nine) =>
      Promise.all(callers.flatMap((caller) => Array.from({ length: 10 }, () => caller.ask(about))));
    const granted = async (about: ReturnType<typeof requestAbout>, callers = nine) =>
      (await outcomes(about, callers)).filter((outcome) => outcome.code === status.OK && !isOverLimit(outcome)).length;
    expect(await granted(requestAbout("user", "ann"))).toBe(90);
    rig.act(1, "throw");
    await expect.poll(() => rig.metric(RESTARTS)).toBe(1);
    await expect
      .poll(async () => (await rig.workers()).map((each) => each.status), { timeout: 60_000 })
      .toEqual(["ready", "ready", "ready"]);
    const others = open(9, rig);
    expect(await granted(requestAbout("user", "ann"), others)).toBe(10);
    expect(await granted(requestAbout("user", "bob"), others)).toBe(90);
    expect(await rig.metric("headgate_workers")).toBe(3);
    await rig.stop();

    const next = await startWorkers(env);
    const after = open(3, next);
    expect(await granted(requestAbout("user", "ann"), after)).toBe(0);
    expect(await granted(requestAbout("user", "bob"), after)).toBe(10);
  });

  // Promise(processes): Where Node can't hand connections to threads, several workers are refused.
  test.skipIf(RUNS_NODE_24)("on an older Node is refused, in one sentence that names Node 24", async () => {
    const command = [process.execPath, ...PROGRAM, "serve"];
    const started = startService({ WORKERS: "2", REDIS_URL: `127.0.0.1:${redis.port}` }, { command });
    await expect(started).rejects.toThrow(/ended with 1 .*CONFIG_SETTINGS: WORKERS: [^\n]* need Node 24 [^\n]*$/s);
  });

  // Promise(processes): A start that can't succeed ends with one error.
  test.each([
    {
      name: "an HTTP port that is taken",
      env: (port: number) => ({ PORT: String(port) }),
      says: "HTTP can't listen on",
    },
    {
      name: "certificates that can't be used",
      env: () => ({
        GRPC_SERVER_USE_TLS: "true",
        GRPC_SERVER_TLS_CERT: import.meta.filename,
        GRPC_SERVER_TLS_KEY: import.meta.filename,
      }),
      says: "the gRPC port's certificates can't be used",
    },
  ])("with $name ends with one clear error", async ({ env, says }) => {
    const why = await startFleet(env(redis.port)).then(
      () => "it started",
      (error: Error) => error.message,
    );
    expect(why).toContain("ended with 1 before it listened");
    expect(why.split(says)).toHaveLength(2);
    expect(why.match(/CONFIG_SETTINGS/g)).toHaveLength(1);
    expect(why).not.toContain("    at ");
  });
});
