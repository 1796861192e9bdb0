// What a window of a calendar costs beside a fixed window, taken by turns in one run: a take in memory, its key written and
// hashed; what a script call of 1 and of 64 plain takes costs Redis, by INFO commandstats; and what calls of as many cost a
// backend of PostgreSQL, in CPU time. Least of many rounds, because whatever else a machine does only adds to them. Run after `npm run build`:
//
//   node bench/store/calendar.mjs [--rounds 60]

import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import Redis from "ioredis";
import pg from "pg";
import { Algorithm } from "../../dist/engine/domain/limit.js";
import { LimitStats } from "../../dist/engine/domain/stats.js";
import { TakeGroup } from "../../dist/engine/domain/take.js";
import { limitKeySuffix } from "../../dist/engine/rules/bucket-key.js";
import { calendarKey, calendarWindows } from "../../dist/engine/rules/calendar.js";
import { MemoryStore } from "../../dist/stores/memory/memory-store.js";
import { loadScripts } from "../../dist/stores/redis/scripts.js";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { payHit } from "../harness/pay-hit.mjs";
import { clientFor, startPostgres } from "../harness/postgres.mjs";
import { startRedis } from "../harness/redis.mjs";
import { printTable, progress, writeResults } from "../harness/report.mjs";
import { openPostgresForBench } from "./headgate-store.mjs";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "60" } } });
const rounds = Number(values.rounds);
const START_US = Date.UTC(2026, 9, 20) * 1000;
const GOAL = 1.05;
const AMOUNT = 4e9;
const TAKES = 20_000;
const BATCHES = [1, 64];
const KEYS = 10_000;

const month = { unit: "month", timeZone: "Europe/Berlin", month: 1, day: 15 };
const windows = calendarWindows(month);
windows.turnTo(START_US);
const kinds = [
  { name: "fixed window", algorithm: Algorithm.fixedWindow, window: 2_592_000, calendar: undefined },
  // Its key as long as the other's, so that both write and hash as much.
  { name: "calendar window", algorithm: Algorithm.calendarWindow, window: 2_592_000, calendar: windows },
  {
    name: "calendar window, its own key",
    algorithm: Algorithm.calendarWindow,
    window: calendarKey(month),
    calendar: windows,
  },
].map((kind) => ({ ...kind, limit: limitOf(kind), least: new Map() }));

const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
const { text } = loadScripts().takes;
const sha = await client.script("LOAD", text);
const postgres = await startPostgres();
// Makes the tables.
await (await openPostgresForBench({ port: postgres.port, limit: { ratePerSecond: 1, burst: 1 } })).close();
const database = new pg.Client(clientFor(postgres.port));
await database.connect();
await database.query("SET search_path TO headgate");
const backend = (await database.query("SELECT pg_backend_pid() AS pid")).rows[0].pid;
for (const kind of kinds) kind.takeOnce = memoryTaker(kind.limit);
for (let round = 1; round <= rounds; round++) {
  progress(`round ${round} of ${rounds}`);
  for (const kind of kinds) note(kind, "ns in memory", kind.takeOnce());
  for (const takes of BATCHES)
    for (const kind of kinds) {
      note(kind, `us of Redis for ${takes}`, await scriptMicros(kind, takes));
      note(kind, `us of PostgreSQL for ${takes}`, await backendMicros(kind, takes));
    }
}
progress("");
client.disconnect();
await redis.stop();
await database.end();
await postgres.stop();

const [fixed] = kinds;
const rows = kinds.map(({ name, least }) => ({
  limit: name,
  ...Object.fromEntries(
    [...least].flatMap(([what, value]) => [
      [what, value.toFixed(2)],
      [`x ${what}`, (value / fixed.least.get(what)).toFixed(3)],
    ]),
  ),
}));
printTable(
  `A window of a calendar beside a fixed one, the least of ${rounds} rounds; goal of each x: at most ${GOAL}`,
  rows,
);
const file = writeResults("calendar", `node bench/store/calendar.mjs --rounds ${rounds}`, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

function note({ least }, what, value) {
  least.set(what, Math.min(least.get(what) ?? Number.POSITIVE_INFINITY, value));
}

function limitOf({ algorithm, window, calendar }) {
  return {
    algorithm,
    amount: AMOUNT,
    burst: AMOUNT,
    windowSeconds: 2_592_000,
    calendar,
    debtMax: AMOUNT,
    holdSeconds: 0,
    isConcurrent: false,
    isCounter: false,
    keySuffix: limitKeySuffix(algorithm, window, ""),
    stats: new LimitStats(),
  };
}

/** Takes from a hot key of a store of its own; nanoseconds a take. */
function memoryTaker(limit) {
  const clock = { us: START_US, nowUs: () => clock.us };
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000, logBytesMax: 134_217_728, holdsMax: 1_000_000 });
  const group = new TakeGroup();
  return () => {
    const start = performance.now();
    for (let i = 0; i < TAKES; i++) {
      group.reset();
      const take = group.add(limit);
      const { keys } = group;
      const at = keys.end;
      keys.write("{edge|plan=pro|api_key=0123456789");
      keys.write(limit.keySuffix);
      payHit(store, group, take, at);
      clock.us += 1;
    }
    return ((performance.now() - start) * 1e6) / TAKES;
  };
}

async function scriptMicros({ limit }, takes) {
  const calls = Math.round(800 / Math.sqrt(takes));
  await client.flushall();
  const numbers = [limit.algorithm, limit.amount, limit.burst, limit.windowSeconds, limit.debtMax];
  if (limit.calendar !== undefined) numbers.splice(2, 3, windows.startUs, windows.endUs, windows.nextEndUs);
  const limits = packed(numbers);
  const argumentsOf = (from) => {
    const keys = Array.from(
      { length: takes },
      (_, i) => `{bench|tenant=${(from + i * 7_919) % KEYS}${limit.keySuffix}`,
    );
    return [
      takes,
      ...keys,
      packed([START_US]),
      limits,
      packed([]),
      packed(keys.flatMap((_, i) => [1, 0, 0, i + 1, 1, 0, 0, 0, 1])),
    ];
  };
  // Once to have the buckets there, once to measure.
  for (const isMeasured of [false, true]) {
    if (isMeasured) await client.config("RESETSTAT");
    const pipeline = client.pipeline();
    for (let i = 0; i < calls; i++) pipeline.callBuffer("evalsha", sha, ...argumentsOf(i * 31));
    const failed = (await pipeline.exec()).find(([error]) => error !== null);
    if (failed !== undefined) throw failed[0];
  }
  const info = await client.info("commandstats");
  return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(info)[1]) / calls;
}

/** Microseconds of CPU of a backend a call of take_each, on rows that are there. */
async function backendMicros({ limit }, takes) {
  const calls = Math.round(400 / Math.sqrt(takes));
  const edges = limit.calendar === undefined ? [limit.burst, limit.windowSeconds] : [windows.startUs, windows.endUs];
  const numbers = [limit.algorithm, limit.amount, ...edges, takes];
  let before = 0;
  for (const isMeasured of [false, true]) {
    if (isMeasured) before = cpuMicrosOf(backend);
    for (let i = 0; i < calls; i++) {
      const users = Array.from({ length: takes }, (_, at) => (i * 31 + at * 7_919) % KEYS);
      const keys = users.map((user) => `{bench|tenant=${user}${limit.keySuffix}`).sort();
      await database.query({
        name: "take_each",
        text: "SELECT * FROM take_each($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint)",
        values: [keys, keys.map(() => 1), keys.map(() => Number.MAX_SAFE_INTEGER), numbers, START_US],
      });
    }
  }
  return (cpuMicrosOf(backend) - before) / calls;
}

function packed(numbers) {
  return Buffer.from(Float64Array.from(numbers).buffer);
}
