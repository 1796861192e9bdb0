// Rows that somebody else holds for long: calls on them are decided by policy, all others as if nothing were.

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type TakeGroup, Verdict } from "../../src/core/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { debts, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, type Reports, settle, until } from "./store-rig.ts";

/** Many times what a busy machine does to a call. */
const DEADLINE_MS = 600;
const KEYS = 50;
const HELD = "key 25";

let server: PostgresServer;
let store: SharedStore;
let reports: Reports;
beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target() })).store.close();
}, 60_000);
beforeEach(async () => {
  await flush(server);
  ({ store, reports } = await openPostgresRig({ target: server.target(), deadlineMs: DEADLINE_MS, sweeps: false }));
});
afterEach(() => store.close());
afterAll(() => server.stop());

const keyOf = (number: number) => `key ${number % KEYS}`;

/** Callers that ask one after another on all keys; `extra` is a key that each call pays, too. */
async function load(callers: number, isOver: () => boolean, extra?: string) {
  const answers = { held: [0, 0], others: [0, 0] };
  const paid = new Map<string, number>();
  const one = async (number: number) => {
    const key = keyOf(number);
    const group = groupOn(key);
    if (extra !== undefined) addTake(group, extra);
    await settle(store, group);
    const counts = key === HELD ? answers.held : answers.others;
    const isAllowed = group.verdict === Verdict.allowed;
    counts[isAllowed ? 0 : 1] = (counts[isAllowed ? 0 : 1] ?? 0) + 1;
    if (isAllowed) paid.set(key, (paid.get(key) ?? 0) + 1);
  };
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let i = 0; !isOver(); i++) await one(caller + i * callers);
    }),
  );
  return { answers, paid };
}

function addTake(group: TakeGroup, bucketKey: string): void {
  const take = group.add(LEDGER);
  const { keyHash } = groupOn(bucketKey).takes[0] ?? { keyHash: 0 };
  Object.assign(take, { bucketKey, keyHash, cost: 1, descriptor: 1 });
}

test.each([
  { name: "each on a bucket of its own", extra: undefined },
  { name: "all of which pay a global limit, too", extra: "global" },
])("one row of fifty is held: its calls are decided by policy, all others are answered, $name", async ({ extra }) => {
  for (let i = 0; i < KEYS; i++) await settle(store, groupOn(keyOf(i)));
  await server.query("BEGIN");
  await server.query("SELECT FROM headgate.bucket WHERE bucket_key = $1 FOR UPDATE", [HELD]);
  const endMs = performance.now() + 2 * DEADLINE_MS;
  const during = await load(61, () => performance.now() > endMs, extra);
  await server.query("ROLLBACK");

  expect(during.answers.others[1]).toBe(0);
  expect(during.answers.others[0]).toBeGreaterThan(KEYS);
  expect(during.answers.held[0]).toBe(0);
  expect(during.answers.held[1]).toBeGreaterThan(0);
  expect(new Set(reports.failures.map(({ code }) => code))).toEqual(new Set(["STORE_TIMEOUT"]));
  expect(reports.breakerStates).toEqual([]);
  // It is let go: its calls are answered again, and each was paid once or not at all.
  await until("its calls are answered", async () => (await settle(store, groupOn(HELD))).verdict === Verdict.allowed);
  const owed = await debts(server);
  for (const [key, count] of during.paid) expect([key, owed.get(key)]).toEqual([key, count + 1]);
});

test("rows that change hands all the time are waited for: every call is answered", async () => {
  const { store: other } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, sweeps: false });
  const { store: patient } = await openPostgresRig({ target: server.target(), deadlineMs: 5_000, sweeps: false });
  const endMs = performance.now() + 500;
  let answered = 0;
  const verdicts = new Set<number>();
  const caller = async (on: SharedStore, number: number) => {
    while (performance.now() < endMs) {
      const group = groupOn(`hot ${number % 3}`);
      addTake(group, "global");
      verdicts.add((await settle(on, group)).verdict);
      answered++;
    }
  };
  await Promise.all(Array.from({ length: 60 }, (_, number) => caller(number % 2 === 0 ? other : patient, number)));
  expect(verdicts).toEqual(new Set([Verdict.allowed]));
  expect((await debts(server)).get("global")).toBe(answered);
  await other.close();
  await patient.close();
});

test("a payment on a row that is held is given back once it is let go, those on other rows at once", async () => {
  const groups = await Promise.all([HELD, "free"].map((key) => settle(store, groupOn(key, LEDGER, 5))));
  await server.query("BEGIN");
  await server.query("SELECT FROM headgate.bucket WHERE bucket_key = $1 FOR UPDATE", [HELD]);
  for (const group of groups) store.giveBack(group);
  await until("one is given back", () => reports.takesGivenBack === 1);
  await sleep(50); // for several more attempts
  expect([(await debts(server)).get(HELD), (await debts(server)).get("free") ?? 0]).toEqual([5, 0]);
  await server.query("ROLLBACK");
  await until("both are", () => reports.takesGivenBack === 2);
  expect((await debts(server)).get(HELD) ?? 0).toBe(0);
  expect(reports.takesKeptPaid).toBe(0);
});
