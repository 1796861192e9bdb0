// Ten times what the service can serve, because its store is slow: it serves what it can, turns the rest away at once, and is
// itself again as soon as the flood is over. On both transports, and on /json.

import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Figures } from "../soak/figures.ts";
import { endWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { until } from "./store-rig.ts";

const IN_FLIGHT_MAX = 10;
/** Each way between the service and its store. */
const DELAY_MS = 50;
const CAPACITY_PER_SECOND = (IN_FLIGHT_MAX * 1_000) / (2 * DELAY_MS);
const OFFERED_PER_SECOND = 10 * CAPACITY_PER_SECOND;
const SECONDS = 2;
const CONNECTIONS = 20;
/** Callers are slow at first. */
const WARM_UP_ROUNDS = 10;
const TICK_MS = 10;
const RESOURCE_EXHAUSTED = 8;
const RULES = "domain: edge\ndescriptors:\n  - { key: k, rate_limit: { requests_per_unit: 1000000, unit: hour } }\n";
const REQUEST = { domain: "edge", descriptors: [{ entries: [{ key: "k", value: "a" }] }] };

let proxy: FaultProxy;
beforeAll(async () => {
  proxy = await FaultProxy.start((await RedisServer.start()).port);
});

function startLimited(transport: string): Promise<ServiceProcess> {
  const env = { REDIS_URL: `127.0.0.1:${proxy.port}`, STORE_DEADLINE: "2s", IN_FLIGHT_MAX: String(IN_FLIGHT_MAX) };
  return startService({ ...env, GRPC_TRANSPORT: transport }, { rules: RULES });
}

interface Flood {
  readonly sent: number;
  readonly served: number;
  /** By gRPC status, or HTTP status. */
  readonly refused: ReadonlyMap<number, number>;
  /** For so long calls were offered. */
  readonly offeredMs: number;
  /** Half of the refusals came within this, and half of what was served. */
  readonly refusalMs: number;
  readonly servedMs: number;
}

/** Undefined as status: the call was served. */
interface Asked {
  readonly status: number | undefined;
  readonly ms: number;
}

/** Offers calls at a steady pace, whatever becomes of them. */
async function flood(ask: (i: number) => Promise<Asked>): Promise<Flood> {
  const refused = new Map<number, number>();
  const refusalMs: number[] = [];
  const servedMs: number[] = [];
  const calls: Promise<void>[] = [];
  const one = async () => {
    const { status, ms } = await ask(calls.length);
    if (status === undefined) servedMs.push(ms);
    else {
      refused.set(status, (refused.get(status) ?? 0) + 1);
      refusalMs.push(ms);
    }
  };
  const startMs = performance.now();
  while (performance.now() - startMs < SECONDS * 1_000) {
    // Never more at once than in any other moment: a caller that was late has lost its turn.
    for (let i = 0; i < (OFFERED_PER_SECOND * TICK_MS) / 1_000; i++) calls.push(one());
    await sleep(TICK_MS); // the pace at which calls are offered
  }
  const offeredMs = performance.now() - startMs;
  await Promise.all(calls);
  return {
    sent: calls.length,
    served: servedMs.length,
    refused,
    offeredMs,
    refusalMs: middleOf(refusalMs),
    servedMs: middleOf(servedMs),
  };
}

function middleOf(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
}

function expectToHold({ sent, served, refused, offeredMs, refusalMs, servedMs }: Flood, status: number): void {
  // Of all that could be served meanwhile, at the pace that this machine had, at least half.
  expect(served).toBeGreaterThan((offeredMs / servedMs) * IN_FLIGHT_MAX * 0.5);
  expect([...refused.keys()]).toEqual([status]);
  expect(served + (refused.get(status) ?? 0)).toBe(sent);
  // What is served waits for the store, what is refused for nobody.
  expect(refusalMs).toBeLessThan(servedMs);
}

/** Asks /json. The time is from when there was a connection for the call, which waits for one in this process. */
function post(agent: Agent, port: number): Promise<Asked> {
  return new Promise((resolve, reject) => {
    let startMs = 0;
    const call = request({ agent, port, host: "127.0.0.1", path: "/json", method: "POST" }, (response) => {
      response.resume();
      response.on("end", () =>
        resolve({
          status: response.statusCode === 200 ? undefined : response.statusCode,
          ms: performance.now() - startMs,
        }),
      );
    });
    call.on("socket", () => {
      startMs = performance.now();
    });
    call.on("error", reject);
    call.end(JSON.stringify(REQUEST));
  });
}

describe.each(["fast-lane", "grpc-js"])("ten times what can be served, on %s", (transport) => {
  let service: ServiceProcess;
  beforeAll(async () => {
    service = await startLimited(transport);
    proxy.begin({ kind: "delay", ms: DELAY_MS, jitterMs: 0 });
  });
  afterAll(() => proxy.end());

  // Promise(turns): Under ten times the load that can be served, what can be served is served, and the rest refused at once.
  test("is served as far as it goes; the rest is turned away at once, counted, and nothing is left of it", async () => {
    const clients = Array.from({ length: CONNECTIONS }, (_, i) =>
      openClient(`127.0.0.1:${service.grpcPort}`, { "grpc.use_local_subchannel_pool": 1, "grpc.id": i }),
    );
    const ask = async (i: number): Promise<Asked> => {
      const client = clients[i % CONNECTIONS] as (typeof clients)[number];
      const startMs = performance.now();
      const status = await askOnce(client, REQUEST).then(
        () => undefined,
        ({ code }: { code: number }) => code,
      );
      return { status, ms: performance.now() - startMs };
    };
    for (let i = 0; i < WARM_UP_ROUNDS; i++) await Promise.all(Array.from({ length: IN_FLIGHT_MAX }, (_, j) => ask(j)));
    const before = await Figures.of(service);
    const result = await flood(ask);
    const after = await Figures.of(service);
    expectToHold(result, RESOURCE_EXHAUSTED);
    expect(after.sum("headgate_overloaded_total")).toBe(result.refused.get(RESOURCE_EXHAUSTED));
    expect(after.sum("headgate_calls_in_flight")).toBe(0);
    expect(after.residentBytes - before.residentBytes).toBeLessThan(150_000_000);
    // At once: nothing waits in line behind what was refused.
    for (let i = 0; i < 10; i++) expect((await ask(i)).status).toBeUndefined();
  });

  test("by /json too", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 10 * IN_FLIGHT_MAX });
    endWithTest(() => agent.destroy());
    const ask = () => post(agent, service.httpPort);
    expectToHold(await flood(ask), 503);
    await until("it serves again", async () => (await ask()).status === undefined);
  });
});
