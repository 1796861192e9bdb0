// What a take costs PostgreSQL itself: CPU time of the backend, by how many takes share a batch, beside a plain upsert of as many
// rows: plain takes, which take_each pays, and calls of three takes, which are settled under lock. Takes are spread over 10,000 keys and pass, all over one connection. The ways take turns in slices of one run,
// because what else a machine does changes from second to second; the ratio is the median of the rounds'.
//   npm run build && node bench/store/postgres-cost.mjs [--rounds 11] [--ms 300]

import { parseArgs } from "node:util";
import pg from "pg";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { openPostgresForBench } from "./headgate-store.mjs";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "11" }, ms: { type: "string", default: "300" } },
});
const rounds = Number(values.rounds);
const sliceMs = Number(values.ms);
const KEYS = 10_000;
const TAKES = [3, 9, 48, 126, 255];
const WARM_UP_TAKES = 201;
const WARM_UP_PER_KEY = 4;
const LIMIT = { ratePerSecond: 1e6, burst: 4e9 };

const postgres = await startPostgres();
const admin = new pg.Client(clientFor(postgres.port));
await admin.connect();
const ways = [await openUpsert(), await openStore("plain", 1), await openStore("of three", 3)];
const rows = [];
try {
  // Every row is there before anything is measured.
  for (const { call } of ways)
    for (let i = 0; i < (WARM_UP_PER_KEY * KEYS) / WARM_UP_TAKES; i++) await call(WARM_UP_TAKES);
  for (const takes of TAKES) {
    const micros = ways.map(() => []);
    for (let round = 1; round <= rounds; round++) {
      progress(`${takes} takes: round ${round} of ${rounds}`);
      for (const [i, way] of ways.entries()) {
        micros[i].push(await measure(way, takes));
      }
    }
    const ratioOf = (i) => median(micros[i].map((of, round) => of / micros[0][round])).toFixed(2);
    const row = { "takes in a batch": takes, "us, upsert": median(micros[0]).toFixed(2) };
    for (const [i, { name }] of ways.entries()) {
      if (i > 0)
        Object.assign(row, { [`us, ${name}`]: median(micros[i]).toFixed(2), [`${name} / upsert`]: ratioOf(i) });
    }
    rows.push(row);
  }
} finally {
  progress("");
  for (const { close } of ways) await close();
  await admin.end();
  await postgres.stop();
}
printTable(`What a take costs PostgreSQL, ${KEYS} keys, ${rounds} rounds of ${sliceMs} ms`, rows);
const file = writeResults(
  "postgres-cost",
  `node bench/store/postgres-cost.mjs --rounds ${rounds} --ms ${sliceMs}`,
  rows,
);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

/** CPU microseconds per take. While one call is under way the next one waits for the connection, as under load. */
async function measure({ pids, call }, takes) {
  let taken = 0;
  const before = cpuOf(pids);
  const endMs = performance.now() + sliceMs;
  const callOn = async () => {
    do {
      await call(takes);
      taken += takes;
    } while (performance.now() < endMs);
  };
  await Promise.all([callOn(), callOn()]);
  return (cpuOf(pids) - before) / taken;
}

function cpuOf(pids) {
  return pids.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0);
}

/** So many different users. */
function usersOf(takes) {
  const users = new Set();
  while (users.size < takes) users.add(`user-${Math.floor(Math.random() * KEYS)}`);
  return [...users];
}

/** Counts by name, the names as long as the store's keys, in a table with the store's settings. */
async function openUpsert() {
  const client = new pg.Client(clientFor(postgres.port));
  await client.connect();
  await client.query(
    "CREATE UNLOGGED TABLE counts (name text PRIMARY KEY, hits bigint NOT NULL) WITH (fillfactor = 50)",
  );
  const text = `INSERT INTO counts SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT (name) DO UPDATE SET hits = counts.hits + excluded.hits RETURNING name, hits`;
  return {
    name: "upsert",
    pids: [await pidOf(client)],
    call: async (takes) => {
      const names = usersOf(takes).map((user) => `{bench|user=${user}}|tb/1`);
      await client.query({ name: "count", text, values: [names.sort(), names.map(() => 1)] });
    },
    close: () => client.end(),
  };
}

/** The store in a schema of its own; each call has so many takes. */
async function openStore(name, takesPerCall) {
  const known = new Set(await backends());
  const store = await openPostgresForBench({
    port: postgres.port,
    limit: LIMIT,
    connections: 1,
    schema: name,
    sweeps: false,
  });
  return {
    name,
    pids: (await backends()).filter((pid) => !known.has(pid)),
    call: (takes) => {
      const users = usersOf(takes);
      const calls = Array.from({ length: takes / takesPerCall }, (_, i) =>
        users.slice(i * takesPerCall, (i + 1) * takesPerCall),
      );
      return Promise.all(calls.map((of) => store.take(...of)));
    },
    close: () => store.close(),
  };
}

async function backends() {
  const { rows: found } = await admin.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'");
  return found.map(({ pid }) => pid);
}

async function pidOf(client) {
  return (await client.query("SELECT pg_backend_pid() AS pid")).rows[0].pid;
}
