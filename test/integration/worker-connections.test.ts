// Connections of several workers: each takes what the main thread hands over, and a worker with far more open
// calls than the other sends a connection away, which comes back to the other one.

import { credentials, status } from "@grpc/grpc-js";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Caller, openCallers, requestAbout } from "../support/callers.ts";
import { Authority } from "../support/certificates.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type ShownWorker, startWorkers, type WorkerRig } from "../support/worker-rig.ts";

const FREE = requestAbout("free", "x");
const authority = new Authority();
const pair = authority.issue("headgate.test");

let redis: RedisServer;
const rigs: WorkerRig[] = [];
const callers: Caller[] = [];
/** Ends what a test has running, also of one that has failed. */
let endLoad = () => Promise.resolve();

beforeAll(async () => {
  redis = await RedisServer.start();
});
afterEach(async () => {
  await endLoad();
  for (const caller of callers.splice(0)) caller.close();
  await Promise.all(rigs.splice(0).map((rig) => rig.stop()));
});
afterAll(() => redis.stop());

async function start(env: Readonly<Record<string, string>>): Promise<WorkerRig> {
  const rig = await startWorkers({ REDIS_URL: `127.0.0.1:${redis.port}`, ...env });
  rigs.push(rig);
  return rig;
}

const TLS = {
  GRPC_SERVER_USE_TLS: "true",
  GRPC_SERVER_TLS_CERT: pair.certFile,
  GRPC_SERVER_TLS_KEY: pair.keyFile,
  GRPC_CLIENT_TLS_CACERT: authority.certFile,
};

describe("a port of several workers", () => {
  test.each([
    { name: "in plain", env: {}, secure: undefined },
    {
      name: "over mutual TLS",
      env: TLS,
      secure: credentials.createSsl(authority.cert, pair.key, pair.cert),
    },
  ])("connections $name reach every worker, three each", async ({ env, secure }) => {
    const rig = await start({ ...env });
    const opened = openCallers(6, rig.target, secure);
    callers.push(...opened);
    const outcomes = await Promise.all(opened.map((caller) => caller.ask(FREE)));
    expect(outcomes.map(({ code, details }) => `${code} ${details}`)).toEqual(opened.map(() => `${status.OK} `));
    expect((await rig.workers()).map(({ connections }) => connections)).toEqual([3, 3]);
    for (const caller of callers.splice(0)) caller.close();
    await expect.poll(async () => (await rig.workers()).map(({ connections }) => connections)).toEqual([0, 0]);
    expect(await rig.stop()).toBe(0);
  });
});

// Promise(processes): A worker with far more than its share sends a connection away, which costs its caller no error.
test("a worker with far more open calls than the other sends one connection away, which moves without an error", async () => {
  // A store that takes its time, so that calls stay open; a deadline or a breaker would end them.
  const proxy = await FaultProxy.start(redis.port);
  const rig = await start({
    REDIS_URL: `127.0.0.1:${proxy.port}`,
    STORE_DEADLINE: "10s",
    LOG_LEVEL: "debug",
    DENIALS_MAX: "0",
  });
  let isOver = false;
  const busy: ReturnType<Caller["keepAsking"]>[] = [];
  const slowness = setInterval(() => {
    proxy.release();
    proxy.hold();
  }, 25);
  endLoad = async () => {
    isOver = true;
    clearInterval(slowness);
    proxy.release();
    await Promise.all(busy);
    await proxy.stop();
  };
  // Among workers with as many connections, a new one goes where fewer calls are open: which that is depends on the reports.
  const callersOf = new Map<number, Caller[]>();
  for (const caller of openCallers(4, rig.target)) {
    callers.push(caller);
    const before = await rig.workers();
    await caller.ask(FREE);
    const at = async () => {
      const workers = await rig.workers();
      return workers.findIndex(({ connections }, i) => connections > (before[i] as ShownWorker).connections);
    };
    await expect.poll(at).toBeGreaterThanOrEqual(0);
    const worker = await at();
    callersOf.set(worker, [...(callersOf.get(worker) ?? []), caller]);
  }
  expect([...callersOf.values()].map(({ length }) => length)).toEqual([2, 2]);
  const ask = () => FREE;
  for (const caller of callersOf.get(0) as Caller[]) busy.push(caller.keepAsking(ask, 40, () => isOver));
  await expect.poll(() => rig.metric("headgate_worker_moves_total"), { timeout: 60_000 }).toBe(1);
  const counts = async () => (await rig.workers()).map(({ connections }) => connections).sort();
  await expect.poll(counts, { timeout: 20_000 }).toEqual([1, 3]);
  // With one busy connection each, both have about as many calls open.
  const streams = async () => {
    const [one = 0, other = 0] = (await rig.workers()).map(({ open_streams: open }) => open).sort((a, b) => a - b);
    return other / Math.max(one, 1);
  };
  await expect.poll(streams, { timeout: 20_000 }).toBeLessThan(2);
  isOver = true;
  const outcomes = (await Promise.all(busy)).flat();
  expect(outcomes.filter(({ code }) => code !== status.OK)).toEqual([]);
  expect(rig.log.filter((line) => line.includes("asked a client to reconnect"))).toHaveLength(1);
});
