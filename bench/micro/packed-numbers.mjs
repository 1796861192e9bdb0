// What it costs to pack numbers for a script and to read those of a reply, by their count: the ways in use beside those of
// the standard library, each at its quickest of many short runs. Run after `npm run build`:
//
//   node bench/micro/packed-numbers.mjs

import { loadDist } from "../load/dist.mjs";

const { packNumbers, unpackNumbers } = await loadDist("stores/redis/batch.js");

// A take's own, those of a call of ten takes, and those of a full call.
const COUNTS = [9, 80, 900];
const ROUNDS = 100;
const NUMBERS_PER_ROUND = 100_000;

function unpackByLibrary(reply) {
  const doubles = new Float64Array(reply.length / 8);
  reply.copy(Buffer.from(doubles.buffer));
  return Array.from(doubles);
}

const WAYS = {
  "pack, in use": { pack: packNumbers },
  "pack, Float64Array.from": { pack: (numbers) => Buffer.from(Float64Array.from(numbers).buffer).toString("latin1") },
  "unpack, in use": { unpack: unpackNumbers },
  "unpack, Array.from": { unpack: unpackByLibrary },
};

function nsPerCall({ pack, unpack }, count) {
  const numbers = Array.from({ length: count }, (_, i) => 1.7e15 + i);
  const given = pack === undefined ? Buffer.from(packNumbers(numbers), "latin1") : numbers;
  const act = pack ?? unpack;
  const calls = Math.ceil(NUMBERS_PER_ROUND / count);
  const start = process.hrtime.bigint();
  for (let i = 0; i < calls; i++) act(given);
  return Number(process.hrtime.bigint() - start) / calls;
}

const best = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, way] of Object.entries(WAYS)) {
    for (const count of COUNTS) {
      const what = `${name}, ${count} numbers`;
      best.set(what, Math.min(best.get(what) ?? Number.POSITIVE_INFINITY, nsPerCall(way, count)));
    }
  }
}
for (const [what, ns] of best) console.log(`${what.padEnd(40)} ${ns.toFixed(0).padStart(7)} ns`);
