// `headgate verify` is judged itself: it finds every wrong server within a minute, and accuses no right one: samples, Headgate on its
// stores, envoyproxy/ratelimit.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Algorithm } from "../../packages/verify/src/limit.ts";
import type { Plan } from "../../packages/verify/src/plan.ts";
import { reportText } from "../../packages/verify/src/report-text.ts";
import { verify } from "../../packages/verify/src/verify.ts";
import { ownProcess, showOnFailure } from "../support/child-processes.ts";
import { goTool } from "../support/go-tool.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import { WRONG } from "../support/sample-limiter.ts";
import { limitOf, planFor, planOf, RIGHT_PLANS } from "../support/sample-plans.ts";
import { serveSample } from "../support/sample-server.ts";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const now = () => performance.timeOrigin + performance.now();

/** Undefined if the limits of the plan hold, or what was found. */
async function accusation(plan: Plan): Promise<string | undefined> {
  const report = await verify(plan);
  if (typeof report === "string") return report;
  return report.isKept ? undefined : reportText(report);
}

/** A run takes some six seconds; on a busy machine one may prove nothing. */
const SEARCH_MS = 45_000;

describe("wrong servers are found within a minute", () => {
  test.each(WRONG)(
    "%s",
    async (wrong) => {
      const untilMs = now() + SEARCH_MS;
      let found: string | undefined;
      for (let seed = 1; found === undefined && now() < untilMs; seed++)
        found = await accusation({ ...(await serveSample(planFor(wrong), wrong)), seed });
      expect(found).toContain("WRONG");
    },
    60_000,
  );
});

describe("right servers are not accused, in a hundred runs", () => {
  const plans = ["token bucket", "fixed window", "sliding window", "refunds", "three descriptors"] as const;
  test.each(plans)("%s", async (name) => {
    for (let round = 0; round < 5; round++) {
      const seeds = [1, 2, 3, 4].map((one) => round * 4 + one);
      const found = await Promise.all(
        seeds.map(async (seed) => accusation(await serveSample({ ...RIGHT_PLANS[name], forMs: 4_000, seed }))),
      );
      expect(found.filter((one) => one !== undefined)).toEqual([]);
    }
  });
});

const RULES = `domain: verify
descriptors:
  - { key: token_bucket, rate_limit: { tokens_per_second: 20, burst: 40 } }
  - { key: fixed_window, rate_limit: { requests_per_unit: 20, unit: second, algorithm: fixed_window } }
  - { key: sliding_window, rate_limit: { requests_per_unit: 20, unit: second } }
  - { key: sliding_log, rate_limit: { requests_per_unit: 20, unit: second, algorithm: sliding_log } }
`;

/** Calls to limits of each of these algorithms alone, and to all at once, by rules as above. */
function planOfAll(servers: readonly string[], algorithms: readonly Algorithm[]): Plan {
  const kinds = algorithms.map((algorithm) => ({
    descriptors: [
      {
        entries: [{ key: algorithm, value: "*" }],
        limits: [limitOf(20, algorithm, algorithm === "token_bucket" ? { burst: 40 } : {})],
      },
    ],
  }));
  const together = { descriptors: kinds.flatMap(({ descriptors }) => descriptors) };
  return { ...planOf(...kinds, together), servers, forMs: 10_000 };
}

describe("Headgate is not accused", () => {
  const all = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"] as const;

  test("with the memory store", async () => {
    const { grpcPort } = await startService({}, { rules: RULES });
    const plan = planOfAll([`127.0.0.1:${grpcPort}`], all);
    expect(await accusation({ ...plan, hasRefunds: true })).toBeUndefined();
  });

  test("as two processes on a Redis", async () => {
    const redis = await RedisServer.start();
    // On a busy machine Redis may answer late, and by default such calls pass without a limit.
    const env = { REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "10s", STORE_PATIENCE: "10s" };
    const start = () => startService(env, { rules: RULES });
    const services = [await start(), await start()];
    const servers = services.map(({ grpcPort }) => `127.0.0.1:${grpcPort}`);
    expect(await accusation(planOfAll(servers, all))).toBeUndefined();
  });
});

const ratelimit = goTool("github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36");

describe.skipIf(ratelimit === undefined)("envoyproxy/ratelimit", () => {
  async function startRatelimit(redisPort: number): Promise<string> {
    const root = temporaryFolder("ratelimit");
    mkdirSync(join(root, "verify/config"), { recursive: true });
    const rule =
      "domain: verify\ndescriptors: [{ key: counter, rate_limit: { requests_per_unit: 20, unit: second } }]\n";
    writeFileSync(join(root, "verify/config/rules.yaml"), rule);
    const [port, grpcPort, debugPort] = [await freePort(), await freePort(), await freePort()];
    const child = ownProcess(
      spawn(ratelimit ?? "", [], {
        env: {
          PORT: `${port}`,
          GRPC_PORT: `${grpcPort}`,
          DEBUG_PORT: `${debugPort}`,
          HOST: "127.0.0.1",
          GRPC_HOST: "127.0.0.1",
          DEBUG_HOST: "127.0.0.1",
          USE_STATSD: "false",
          REDIS_SOCKET_TYPE: "tcp",
          REDIS_URL: `127.0.0.1:${redisPort}`,
          RUNTIME_ROOT: root,
          RUNTIME_SUBDIRECTORY: "verify",
          RUNTIME_WATCH_ROOT: "false",
        },
        stdio: ["ignore", "pipe", "pipe"],
      }),
    );
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += String(text)));
    showOnFailure("ratelimit", () => said);
    for (let up = false; !up; await sleep(100)) {
      up = await fetch(`http://127.0.0.1:${port}/healthcheck`).then(
        ({ ok }) => ok,
        () => false,
      );
    }
    return `127.0.0.1:${grpcPort}`;
  }

  async function startTwo(): Promise<string[]> {
    const redis = await RedisServer.start();
    return [await startRatelimit(redis.port), await startRatelimit(redis.port)];
  }

  test("keeps its windows, and counts refused calls", async () => {
    const servers = await startTwo();
    expect(await accusation(planOfAll(servers, ["counter"]))).toBeUndefined();
  });

  test("keeps no token bucket", async () => {
    const servers = await startTwo();
    const kind = {
      descriptors: [{ entries: [{ key: "counter", value: "*" }], limits: [limitOf(20, "token_bucket")] }],
    };
    expect(await accusation({ ...planOf(kind), servers })).toContain("WRONG");
  });
});
