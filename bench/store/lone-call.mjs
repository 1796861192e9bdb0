// What one call alone waits for a take in Redis, and how much of that is the wait for the end of the turn, in which a
// batch is gathered: with it, and with the batch sent before the turn ends. Beside them a PING over a plain connection.
//
//   npm run build && node bench/store/lone-call.mjs [--calls 4000] [--rounds 5]

import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { hashBucketKey } from "../../dist/engine/domain/key-bytes.js";
import { TakeGroup } from "../../dist/engine/domain/take.js";
import { openRedisStore } from "../../dist/stores/redis/redis-store.js";
import { startRedis } from "../harness/redis.mjs";
import { median, printTable, writeResults } from "../harness/report.mjs";
import { bucketOf } from "./limits.mjs";

const { values } = parseArgs({
  options: { calls: { type: "string", default: "4000" }, rounds: { type: "string", default: "5" } },
});
const calls = Number(values.calls);
const rounds = Number(values.rounds);

const redis = await startRedis();
const store = openRedisStore({
  target: {
    address: { kind: "tcp", host: "127.0.0.1", port: redis.port },
    database: 0,
    login: undefined,
    loginFile: undefined,
    tls: undefined,
    connectTimeoutMs: 1_000,
  },
  deadlineMs: 10_000,
});
while (store.trouble() !== undefined) await new Promise((resolve) => setTimeout(resolve, 2));
const plain = new Redis({ port: redis.port, host: "127.0.0.1", protocol: 2 });
const limit = bucketOf({ amount: 1_000_000, burst: 1_000_000 });
const bucketKey = `{bench|lone=a${limit.keySuffix}`;
const keyHash = hashBucketKey(bucketKey);
const group = new TakeGroup();

const take = () =>
  new Promise((resolve) => {
    group.reset();
    const one = group.add(limit);
    one.bucketKey = bucketKey;
    one.keyHash = keyHash;
    if (store.take(group, { answered: resolve })) resolve();
  });

const endOfTurn = globalThis.setImmediate;
const WAYS = [
  { name: "PING", ask: () => plain.ping(), immediate: endOfTurn },
  { name: "take, at the end of the turn", ask: take, immediate: endOfTurn },
  { name: "take, at once", ask: take, immediate: (act, ...args) => queueMicrotask(() => act(...args)) },
];

/** Calls one after another, each begun by a timerless turn of its own, as a socket that became readable would. */
async function measure({ ask, immediate }) {
  const micros = new Float64Array(calls);
  for (let i = 0; i < calls; i++) {
    await new Promise((resolve) => endOfTurn(resolve));
    globalThis.setImmediate = immediate;
    const started = performance.now();
    await ask();
    micros[i] = (performance.now() - started) * 1_000;
    globalThis.setImmediate = endOfTurn;
  }
  micros.sort();
  return { p50: micros[calls >> 1], p99: micros[Math.floor(calls * 0.99)] };
}

const found = new Map(WAYS.map(({ name }) => [name, []]));
for (let round = 0; round <= rounds; round++) {
  for (const way of WAYS) {
    const result = await measure(way);
    // The first round warms up.
    if (round > 0) found.get(way.name).push(result);
  }
}
await store.close();
plain.disconnect();
await redis.stop();

const rows = WAYS.map(({ name }) => ({
  way: name,
  "p50 (us)": Math.round(median(found.get(name).map(({ p50 }) => p50))),
  "p99 (us)": Math.round(median(found.get(name).map(({ p99 }) => p99))),
}));
printTable(`One call at a time, ${calls} calls, ${rounds} rounds`, rows);
process.stdout.write(
  `\nwritten to ${writeResults("lone-call", `node bench/store/lone-call.mjs --calls ${calls} --rounds ${rounds}`, rows)}\n`,
);
