// Never more than the rule says, through two processes: 64 callers, and calls that pay several limits in several places.
// test/fault/over-grant.test.ts does the same to all stores, and with a hot key, without a service.

import { beforeAll, describe, expect, test } from "vitest";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { startPostgres, startRedis } from "../support/shared-stores.ts";
import { type AskedRequest, askOnce, openClient } from "../support/test-app.ts";

const CALLERS = 64;
const CALLS_EACH = 15;
const USERS = 16;
const PER_USER = 40;
const PER_PATH = 500;
// What a user may do per second is never the bound here: it lies on the second Redis, where there is one.
const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limits:
      - { name: often, requests_per_unit: 100000, unit: second }
      - { name: in-all, requests_per_unit: ${PER_USER}, unit: year, algorithm: fixed_window }
  - { key: path, rate_limit: { requests_per_unit: ${PER_PATH}, unit: year, algorithm: fixed_window } }
`;

type Client = ReturnType<typeof openClient>;

describe.each([
  { name: "two processes on one Redis", start: startRedis },
  { name: "two processes on PostgreSQL", start: startPostgres },
])("$name", ({ name, start }) => {
  let services: ServiceProcess[];
  let clients: Client[];
  beforeAll(async () => {
    const servers = await start();
    // The machine of a test may be slow; no call may be answered without the store here, nor from memory.
    const env = {
      STORE_DEADLINE: "5s",
      ON_STORE_FAILURE: "error",
      DENIALS_MAX: "0",
      ...servers.env,
    };
    services = await Promise.all([startService(env, { rules: RULES }), startService(env, { rules: RULES })]);
    clients = services.map(({ grpcPort }) => openClient(`127.0.0.1:${grpcPort}`));
    for (const client of clients) await askOnce(client, { domain: "edge", descriptors: [entryOf("user", "warm-up")] });
  }, 60_000);
  const passes = async (caller: number, request: AskedRequest) =>
    (await askOnce(clients[caller % clients.length] as Client, request)).overall_code === "OK";

  // Promise(limits): Calls over several limits in two processes get each limit to the last hit.
  test("grant calls over several limits each limit to the last hit, and not one more", async () => {
    const byUser = new Map<string, number>();
    let allowed = 0;
    const pay = async (caller: number, user: string) => {
      const descriptors = [entryOf("user", user), entryOf("path", "/")];
      if (!(await passes(caller, { domain: "edge", descriptors }))) return;
      allowed++;
      byUser.set(user, (byUser.get(user) ?? 0) + 1);
    };
    await together(async (caller) => {
      for (let i = 0; i < CALLS_EACH; i++) await pay(caller + i, `u${(caller + i) % USERS}`);
    });
    expect(allowed).toBeLessThanOrEqual(PER_PATH);
    // A refused call may have held for a moment what another would have got: that one is granted now.
    for (let i = 0; i < PER_PATH && allowed < PER_PATH; i++) await pay(i, `new${i}`);
    await pay(0, "last");
    expect(allowed).toBe(PER_PATH);
    expect(Math.max(...byUser.values())).toBeLessThanOrEqual(PER_USER);
    const repeats = await Promise.all(services.map(repeatsOf));
    process.stdout.write(`${name}: ${allowed} granted, ${repeats.join(" and ")} round trips made again\n`);
  });
});

const entryOf = (key: string, value: string) => ({ entries: [{ key, value }] });

async function together(call: (caller: number) => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
}

/** What the process counts of round trips that PostgreSQL undid and had made again. */
async function repeatsOf({ httpPort }: ServiceProcess): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  return Number(/^headgate_store_repeats_total (\d+)$/m.exec(metrics)?.[1] ?? 0);
}
