// Two builds side by side on one Redis, as during a rolling update: this one, and one whose scripts have another text and so
// other hashes. Calls go to both while Redis forgets all scripts again and again.

import { appendFileSync, cpSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { loadScripts } from "../../src/stores/redis/scripts.ts";
import { callBudgets } from "../support/budgets.ts";
import { RedisServer } from "../support/redis-server.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const [OURS, OTHER] = [0, 1];
const SCARCE = 600;
const PLENTY = 1_000_000;
const CALLERS = 8;
const CALLS_EACH = 100;

const limitsOf = (amount: number, algorithms: readonly string[]) =>
  algorithms.map((name) => `      - { name: ${name}, algorithm: ${name}, requests_per_unit: ${amount}, unit: year }`);
const RULES = [
  "domain: edge",
  "descriptors:",
  "  - key: scarce",
  "    rate_limits:",
  ...limitsOf(SCARCE, ["token_bucket", "sliding_window", "fixed_window", "sliding_log"]),
  "  - key: plenty",
  "    rate_limits:",
  ...limitsOf(PLENTY, ["token_bucket", "sliding_window", "fixed_window"]),
  "  - key: budget",
  "    rate_limits:",
  ...limitsOf(PLENTY, ["token_bucket", "fixed_window"]),
  "    hold: { id: request_id, estimate: max_tokens, ttl: 1h }",
  "",
].join("\n");

let redis: RedisServer;
/** This build, and the other one. */
let services: readonly ServiceProcess[];

beforeAll(async () => {
  redis = await RedisServer.start();
  const env = { REDIS_URL: `127.0.0.1:${redis.port}`, ON_STORE_FAILURE: "error", STORE_DEADLINE: "10s" };
  const other = ["node", join(otherBuild(), "dist/main.js"), "serve"];
  services = [await startService(env, { rules: RULES }), await startService(env, { rules: RULES, command: other })];
});

/** A copy of the built program whose scripts begin with another comment. */
function otherBuild(): string {
  const folder = temporaryFolder("headgate-other-build");
  for (const name of ["dist", "lua", "sql", "proto", "page", "package.json"])
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  for (const name of ["node_modules", "packages"]) symlinkSync(join(ROOT, name), join(folder, name));
  appendFileSync(join(folder, "lua/prelude.lua"), "\n-- Another version.\n");
  return folder;
}

/** Has Redis forget all scripts every few milliseconds while the callers call, each of them both services in turn. */
async function callBoth(call: (service: number, caller: number, turn: number) => Promise<void>): Promise<void> {
  let isOver = false;
  const forget = async () => {
    while (!isOver) {
      await redis.command("SCRIPT", "FLUSH");
      await sleep(25);
    }
  };
  const callOn = async (caller: number) => {
    for (let turn = 0; turn < CALLS_EACH; turn++) await call((caller + turn) % 2, caller, turn);
  };
  const forgetting = forget();
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => callOn(caller)));
  isOver = true;
  await forgetting;
}

/** A caller of each service. */
function openClients() {
  const clients = services.map(({ grpcPort }) => openClient(`127.0.0.1:${grpcPort}`));
  return (service: number, key: string, costs: readonly number[]) => {
    const entries = [{ key, value: "a" }];
    const descriptors = costs.map((value) => ({ entries, hits_addend: { value } }));
    return askOnce(at(clients, service), { domain: "edge", descriptors });
  };
}

function at<T>(list: readonly T[], place: number): T {
  return list[place % list.length] as T;
}

/** What both services say is left. */
async function leftOf(key: string): Promise<readonly (number | undefined)[]> {
  const ask = openClients();
  return Promise.all([OURS, OTHER].map(async (service) => (await ask(service, key, [0])).statuses[0]?.limit_remaining));
}

test("the other build has scripts of its own", async () => {
  const ask = openClients();
  const { sha } = loadScripts().takes;
  const known: unknown[] = [];
  for (const service of [OTHER, OURS]) {
    await redis.command("SCRIPT", "FLUSH");
    await ask(service, "plenty", [0]);
    known.push(await redis.command("SCRIPT", "EXISTS", sha));
  }
  expect(known).toEqual([[0], [1]]);
});

// Promise(redis): During a rolling update both versions keep the same counts: no call and no payment is lost.
test("calls to both get limits of four algorithms to the last hit together, and not one more", async () => {
  const ask = openClients();
  const codes: Record<string, number> = {};
  await callBoth(async (service) => {
    const { overall_code } = await ask(service, "scarce", [1]);
    codes[overall_code] = (codes[overall_code] ?? 0) + 1;
  });
  expect(codes).toEqual({ OK: SCARCE, OVER_LIMIT: CALLERS * CALLS_EACH - SCARCE });
  expect(await leftOf("scarce")).toEqual([0, 0]);
});

// Some calls pay one bucket twice, which settlement.lua settles.
test("what calls to both have paid is what both say is gone", async () => {
  const ask = openClients();
  let paid = 0;
  await callBoth(async (service, caller, turn) => {
    const costs = turn % 2 === 0 ? [1 + (caller % 3)] : [1 + (turn % 3), 2];
    const { overall_code } = await ask(service, "plenty", costs);
    if (overall_code === "OK") for (const cost of costs) paid += cost;
  });
  expect(paid).toBeGreaterThan(CALLERS * CALLS_EACH);
  expect(await leftOf("plenty")).toEqual([PLENTY - paid, PLENTY - paid]);
});

test("what one reserves, the other settles, once", async () => {
  const budgets = services.map(({ grpcPort }) => callBudgets(`127.0.0.1:${grpcPort}`));
  const found: Record<string, number> = {};
  let used = 0;
  await callBoth(async (service, caller, turn) => {
    const hold = { entries: { budget: "a" }, id: `${caller}-${turn}` };
    const { code, reserved } = await at(budgets, service).reserve({ ...hold, number: 50 });
    expect({ code, reserved }).toEqual({ code: "OK", reserved: 50 });
    const number = 30 + (turn % 40);
    for (const by of [service + 1, service]) {
      const reply = await at(budgets, by).settle({ ...hold, number });
      found[reply.found] = (found[reply.found] ?? 0) + 1;
    }
    used += number;
  });
  expect(found).toEqual({ SETTLED: CALLERS * CALLS_EACH, ALREADY_SETTLED: CALLERS * CALLS_EACH });
  expect(await leftOf("budget")).toEqual([PLENTY - used, PLENTY - used]);
});
