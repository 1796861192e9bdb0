// Budgets under a real Envoy with deploy/envoy/llm.yaml: what many streams at once may spend, and what is left when they end,
// break off, or their Envoy dies. What the model says it has used is the account that the budget is compared with.

import { beforeAll, describe, expect, test } from "vitest";
import { RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import type { Envoy } from "./support/envoy-process.ts";
import { Stream, startLlmEnvoy } from "./support/llm-rig.ts";
import { type ModelAnswer, type ModelUpstream, startModel } from "./support/model-upstream.ts";
import { startHeadgate } from "./support/rig.ts";

const STREAMS = 200;
const BUDGET = 50;
/** What a call holds that says no number. */
const ESTIMATE = 5;
const PLACES = 3;
const TTL_MS = 2_000;
/** Whose calls only mark a moment. */
const MARKER = "window-marker";

const RULES = `
domain: llm
defaults: { on_store_failure: deny }
descriptors:
  - key: tenant
    match: { prefix: window- }
    hold: { id: request_id, estimate: max_tokens, default: ${ESTIMATE}, max: 20, ttl: 1h }
    rate_limit: { requests_per_unit: ${BUDGET}, unit: year, algorithm: fixed_window }
  - key: tenant
    match: { prefix: places- }
    hold: { id: request_id, ttl: 1h }
    concurrent: ${PLACES}
  - key: tenant
    match: { prefix: short- }
    hold: { id: request_id, estimate: max_tokens, default: ${ESTIMATE}, max: 20, ttl: ${TTL_MS / 1_000}s }
    rate_limit: { requests_per_unit: ${BUDGET}, unit: year, algorithm: fixed_window }
`;

const TENANTS = [
  ...["load", "mixed", "short", "left"].map((name) => `window-${name}`),
  "places-ended",
  "places-left",
  "short-killed",
  MARKER,
];

let headgate: ServiceProcess;
let model: ModelUpstream;
let envoy: Envoy;
beforeAll(async () => {
  const redis = await RedisServer.start();
  // Long, so that a busy machine decides as a quiet one does.
  headgate = await startHeadgate(redis, RULES, { STORE_DEADLINE: "5s" });
  model = await startModel();
  envoy = await startEnvoy();
});

const startEnvoy = () => startLlmEnvoy({ model: model.port, headgate: headgate.grpcPort, tenants: TENANTS });

describe("a budget", () => {
  // Promise(llm): Concurrent streams never overspend a budget that their estimates cover, and pay what they used.
  test.each([
    { name: "load", kinds: ["wait"] },
    { name: "mixed", kinds: ["sse", "json", "wait", "error"] },
  ] as const)(
    "is never overspent by 200 streams at once, and pays what they have used: $name",
    async ({ name, kinds }) => {
      const tenant = `window-${name}`;
      let used = 0;
      for (let round = 0; (await remaining(tenant)) >= ESTIMATE; round++) {
        const left = await remaining(tenant);
        const streams = callMany((i) => kinds[i % kinds.length] ?? "wait", { tenant, round });
        const passed = await admitted(streams);
        expect(passed.length).toBeGreaterThanOrEqual(Math.floor(left / ESTIMATE));
        // Streams that end make room for others; those that wait don't.
        const passedMax = name === "load" ? Math.floor(left / ESTIMATE) : STREAMS;
        expect(passed.length).toBeLessThanOrEqual(passedMax);
        model.release();
        await Promise.all(streams.map(({ stream }) => stream.ended));
        for (const stream of passed) used += stream.used;
        await expect.poll(() => remaining(tenant)).toBe(BUDGET - used);
      }
      expect(used).toBeLessThanOrEqual(BUDGET);
    },
  );

  // Promise(llm): A budget is overspent by what estimates fall short, and by no more.
  test("is overspent by what estimates fall short, and by no more", async () => {
    const tenant = "window-short";
    const streams = Array.from({ length: STREAMS }, () => new Stream(envoy, { tenant, answer: "wait", used: 8 }));
    const statuses = await Promise.all(streams.map(({ status }) => status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(BUDGET / ESTIMATE);
    model.release();
    await Promise.all(streams.map(({ ended }) => ended));
    await reported();
    expect(await new Stream(envoy, { tenant, body: '{"max_tokens":1}' }).status).toBe(429);
  });

  // Promise(llm): A caller that leaves a stream pays what was held.
  test("pays what was held for a caller that leaves", async () => {
    const tenant = "window-left";
    const stream = new Stream(envoy, { tenant, answer: "wait", used: 3 });
    expect(await stream.status).toBe(200);
    stream.leave();
    await expect.poll(isNothingUnderWay).toBe(true);
    expect(await remaining(tenant)).toBe(BUDGET - ESTIMATE);
  });
});

describe("a limit on calls at once", () => {
  // Promise(llm): Concurrent calls are limited, and their places become free however they end.
  test.each([
    { name: "places-ended", leave: false },
    { name: "places-left", leave: true },
  ])("holds, and its places are free when calls are over: $name", async ({ name, leave }) => {
    for (let round = 0; round < 3; round++) {
      const streams = Array.from({ length: 20 }, () => new Stream(envoy, { tenant: name, answer: "wait", used: 1 }));
      const statuses = await Promise.all(streams.map(({ status }) => status));
      expect(statuses.filter((status) => status === 200)).toHaveLength(PLACES);
      if (leave) for (const stream of streams) stream.leave();
      else model.release();
      await Promise.all(streams.map(({ ended }) => ended));
      await expect.poll(() => remaining(name)).toBe(PLACES);
      model.release();
    }
  });
});

// Promise(llm): A killed Envoy's holds come back after their ttl, and not before.
test("what an Envoy held that was killed is back after its ttl", async () => {
  const tenant = "short-killed";
  const other = await startEnvoy();
  const beganMs = performance.now();
  const streams = Array.from({ length: 10 }, () => new Stream(other, { tenant, answer: "wait", used: 1 }));
  expect(await Promise.all(streams.map(({ status }) => status))).toEqual(Array(10).fill(200));
  await other.kill();
  await Promise.all(streams.map(({ ended }) => ended));
  await expect.poll(() => remaining(tenant)).toBe(BUDGET);
  expect(performance.now() - beganMs).toBeGreaterThanOrEqual(TTL_MS);
  model.release();
});

interface Counted {
  readonly stream: Stream;
  /** What the model says if the call comes to it. */
  readonly used: number;
}

/** Begins many calls at once; each uses as much as its estimate at most. */
function callMany(answer: (i: number) => ModelAnswer, { tenant, round }: { tenant: string; round: number }): Counted[] {
  return Array.from({ length: STREAMS }, (_, i) => {
    const kind = answer(i);
    const used = kind === "error" ? 0 : 1 + ((i * 7 + round) % ESTIMATE);
    return { stream: new Stream(envoy, { tenant, answer: kind, used }), used };
  });
}

/** Those that were let through, once all have their answer. Refusals are the only other answer. */
async function admitted(streams: readonly Counted[]): Promise<Counted[]> {
  const statuses = await Promise.all(streams.map(({ stream }) => stream.status));
  expect([...new Set(statuses)].filter((status) => ![200, 429, 500].includes(status))).toEqual([]);
  return streams.filter((_, i) => statuses[i] !== 429);
}

/** What is left of the tenant's budget; asks and pays nothing. */
async function remaining(tenant: string): Promise<number> {
  const descriptors = [{ entries: [{ key: "tenant", value: tenant }], hitsAddend: "0" }];
  const body = JSON.stringify({ domain: "llm", descriptors });
  const answer = await fetch(`http://127.0.0.1:${headgate.httpPort}/json`, { method: "POST", body });
  const { statuses } = (await answer.json()) as { statuses: { limitRemaining?: number }[] };
  return statuses[0]?.limitRemaining ?? 0;
}

const isNothingUnderWay = async () => (await envoy.counters("cluster.headgate.")).upstream_rq_active === 0;

/**
 * Resolves when the reports of ended streams have been answered. Envoy has one worker: in it a stream that began later asks
 * after the reports of those that ended before.
 */
async function reported(): Promise<void> {
  await new Stream(envoy, { tenant: MARKER, answer: "json", used: 0 }).ended;
  await expect.poll(isNothingUnderWay).toBe(true);
}
