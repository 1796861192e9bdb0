// What holds cost PostgreSQL: CPU time of the backend for a payment that opens one and for its settlement, beside a payment of
// one without holds under lock, by how many takes share a call; the same with many live holds on one bucket, and on one that counts
// them; and the call at which as many end at once as one call may end. All over one connection; the medians of the rounds.
//   npm run build && node bench/store/postgres-holds.mjs

import pg from "pg";
import { hashBucketKey } from "../../dist/engine/domain/key-bytes.js";
import { Mode, TakeGroup, Verdict } from "../../dist/engine/domain/take.js";
import { openPostgresStore } from "../../dist/stores/postgres/postgres-store.js";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { median, printTable, progress } from "../harness/report.mjs";
import { bucketOf } from "./limits.mjs";

const ROUNDS = 40;
const WARM_UP = 40;
const KEYS = 2_000;
const PLAIN = bucketOf({ amount: 1e6, burst: 4e9 });
const HELD = { ...PLAIN, holdSeconds: 120 };
const SLOW = { ...HELD, amount: 1, windowSeconds: 86_400 };
const PLACES = { ...SLOW, amount: 0, burst: 10_000, debtMax: 10_000, isConcurrent: true, keySuffix: "}|concurrent" };
const clock = { us: Date.UTC(2026, 0, 1) * 1000, nowUs: () => clock.us };

const postgres = await startPostgres();
const admin = new pg.Client(clientFor(postgres.port));
await admin.connect();
const known = new Set(await backends());
const store = openPostgresStore({
  target: { host: "127.0.0.1", port: postgres.port, database: "postgres", user: "headgate", connectTimeoutMs: 5_000 },
  deadlineMs: 60_000,
  connections: 1,
  unlogged: true,
  sweeps: false,
  injectedTime: clock,
});
while (store.trouble() !== undefined) await new Promise((resolve) => setTimeout(resolve, 20));
const pids = (await backends()).filter((pid) => !known.has(pid));
let calls = 0;

try {
  const rows = [];
  for (const takes of [1, 16, 64]) rows.push(await costOf(takes, (i) => `k${i % KEYS}`, "2,000 buckets"));
  rows.push(await costOf(16, () => "hot", "one bucket, 16 live"));
  for (let i = 0; i < 2_000; i += 50)
    await take(Array.from({ length: 50 }, (_, at) => paying(SLOW, "full", `f${i + at}`)));
  rows.push(await costOf(16, () => "full", "one bucket, 2,000 live", SLOW));
  for (let i = 0; i < 500; i += 50)
    await take(Array.from({ length: 50 }, (_, at) => paying(PLACES, "places", `p${i + at}`)));
  rows.push(await costOf(16, () => "places", "500 of 10,000 places taken", PLACES));
  printTable("What a take with a hold costs PostgreSQL, us of CPU", rows);
  const endings = [];
  for (let round = 0; round < 7; round++) {
    for (let i = 0; i < 150; i += 50)
      await take(Array.from({ length: 50 }, (_, at) => paying(SLOW, `e${round}`, `${i + at}`)));
    clock.us += 121e6;
    endings.push(await micros([asking(SLOW, `e${round}`, Mode.peek, "", 1)]));
  }
  printTable("32 holds end in one call", [{ "us of CPU": median(endings).toFixed(0) }]);
} finally {
  progress("");
  await store.close();
  await admin.end();
  await postgres.stop();
}

async function costOf(takes, nameOf, buckets, limit = HELD) {
  const found = { plain: [], pay: [], settle: [] };
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const ids = Array.from({ length: takes }, (_, i) => [nameOf(calls + i), `7f3c9a52-${calls}-${i}`]);
    calls += takes;
    // Post-paid, so that take_each does not pay them.
    const plain = await micros(ids.map(([name]) => asking(PLAIN, `plain ${name}`, Mode.postPaid, "", 1)));
    const pay = await micros(ids.map(([name, id]) => paying(limit, name, id)));
    const settle = await micros(ids.map(([name, id]) => asking(limit, name, Mode.settle, id, 1)));
    clock.us += 1_000;
    if (round < 0) continue;
    for (const [what, us] of Object.entries({ plain, pay, settle })) found[what].push(us / takes);
  }
  const row = { buckets, "takes in the call": takes };
  for (const [what, times] of Object.entries(found)) row[what] = median(times).toFixed(0);
  return row;
}

function paying(limit, name, id) {
  return asking(limit, name, Mode.pay, id, limit.isConcurrent ? 1 : 2);
}

function asking(limit, name, mode, holdId, cost) {
  const group = new TakeGroup();
  const take = group.add(limit);
  take.bucketKey = `{bench|tenant=${name}${limit.keySuffix}`;
  take.keyHash = hashBucketKey(take.bucketKey);
  Object.assign(take, { mode, cost, holdId });
  return group;
}

/** CPU microseconds of the backend for all of them. */
async function micros(groups) {
  const before = cpuOf();
  await take(groups);
  return cpuOf() - before;
}

async function take(groups) {
  const settled = groups.map(
    (group) => new Promise((resolve) => (store.take(group, { answered: resolve }) ? resolve() : undefined)),
  );
  await Promise.all(settled);
  const failed = groups.find(({ verdict }) => verdict !== Verdict.allowed);
  if (failed !== undefined) throw failed.failure ?? new Error("refused");
}

function cpuOf() {
  return pids.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0);
}

async function backends() {
  const { rows } = await admin.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'");
  return rows.map(({ pid }) => pid);
}
