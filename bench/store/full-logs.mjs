// How long one call of the script holds Redis at worst: takes on full sliding logs, as many as travel together and as many as one
// call may name: refused ones of all costs, the call by which half of the payments of each log have expired, and receipts for the
// oldest payments. The package's folder may be that of another build.
//   npm run build && node bench/store/full-logs.mjs [folder]

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import Redis from "ioredis";
import { startRedis } from "../harness/redis.mjs";
import { printTable } from "../harness/report.mjs";

const folder = resolve(process.argv[2] ?? ".");
const load = (path) => import(pathToFileURL(`${folder}/dist/${path}`).href);
const { loadScripts } = await load("stores/redis/scripts.js");
const { packNumbers, RedisBatch } = await load("stores/redis/redis-batch.js");
const { GROUP_WEIGHT_MAX, LOG_WEIGHT, Mode, TakeGroup } = await load("engine/domain/take.js");
const { hashBucketKey } = await load("engine/domain/key-bytes.js");

const LOGS_OF_ONE_CALL = Math.floor(GROUP_WEIGHT_MAX / LOG_WEIGHT);
/** As many logs as a call of several groups may have. */
const RECEIPTS = Math.floor(128 / LOG_WEIGHT);
const AMOUNT = 1_000;
const WINDOW_SECONDS = 60;
const START_US = 1_767_225_600_000_000;
const END_US = START_US + WINDOW_SECONDS * 1_000_000;
const ROUNDS = 10;
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
const { text } = loadScripts().takes;
const rows = [];
try {
  const logs = logsPerCall();
  for (const [name, cost, laterUs] of [
    ["refused, cost 1", 1, 0],
    ["refused, cost 100", 100, 0],
    ["refused, cost 999", 999, 0],
    ["half of the payments expire", 1, WINDOW_SECONDS * 500_000],
  ]) {
    for (const [keys, takes] of [
      [1, logs],
      [logs, logs],
      [LOGS_OF_ONE_CALL, LOGS_OF_ONE_CALL],
    ]) {
      rows.push(await row(name, keys, takes, () => call(keys, takes, cost, END_US - 1 + laterUs)));
    }
  }
  rows.push(
    await row("receipts for the oldest payments", RECEIPTS, RECEIPTS, () => call(RECEIPTS, 0, 1, END_US - 1, RECEIPTS)),
  );
} finally {
  client.disconnect();
  await redis.stop();
}
printTable("Takes on full sliding logs", rows);

/** The least of several rounds: what else the machine does only adds to them. */
async function row(name, logs, takes, work) {
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    await client.flushall();
    await fill(logs);
    await client.config("RESETSTAT");
    await work();
    least = Math.min(least, await scriptMicros());
  }
  return { call: name, logs, takes, "ms in the script": (least / 1_000).toFixed(2) };
}

/** How many takes on logs the build puts into one call. */
function logsPerCall() {
  const batch = new RedisBatch();
  for (let takes = 0; ; takes++) {
    const group = new TakeGroup();
    const take = group.add(LIMIT);
    take.bucketKey = `log${takes}`;
    take.keyHash = hashBucketKey(take.bucketKey);
    if (!batch.hasRoomFor(group)) return takes;
    batch.add(group, { answered: () => undefined });
  }
}

/** Full logs of hits that came over a whole window, as lua/sliding_log.lua keeps them. */
async function fill(keys) {
  const stepUs = (WINDOW_SECONDS * 1_000_000) / AMOUNT;
  const payments = Array.from({ length: AMOUNT }, (_, i) => [START_US + Math.floor(i * stepUs), i + 1]);
  const text = Buffer.from(packNumbers([0, ...payments.flat()]), "latin1");
  for (let i = 0; i < keys; i++) await client.set(`log${i}`, text);
}

async function call(keys, takes, cost, timeUs, receipts = 0) {
  const pipeline = client.pipeline();
  queue(pipeline, keys, takes, cost, timeUs, receipts);
  const [[error]] = await pipeline.exec();
  if (error !== null) throw error;
}

function queue(pipeline, keys, takes, cost, timeUs, receipts = 0) {
  const limits = [LIMIT.algorithm, AMOUNT, AMOUNT, WINDOW_SECONDS, AMOUNT];
  const groups = Array.from({ length: takes }, (_, i) => [1, 0, 0, (i % keys) + 1, 1, 0, 0, 0, cost]).flat();
  const given = Array.from({ length: receipts }, (_, i) => [1, 0, 0, i + 1, 1, START_US, 0, Mode.giveBack, 1]).flat();
  const args = [[timeUs], limits, [...given, ...groups]].map((numbers) => Buffer.from(packNumbers(numbers), "latin1"));
  pipeline.eval(text, keys, ...Array.from({ length: keys }, (_, i) => `log${i}`), ...args);
}

async function scriptMicros() {
  const info = await client.info("commandstats");
  return Number(/cmdstat_eval:calls=\d+,usec=(\d+)/.exec(info)?.[1] ?? 0);
}
