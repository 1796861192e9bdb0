// The token bucket on a real Redis, three ways: our Lua, read then write, WATCH/MULTI/EXEC; and on a real PostgreSQL: our
// SQL under row locks, read then write, a transaction that locks. Time and calls per take, how many too
// many each grants, and what keeps our SQL apart when several processes pay on one key. Run by `npm run bench:store`;
// BENCH_SERVERS=postgres (or redis) runs one half.

import Redis from "ioredis";
import pg from "pg";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { startRedis } from "../harness/redis.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { headgateSql, sqlForUpdate, sqlReadThenWrite } from "./postgres-ways.mjs";
import { headgateLua, readThenWrite, watchMultiExec } from "./ways.mjs";

const CALLERS = [1, 16, 64, 256];
const KEYS = { hot_key: 1, per_user: 10_000 };
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SLICE_MS = Number(process.env.BENCH_SLICE_MS ?? 700);
// Generous numbers, so that takes pass and every way pays its full cost; refusals are cheaper for all.
const PLENTY = { ratePerSecond: 4_000_000, burst: 4_000_000_000 };
const PROCESSES = 4;
const STRICT = { ratePerSecond: 10, burst: 10, seconds: 3, callers: 64 };

const SERVERS = (process.env.BENCH_SERVERS ?? "redis,postgres").split(",");

const redis = SERVERS.includes("redis") ? await startRedis() : undefined;
const postgres = SERVERS.includes("postgres") ? await startPostgres() : undefined;
const ways = [
  ...(redis === undefined ? [] : [headgateLua, readThenWrite, watchMultiExec]),
  ...(postgres === undefined ? [] : [headgateSql, sqlReadThenWrite, sqlForUpdate]),
];
const speed = [];
const overGrant = [];
const apart = [];
try {
  for (const [shape, keys] of Object.entries(KEYS)) {
    for (const callers of CALLERS) speed.push(...(await compareSpeed(shape, keys, callers)));
  }
  for (const way of ways) overGrant.push(await measureOverGrant(way));
  if (postgres !== undefined) {
    for (const [shape, keys] of Object.entries(KEYS)) {
      apart.push(await measureRepeats(shape, keys));
    }
  }
} finally {
  progress("");
  await redis?.stop();
  await postgres?.stop();
}
printTable("Token bucket on one Redis and one PostgreSQL: time and calls per take", speed);
printTable(
  `Over-grant: burst ${STRICT.burst}, ${STRICT.ratePerSecond}/s, ${STRICT.seconds} s, ${STRICT.callers} callers on one key`,
  overGrant,
);
printTable(`Kept apart: ${PROCESSES} stores of four connections each, 64 callers whose takes all pass`, apart);
const name = SERVERS.length === 2 ? "token-bucket-ways" : `token-bucket-ways-${SERVERS[0]}`;
const file = writeResults(name, "npm run bench:store", { speed, overGrant, apart, postgres: postgres?.version });
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

// The ways alternate within a round, so that a machine that slows down slows all of them.
async function compareSpeed(shape, keys, callers) {
  const samples = new Map(ways.map((way) => [way.title, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const way of ways) {
      progress(`${shape}, ${callers} callers, round ${round + 1} of ${ROUNDS}: ${way.title}`);
      await flush();
      const client = await way.open({ port: portOf(way), callers, limit: PLENTY });
      samples.get(way.title).push(await drive(client, callers, keys, SLICE_MS));
      await client.close();
    }
  }
  // Compared with our way on the same server.
  const oursOf = ({ server }) => samples.get((server === "postgres" ? headgateSql : headgateLua).title);
  return ways.map((way) => {
    const of = samples.get(way.title);
    const micros = median(of.map((sample) => sample.microsPerTake));
    const ours = median(oursOf(way).map((sample) => sample.microsPerTake));
    return {
      way: way.title,
      keys: shape,
      callers,
      "us/take": micros.toFixed(1),
      "takes/s": Math.round(1e6 / micros),
      "calls/take": median(of.map((sample) => sample.callsPerTake)).toFixed(3),
      "time / ours": (micros / ours).toFixed(2),
    };
  });
}

async function drive(client, callers, keys, ms) {
  let takes = 0;
  let failed = 0;
  const end = performance.now() + ms;
  const started = performance.now();
  const caller = async (id) => {
    let at = id * 7919;
    while (performance.now() < end) {
      at = (at * 1103515245 + 12345) & 0x7fffffff;
      try {
        await client.take(`user-${at % keys}`);
        takes++;
      } catch {
        // What a way could not settle is counted and shown.
        failed++;
      }
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, id) => caller(id)));
  const elapsedMs = performance.now() - started;
  return { microsPerTake: (elapsedMs * 1000) / takes, callsPerTake: client.callsSent() / takes, takes, failed };
}

async function measureOverGrant(way) {
  progress(`over-grant: ${way.title}`);
  await flush();
  const client = await way.open({ port: portOf(way), callers: STRICT.callers, limit: STRICT });
  let allowed = 0;
  let takes = 0;
  const end = performance.now() + STRICT.seconds * 1000;
  const caller = async () => {
    while (performance.now() < end) {
      if (await client.take("one")) allowed++;
      takes++;
    }
  };
  await Promise.all(Array.from({ length: STRICT.callers }, caller));
  await client.close();
  const most = STRICT.burst + STRICT.ratePerSecond * STRICT.seconds;
  return { way: way.title, takes, allowed, "most by the rule": most, "over-grant": Math.max(0, allowed - most) };
}

// Calls that are repeated where processes that know nothing of each other pay on the same rows.
async function measureRepeats(shape, keys) {
  progress(`kept apart: ${shape}`);
  await flush();
  const client = await headgateSql.open({ port: portOf(headgateSql), limit: PLENTY, processes: PROCESSES });
  const { microsPerTake, callsPerTake, takes, failed } = await drive(client, 64, keys, SLICE_MS * ROUNDS);
  const repeats = client.repeats();
  await client.close();
  return {
    keys: shape,
    takes,
    "takes/s": Math.round(1e6 / microsPerTake),
    "calls/take": callsPerTake.toFixed(3),
    "repeated calls": repeats,
    "failed takes": failed,
  };
}

function portOf({ server }) {
  return server === "postgres" ? postgres.port : redis.port;
}

async function flush() {
  if (redis !== undefined) {
    const admin = new Redis(redis.port, "127.0.0.1");
    await admin.flushall();
    await admin.quit();
  }
  if (postgres !== undefined) {
    const admin = new pg.Client(clientFor(postgres.port));
    await admin.connect();
    await admin.query("DROP SCHEMA IF EXISTS headgate CASCADE");
    await admin.query("DROP TABLE IF EXISTS plain");
    await admin.end();
  }
}
