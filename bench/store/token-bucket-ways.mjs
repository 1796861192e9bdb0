// The token bucket on a real Redis, three ways: our Lua, read then write, WATCH/MULTI/EXEC. Time and Redis calls per take,
// and how many too many each grants. Run by `npm run bench:store`.

import Redis from "ioredis";
import { startRedis } from "../harness/redis.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { headgateLua, readThenWrite, watchMultiExec } from "./ways.mjs";

const CALLERS = [1, 16, 64, 256];
const KEYS = { hot_key: 1, per_user: 10_000 };
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const SLICE_MS = Number(process.env.BENCH_SLICE_MS ?? 700);
// Generous numbers, so that takes pass and every way pays its full cost; refusals are cheaper for all.
const PLENTY = { ratePerSecond: 4_000_000, burst: 4_000_000_000 };
const STRICT = { ratePerSecond: 10, burst: 10, seconds: 3, callers: 64 };

const redis = await startRedis();
const ways = [headgateLua, readThenWrite, watchMultiExec];
const speed = [];
const overGrant = [];
try {
  for (const [shape, keys] of Object.entries(KEYS)) {
    for (const callers of CALLERS) speed.push(...(await compareSpeed(shape, keys, callers)));
  }
  for (const way of ways) overGrant.push(await measureOverGrant(way));
} finally {
  progress("");
  await redis.stop();
}
printTable("Token bucket on one Redis: time and calls per take", speed);
printTable(
  `Over-grant: burst ${STRICT.burst}, ${STRICT.ratePerSecond}/s, ${STRICT.seconds} s, ${STRICT.callers} callers on one key`,
  overGrant,
);
const file = writeResults("token-bucket-ways", "npm run bench:store", { speed, overGrant });
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

// The ways alternate within a round, so that a machine that slows down slows all of them.
async function compareSpeed(shape, keys, callers) {
  const samples = new Map(ways.map((way) => [way.title, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const way of ways) {
      progress(`${shape}, ${callers} callers, round ${round + 1} of ${ROUNDS}: ${way.title}`);
      await flush();
      const client = await way.open({ port: redis.port, callers, limit: PLENTY });
      samples.get(way.title).push(await drive(client, callers, keys, SLICE_MS));
      await client.close();
    }
  }
  const ours = median(samples.get(headgateLua.title).map((sample) => sample.microsPerTake));
  return ways.map((way) => {
    const of = samples.get(way.title);
    const micros = median(of.map((sample) => sample.microsPerTake));
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
  const end = performance.now() + ms;
  const started = performance.now();
  const caller = async (id) => {
    let at = id * 7919;
    while (performance.now() < end) {
      at = (at * 1103515245 + 12345) & 0x7fffffff;
      await client.take(`user-${at % keys}`);
      takes++;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, id) => caller(id)));
  const elapsedMs = performance.now() - started;
  return { microsPerTake: (elapsedMs * 1000) / takes, callsPerTake: client.callsSent() / takes };
}

async function measureOverGrant(way) {
  progress(`over-grant: ${way.title}`);
  await flush();
  const client = await way.open({ port: redis.port, callers: STRICT.callers, limit: STRICT });
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

async function flush() {
  const admin = new Redis(redis.port, "127.0.0.1");
  await admin.flushall();
  await admin.quit();
}
