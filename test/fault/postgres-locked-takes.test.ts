// Takes that are settled under lock, between two round trips: when the clock is read, in which order rows are locked, and what comes
// of a call whose process stops, is killed or can't be reached while it has rows locked.

import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { openPostgresConnection, type PostgresConnection } from "../../src/stores/postgres/connect.ts";
import { describePostgresTrouble } from "../../src/stores/postgres/connect-trouble.ts";
import { LOCK_BUCKETS, WRITE_BUCKETS } from "../../src/stores/postgres/locked-takes.ts";
import { endWithTest } from "../support/ends.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { startService } from "../support/service-process.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { whenUp } from "../support/when-up.ts";
import { debts, flush, openPostgresRig } from "./postgres-rig.ts";
import { groupOn, LEDGER, settle, until } from "./store-rig.ts";

const SESSION = {
  schema: "headgate",
  waitsForDisk: false,
  lockTimeoutMs: 10_000,
  statementTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
} as const;

let server: PostgresServer;
let proxy: FaultProxy;
let session: PostgresConnection;

beforeAll(async () => {
  server = await PostgresServer.start();
  await (await openPostgresRig({ target: server.target(), deadlineMs: 1_000 })).store.close();
  session = await openPostgresConnection(server.target(), SESSION, () => undefined);
  endWithTest(() => session.drop());
}, 60_000);
beforeEach(async () => {
  await flush(server);
  proxy = await FaultProxy.start(server.port);
});
afterEach(async () => {
  proxy.release();
  await server.query("ROLLBACK");
});

const insert = (...keys: string[]) =>
  server.query("INSERT INTO headgate.bucket SELECT unnest($1::text[]), 1, 1, 0, $2", [keys, Number.MAX_SAFE_INTEGER]);
const lock = (keys: string, waits: boolean) =>
  session.query({ ...LOCK_BUCKETS, values: [keys, String(waits), "10000"] });
const hold = async (key: string) => {
  await server.query("BEGIN");
  await server.query("SELECT FROM headgate.bucket WHERE bucket_key = $1 FOR UPDATE", [key]);
};
const isFree = async (like: string) => {
  const text = "SELECT FROM headgate.bucket WHERE bucket_key LIKE $1 FOR UPDATE SKIP LOCKED";
  return (await server.query(text, [like])).length > 0;
};
const areInState = async (state: string) =>
  (await server.query("SELECT FROM pg_stat_activity WHERE application_name = 'headgate' AND wait_event = $1", [state]))
    .length > 0;

/** Has the function take so long once it has done its work. Resolves to the way back. */
async function slowDown(name: "lock_buckets" | "write_buckets", seconds: number): Promise<() => Promise<void>> {
  const [found] = await server.query(
    `SELECT pg_get_function_identity_arguments($1::regproc) AS arguments, pg_get_function_result($1::regproc) AS result`,
    [`headgate.${name}`],
  );
  const { arguments: types, result } = found as { arguments: string; result: string };
  const quick = `headgate.quick(${types.split(",").map((_, i) => `$${i + 1}`)})`;
  await server.query(`ALTER FUNCTION headgate.${name}(${types}) RENAME TO quick`);
  await server.query(
    `CREATE FUNCTION headgate.${name}(${types}) RETURNS ${result} LANGUAGE plpgsql AS $$ BEGIN
      ${result === "void" ? "PERFORM" : "RETURN QUERY SELECT * FROM"} ${quick}; PERFORM pg_sleep(${seconds}); END $$`,
  );
  return async () => {
    await server.query(`DROP FUNCTION headgate.${name}(${types})`);
    await server.query(`ALTER FUNCTION headgate.quick(${types}) RENAME TO ${name}`);
  };
}

/** A call on two buckets, which is no plain take. */
const groupOnBoth = (cost: number) => groupOn(["k", "other"], LEDGER, cost);

test("time is read after the rows that a call waited for, so it never runs back for a bucket", async () => {
  await insert("k");
  await hold("k");
  await session.query({ text: "BEGIN" });
  const locked = lock("{k}", true);
  await until("it waits", () => areInState("transactionid"));
  const [row] = await server.query(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us, pg_sleep(0.05)",
  );
  await server.query("COMMIT");
  const [place, nowUs] = (await locked).at(-1) ?? [];
  await session.query({ text: "ROLLBACK" });
  expect(place).toBe("0");
  expect(Number(nowUs)).toBeGreaterThan(Number(row?.us) + 50_000);
});

test("a held row is distinguished from a missing one, and does not keep others from being locked", async () => {
  await insert("free", "held");
  await hold("held");
  await session.query({ text: "BEGIN" });
  const rows = await lock("{absent,free,held}", false);
  await session.query({ text: "ROLLBACK" });
  const [transaction] = await server.query("SELECT txid_current()::text AS id");
  expect(rows.map(([place]) => place)).toEqual(["2", "-2", "-3", "0"]);
  expect(rows.find(([place]) => place === "-3")?.[1]).toBe(transaction?.id);
});

test("rows are locked in the order of their keys, whatever order they are named in", async () => {
  await insert("a", "b", "c");
  await hold("b");
  await session.query({ text: "BEGIN" });
  const locked = lock("{c,a,b}", true);
  await until("it waits", () => areInState("transactionid"));
  expect([await isFree("a"), await isFree("c")]).toEqual([false, true]);
  await server.query("ROLLBACK");
  expect((await locked).map(([place]) => place)).toEqual(["2", "3", "1", "0"]);
  await session.query({ text: "ROLLBACK" });
});

test("what became too late while it was settled is not written", async () => {
  await insert("k");
  const late = session.query({ ...WRITE_BUCKETS, values: ["{k}", "{7}", "{7}", "{7}", "{7}", "{NULL}", "1", "1"] });
  await expect(late).rejects.toMatchObject({ code: "40001" });
  expect(await server.query("SELECT used FROM headgate.bucket")).toEqual([{ used: "1" }]);
});

test("a session that has lost its statements says that there is a pooler, and runs nothing", async () => {
  const own = await openPostgresConnection(server.target(), SESSION, () => undefined);
  await own.query({ ...LOCK_BUCKETS, values: ["{k}", "false", "1"] });
  // Another session, as a pooler that shares sessions by transaction would give it.
  await own.query({ text: "DEALLOCATE ALL" });
  const trouble = await own.query({ ...LOCK_BUCKETS, values: ["{k}", "false", "1"] }).then(
    () => "none",
    (error: unknown) => describePostgresTrouble(error, server.target()),
  );
  own.drop();
  expect(trouble).toMatch(/ is behind a pooler that shares sessions by transaction: .* \(26000\)$/);
});

describe("a commit", () => {
  test("that is confirmed after the call was answered is given back", async () => {
    onTestFinished(await slowDown("write_buckets", 0.3));
    const { store, reports } = await openPostgresRig({ target: server.target(), deadlineMs: 100, sweeps: false });
    const group = await settle(store, groupOnBoth(7));
    expect(group.failure?.code).toBe("STORE_TIMEOUT");
    await until("both are given back", () => reports.takesGivenBack === 2);
    expect([...(await debts(server)).values()]).toEqual([0, 0]);
    expect(reports.unknownGroups).toBe(0);
  });

  test("whose confirmation is lost is counted as unknown, and neither repeated nor given back", async () => {
    // Long enough to be seen by a busy machine.
    onTestFinished(await slowDown("write_buckets", 1.5));
    const target = server.target({ port: proxy.port });
    const { store, reports } = await openPostgresRig({ target, deadlineMs: 10_000, connections: 1, sweeps: false });
    expect(await whenUp(store, 20_000)).toBe(true);
    await until("the test before and the self-test have ended", async () => !(await areInState("PgSleep")));
    const settled = settle(store, groupOnBoth(7));
    await until("it is written", () => areInState("PgSleep"));
    proxy.hold();
    await until("it is committed", async () => (await debts(server)).get("k") === 7);
    proxy.cutAll();
    expect((await settled).failure?.code).toBe("STORE_UNREACHABLE");
    expect(reports.unknownGroups).toBe(1);
    proxy.release();
    expect(await whenUp(store, 20_000)).toBe(true);
    expect((await settle(store, groupOnBoth(1))).verdict).toBe(Verdict.allowed);
    expect((await debts(server)).get("k")).toBe(8);
    expect([reports.takesGivenBack, reports.repeats]).toEqual([0, 0]);
  });
});

const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limits:
      - { name: often, requests_per_unit: 1000, unit: year, algorithm: fixed_window }
      - { name: in-all, requests_per_unit: 2000, unit: year, algorithm: fixed_window }
`;

describe.each([
  { what: "is stopped", begin: "SIGSTOP", end: "SIGCONT" },
  { what: "is killed", begin: "SIGKILL", end: undefined },
  { what: "can't be reached", begin: undefined, end: undefined },
] as const)("a process that $what between locking and writing", ({ begin, end }) => {
  test("holds nobody's rows for longer than its calls may last, and pays nothing", async () => {
    const url = `postgres://headgate@127.0.0.1:${proxy.port}/postgres`;
    const env = { POSTGRES_URL: url, STORE_DEADLINE: "500ms", ON_STORE_FAILURE: "error" };
    const service = await startService(env, { rules: RULES });
    const client = openClient(`127.0.0.1:${service.grpcPort}`);
    const request = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: "a" }] }] };
    await askOnce(client, request);
    const undo = await slowDown("lock_buckets", 0.2);
    const asked = askOnce(client, request).catch((error: unknown) => error);
    await until("its rows are locked", async () => (await areInState("PgSleep")) && !(await isFree("%user=a%")));
    if (begin === undefined) proxy.hold();
    else service.signal(begin);
    await until("its rows are free", async () => !(await areInState("PgSleep")) && (await isFree("%user=a%")), 5_000);
    await undo();
    expect(await server.query("SELECT used FROM headgate.bucket WHERE bucket_key LIKE '%user=a%'")).toEqual([
      { used: "1" },
      { used: "1" },
    ]);
    proxy.release();
    if (end !== undefined) service.signal(end);
    await asked;
    if (begin !== "SIGKILL") {
      const isAnswered = () =>
        askOnce(client, request).then(
          () => true,
          () => false,
        );
      await until("it answers again", isAnswered);
    }
  });
});
