// What the scripts cost Redis themselves: microseconds of INFO commandstats for batches of calls with one and with two token buckets, the
// least of many short rounds, because whatever else a machine does only adds to them. Several builds take turns in one run, beside a script
// that only reads and writes the same keys: no build can be quicker. Buckets are new, or known from a call before.
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
/** Calls in a batch, and limits of each call. */
const SHAPES = [
  { calls: 1, limits: 1 },
  { calls: 1, limits: 2 },
  { calls: 16, limits: 1 },
  { calls: 16, limits: 2 },
  { calls: 64, limits: 1 },
].flatMap((shape) => [shape, { ...shape, isKnown: true }]);
const KEYS = 10_000;
const LIMIT = {
  algorithm: 0,
  amount: 1_000,
  burst: 1_000,
  windowSeconds: 60,
  debtMax: 1_000,
  holdSeconds: 0,
  isCounter: false,
};
const LIMITS = [LIMIT, { ...LIMIT, windowSeconds: 1 }];
/** Buckets that outlast the round. */
const KNOWN_LIMITS = LIMITS.map((limit) => ({ ...limit, windowSeconds: limit.windowSeconds * 10_000 }));
const COMMANDS_ALONE = `redis.call('TIME')
local saved = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if saved[i] then
    redis.call('SET', KEYS[i], '0123456789abcdef', 'PX', '100000')
  else
    redis.call('SET', KEYS[i], '0123456789abcdef', 'PX', '100000', 'NX')
  end
end
return ARGV[3]`;
const TIMES = { latestOf: () => 0, bucketTimeUs: () => Date.now() * 1_000 };

const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
const variants = [];
for (const dist of values.dist) {
  const load = (path) => import(resolve(dist, path));
  const shaOf = await loadScripts(await load("stores/redis/scripts.js"));
  const { RedisBatch } = await load("stores/redis/redis-batch.js");
  const { TakeGroup } = await load("engine/domain/take.js");
  variants.push({ dist, shaOf, RedisBatch, TakeGroup, least: SHAPES.map(() => Number.POSITIVE_INFINITY) });
}
const commandsSha = await client.script("LOAD", COMMANDS_ALONE);
variants.push({
  ...variants[0],
  dist: "its commands alone",
  shaOf: () => commandsSha,
  least: SHAPES.map(() => Number.POSITIVE_INFINITY),
});
for (let round = 1; round <= rounds; round++) {
  progress(`round ${round} of ${rounds}`);
  for (const [i, shape] of SHAPES.entries()) {
    // In both orders: the second of two builds finds the processor warmer.
    for (const variant of round % 2 === 0 ? variants : variants.toReversed()) {
      variant.least[i] = Math.min(variant.least[i], await measure(variant, shape));
    }
  }
}
progress("");
client.disconnect();
await redis.stop();

const rows = variants.flatMap(({ dist, least }) =>
  [false, true].map((isKnown) => {
    const shown = SHAPES.flatMap((shape, i) =>
      (shape.isKnown ?? false) === isKnown ? [{ ...shape, us: least[i] }] : [],
    );
    const [one, two, sixteen, sixteenOfTwo] = shown.map(({ us }) => us);
    return {
      build: dist,
      buckets: isKnown ? "known" : "new",
      ...Object.fromEntries(shown.map(({ calls, limits, us }) => [`us for ${calls} x ${limits}`, us.toFixed(2)])),
      "two limits / one": (two / one).toFixed(2),
      "of 16": (sixteenOfTwo / sixteen).toFixed(2),
    };
  }),
);
printTable(`What a script call costs Redis, the least of ${rounds} rounds`, rows);
const file = writeResults("script-cost", `node bench/store/script-cost.mjs --rounds ${rounds}`, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

// Builds of before had a script for plain takes, and one for any.
async function loadScripts({ loadScript, loadScripts }) {
  const { takeAll, takeEach } = loadScripts?.() ?? { takeAll: loadScript(), takeEach: loadScript() };
  for (const { text } of [takeAll, takeEach]) await client.script("LOAD", text);
  return (batch) => (batch.isOfPlainTakes?.() ? takeEach : takeAll).sha;
}

async function measure(variant, shape) {
  const count = Math.round(400 / Math.sqrt(shape.calls * shape.limits));
  await client.flushall();
  if (shape.isKnown) await run(variant, shape, count);
  await client.config("RESETSTAT");
  await run(variant, shape, count);
  const info = await client.info("commandstats");
  return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(info)[1]) / count;
}

async function run(variant, shape, count) {
  const pipeline = client.pipeline();
  for (let i = 0; i < count; i++) pipeline.callBuffer("evalsha", ...argumentsOf(variant, shape, i * 31));
  const replies = await pipeline.exec();
  const failed = replies.find(([error]) => error !== null);
  if (failed !== undefined) throw failed[0];
}

function argumentsOf({ shaOf, RedisBatch, TakeGroup }, { calls, limits, isKnown }, from) {
  const batch = new RedisBatch();
  for (let call = 0; call < calls; call++) {
    const group = new TakeGroup();
    for (const limit of (isKnown ? KNOWN_LIMITS : LIMITS).slice(0, limits)) {
      const take = group.add(limit);
      take.bucketKey = `{bench|tenant=${(from + call * 7_919) % KEYS}}|tb/${limit.windowSeconds}`;
    }
    batch.add(group, { settled: () => undefined });
  }
  const sha = shaOf(batch);
  return [sha, ...batch.encode(0, TIMES).map((text) => Buffer.from(text, "latin1"))];
}
