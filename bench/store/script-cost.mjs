// What the scripts cost Redis themselves: microseconds of INFO commandstats for a call of 1, 4 and 64 token buckets, the least of
// many short rounds, because whatever else a machine does only adds to them. Several builds take turns in one run.
//   npm run build && node bench/store/script-cost.mjs [--rounds 60] [--dist dist] [--dist ../other/dist]

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import Redis from "ioredis";
import { startRedis } from "../harness/redis.mjs";
import { printTable, progress, writeResults } from "../harness/report.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "60" },
    dist: { type: "string", multiple: true, default: [resolve(import.meta.dirname, "../../dist")] },
  },
});
const rounds = Number(values.rounds);
const TAKES = [1, 4, 64];
const KEYS = 10_000;
/** As RedisBatch encodes them: a limit of a thousand a minute, and per group its head and its take. */
const LIMITS = packed([0, 1_000, 1_000, 60, 1_000]);
const groupOf = (key) => [1, 0, 0, key, 1, 0, 0, 0, 1];

const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
const variants = [];
for (const dist of values.dist) {
  const { loadScripts } = await import(resolve(dist, "stores/redis/scripts.js"));
  for (const [name, { text }] of Object.entries(loadScripts()))
    variants.push({ name: `${name} of ${dist}`, sha: await client.script("LOAD", text), least: new Map() });
}
for (let round = 1; round <= rounds; round++) {
  progress(`round ${round} of ${rounds}`);
  for (const takes of TAKES) {
    for (const { sha, least } of variants) {
      const micros = await measure(sha, takes);
      least.set(takes, Math.min(least.get(takes) ?? Number.POSITIVE_INFINITY, micros));
    }
  }
}
progress("");
client.disconnect();
await redis.stop();

const rows = variants.map(({ name, least }) => ({
  script: name,
  ...Object.fromEntries(TAKES.map((takes) => [`us for ${takes}`, least.get(takes).toFixed(2)])),
  "us a take of 64": (least.get(64) / 64).toFixed(2),
}));
printTable(`What a script call costs Redis, the least of ${rounds} rounds`, rows);
const file = writeResults("script-cost", `node bench/store/script-cost.mjs --rounds ${rounds}`, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

async function measure(sha, takes) {
  const calls = Math.round(400 / Math.sqrt(takes));
  await client.flushall();
  await client.config("RESETSTAT");
  const pipeline = client.pipeline();
  for (let i = 0; i < calls; i++) pipeline.callBuffer("evalsha", sha, ...argumentsOf(takes, i * 31));
  const replies = await pipeline.exec();
  const failed = replies.find(([error]) => error !== null);
  if (failed !== undefined) throw failed[0];
  const info = await client.info("commandstats");
  return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(info)[1]) / calls;
}

function argumentsOf(takes, from) {
  const keys = Array.from({ length: takes }, (_, i) => `{bench|tenant=${(from + i * 7_919) % KEYS}}|tb/60`);
  const groups = keys.flatMap((_, i) => groupOf(i + 1));
  return [takes, ...keys, packed([0]), LIMITS, packed([]), packed(groups)];
}

function packed(numbers) {
  return Buffer.from(Float64Array.from(numbers).buffer);
}
