// How long one call of the script holds Redis at worst: refused takes on full sliding logs, as many as travel together and as
// many as one call may name, of all costs; and the call by which half of the entries of each log have expired. The package's
// folder may be that of another build.
//   npm run build && node bench/store/full-logs.mjs [folder]

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import Redis from "ioredis";
import { startRedis } from "../harness/redis.mjs";
import { printTable } from "../harness/report.mjs";

const folder = resolve(process.argv[2] ?? ".");
const load = (path) => import(pathToFileURL(`${folder}/dist/${path}`).href);
const { loadScripts } = await load("stores/redis/scripts.js");
const { packNumbers } = await load("stores/redis/packed-numbers.js");
const { RedisBatch } = await load("stores/redis/batch.js");
const { TakeGroup } = await load("core/take.js");
const { hashBucketKey } = await load("core/key-hash.js");

/** What GROUP_WEIGHT_MAX of src/core/take.ts lets one call name. */
const LOGS_OF_ONE_CALL = 8;
const AMOUNT = 10_000;
const WINDOW_SECONDS = 60;
const START_US = 1_767_225_600_000_000;
const LIMIT = {
  algorithm: 3,
  amount: AMOUNT,
  burst: AMOUNT,
  windowSeconds: WINDOW_SECONDS,
  debtMax: AMOUNT,
  isCounter: false,
};

const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
const { text } = loadScripts().takeAll;
const rows = [];
try {
  const logs = logsPerCall();
  for (const [name, cost, laterUs] of [
    ["refused, cost 1", 1, 0],
    ["refused, cost 100", 100, 0],
    ["refused, cost 9,999", 9_999, 0],
    ["half of the entries expire", 1, WINDOW_SECONDS * 1_500_000],
  ]) {
    for (const [keys, takes] of [
      [1, logs],
      [logs, logs],
      [LOGS_OF_ONE_CALL, LOGS_OF_ONE_CALL],
    ]) {
      await client.flushall();
      await fill(keys);
      await client.config("RESETSTAT");
      const nowUs = START_US + WINDOW_SECONDS * 1_000_000 - 1 + (laterUs === 0 ? 0 : WINDOW_SECONDS * 500_000);
      await call(keys, takes, cost, nowUs);
      rows.push({
        call: name,
        logs: keys,
        takes,
        "ms in the script": ((await scriptMicros()) / 1_000).toFixed(2),
      });
    }
  }
} finally {
  client.disconnect();
  await redis.stop();
}
printTable("Refused takes on full sliding logs", rows);

/** How many takes on logs the build puts into one call. */
function logsPerCall() {
  const batch = new RedisBatch();
  for (let takes = 0; ; takes++) {
    const group = new TakeGroup();
    const take = group.add(LIMIT);
    take.bucketKey = `log${takes}`;
    take.keyHash = hashBucketKey(take.bucketKey);
    if (!batch.hasRoomFor(group)) return takes;
    batch.add(group, { settled: () => undefined });
  }
}

/** Full logs, paid hit by hit over a whole window, as the build keeps them. */
async function fill(keys) {
  const stepUs = (WINDOW_SECONDS * 1_000_000) / AMOUNT;
  for (let hit = 0; hit < AMOUNT; hit += 100) {
    const pipeline = client.pipeline();
    for (let i = hit; i < hit + 100; i++) queue(pipeline, keys, keys, 1, START_US + Math.floor(i * stepUs));
    await pipeline.exec();
  }
}

async function call(keys, takes, cost, timeUs) {
  const pipeline = client.pipeline();
  queue(pipeline, keys, takes, cost, timeUs);
  const [[error]] = await pipeline.exec();
  if (error !== null) throw error;
}

function queue(pipeline, keys, takes, cost, timeUs) {
  const limits = [LIMIT.algorithm, AMOUNT, AMOUNT, WINDOW_SECONDS, AMOUNT];
  const groups = Array.from({ length: takes }, (_, i) => [1, 0, 0, (i % keys) + 1, 1, 0, 0, 0, cost]).flat();
  const args = [[timeUs], limits, [], groups].map((numbers) => Buffer.from(packNumbers(numbers), "latin1"));
  pipeline.eval(text, keys, ...Array.from({ length: keys }, (_, i) => `log${i}`), ...args);
}

async function scriptMicros() {
  const info = await client.info("commandstats");
  return Number(/cmdstat_eval:calls=\d+,usec=(\d+)/.exec(info)?.[1] ?? 0);
}
