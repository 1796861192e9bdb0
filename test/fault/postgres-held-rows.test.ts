// Rows that somebody else holds for long: calls on them are decided by policy, all others as if nothing were.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { makeLimit } from "../support/builders.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { debts, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, type Reports, settle, until } from "./store-rig.ts";

/** Many times what a busy machine does to a call. */
const DEADLINE_MS = 1_500;
const KEYS = 50;
const HELD = "key 25";

let server: PostgresServer;
let store: SharedStore;
let reports: Reports;
beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target(), deadlineMs: 1_000 })).store.close();
}, 60_000);
beforeEach(async () => {
  await flush(server);
  ({ store, reports } = await openPostgresRig({ target: server.target(), deadlineMs: DEADLINE_MS, sweeps: false }));
});

const keyOf = (number: number) => `key ${number % KEYS}`;

/** Callers that ask one after another on all keys; `extraOf` tells what a call on that key pays, too. */
async function load(callers: number, isOver: () => boolean, extraOf?: (key: string) => string) {
  const answers = { held: [0, 0], others: [0, 0] };
  const paid = new Map<string, number>();
  const one = async (number: number) => {
    const key = keyOf(number);
    const group = groupOn(extraOf === undefined ? key : [key, extraOf(key)]);
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

/** What somebody else does in a transaction that stays open. `isMade`: the row was there before. */
const HOLDS = [
  { held: "is held", isMade: true, sql: `SELECT FROM headgate.bucket WHERE bucket_key = '${HELD}' FOR UPDATE` },
  {
    held: "is made and not committed",
    isMade: false,
    sql: `INSERT INTO headgate.bucket VALUES ('${HELD}', 0, 0, 0, ${Number.MAX_SAFE_INTEGER})`,
  },
];
const EXTRAS = [
  { name: "each on a bucket of its own", extra: undefined },
  { name: "all of which pay a global limit, too", extra: "global" },
];

// Promise(postgres): A held row stops only the calls on it, even under a shared global limit.
// Promise(postgres): Calls on a row that somebody else holds get no answer and pay nothing.
test.each(HOLDS.flatMap((hold) => EXTRAS.map((extra) => ({ ...hold, ...extra }))))(
  "one row of fifty $held: its calls are decided by policy, all others are answered, $name",
  async ({ extra, isMade, sql }) => {
    for (let i = 0; i < KEYS; i++) if (isMade || keyOf(i) !== HELD) await settle(store, groupOn(keyOf(i)));
    if (extra !== undefined) await settle(store, groupOn(extra));
    await server.query("BEGIN");
    await server.query(sql);
    const endMs = performance.now() + 2 * DEADLINE_MS;
    const during = await load(61, () => performance.now() > endMs, extra === undefined ? undefined : () => extra);
    await server.query("ROLLBACK");

    expect(during.answers.others[1]).toBe(0);
    expect(during.answers.others[0]).toBeGreaterThan(KEYS);
    expect(during.answers.held[0]).toBe(0);
    expect(during.answers.held[1]).toBeGreaterThan(0);
    // What a busy machine answers after its deadline is too late to be paid.
    const codes = new Set(reports.failures.map(({ code }) => code));
    codes.delete("STORE_TOO_LATE");
    expect([...codes]).toEqual(["STORE_TIMEOUT"]);
    expect(reports.breakerStates).toEqual([]);
    // It is let go: its calls are answered again, and each was paid once or not at all.
    await until("its calls are answered", async () => (await settle(store, groupOn(HELD))).verdict === Verdict.allowed);
    const owed = await debts(server);
    for (const [key, count] of during.paid) expect([key, owed.get(key)]).toEqual([key, count + 1]);
    await until("its failed calls have paid nothing", async () => (await debts(server)).get(HELD) === (isMade ? 2 : 1));
  },
);

// Promise(postgres): While the table of settled holds is locked, calls that name holds get no answer; others wait two or three times at most.
test("the table of settled holds is held: calls that name holds are decided by policy, others wait two or three times at most", async () => {
  const withHolds = makeLimit({ amount: 1_000_000, burst: 1_000_000, windowSeconds: 3_600, holdSeconds: 60 });
  const beside = (key: string) => `beside ${key}`;
  for (let i = 0; i < KEYS; i++) {
    for (const key of [keyOf(i), beside(keyOf(i))]) await settle(store, groupOn(key));
  }
  let asked = 0;
  const ask = async (number: number) => {
    const group = groupOn(`own ${number}`, withHolds);
    Object.assign(group.takes[0] ?? {}, { holdId: `r${asked++}` });
    return (await settle(store, group)).verdict;
  };
  await server.query("BEGIN");
  await server.query("LOCK TABLE headgate.settled_hold IN ACCESS EXCLUSIVE MODE");
  const endMs = performance.now() + 2 * DEADLINE_MS;
  const isOver = () => performance.now() > endMs;
  const verdicts = new Set<number>();
  const keepAsking = async (number: number) => {
    while (!isOver()) {
      verdicts.add(await ask(number));
      await sleep(1); // closed ones are answered at once
    }
  };
  const callers = 40;
  // Their calls travel with those on limits with holds.
  const [during] = await Promise.all([load(callers, isOver, beside), keepAsking(1), keepAsking(2), keepAsking(3)]);
  await server.query("ROLLBACK");

  const [answered = 0, failed = 0] = during.answers.others;
  // Once each on a quiet machine.
  expect(failed).toBeLessThanOrEqual(3 * callers);
  expect(answered).toBeGreaterThan(10 * callers);
  expect(verdicts).toEqual(new Set([Verdict.failed]));
  expect(reports.breakerStates).toEqual([]);
  await until("they are answered", async () => (await ask(1)) === Verdict.allowed, 10_000);
});

test("the table of the buckets is held: every call is decided by policy, and answered once it is let go", async () => {
  await server.query("BEGIN");
  await server.query("LOCK TABLE headgate.bucket IN ACCESS EXCLUSIVE MODE");
  const groups = await Promise.all(Array.from({ length: KEYS }, (_, i) => settle(store, groupOn(keyOf(i)))));
  expect(new Set(groups.map(({ failure }) => failure?.code))).toEqual(new Set(["STORE_TIMEOUT"]));
  await server.query("ROLLBACK");
  const isAnswered = async () => (await settle(store, groupOn("new"))).verdict === Verdict.allowed;
  await until("calls are answered", isAnswered);
  expect((await debts(server)).get("new")).toBe(1);
  expect([...(await debts(server)).keys()]).toEqual(["new"]);
});

test("many processes that make the same rows at once: every call is answered and paid once, and no row is closed", async () => {
  const rigs = await Promise.all(
    [1, 2, 3].map(() => openPostgresRig({ target: server.target(), deadlineMs: 5_000, sweeps: false })),
  );
  const verdicts = new Set<number>();
  for (let round = 0; round < 20; round++) {
    const groups = rigs.flatMap((rig) =>
      Array.from({ length: 20 }, (_, i) => settle(rig.store, groupOn(`new ${round} ${i % 5}`))),
    );
    for (const { verdict } of await Promise.all(groups)) verdicts.add(verdict);
  }
  expect(verdicts).toEqual(new Set([Verdict.allowed]));
  expect(new Set((await debts(server)).values())).toEqual(new Set([12]));
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
