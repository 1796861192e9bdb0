// What hashing one bucket key costs, by its length: the hash in use beside others that could stand in its place, each at
// its quickest of many short runs. Run after `npm run build`:
//
//   node bench/micro/key-hash.mjs [--write]

import { randomBytes } from "node:crypto";
import { writeResults } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";
import { WAYS } from "./key-hash-ways.mjs";

const { hashOfWords } = await loadDist("engine/domain/key-bytes.js");

const LENGTHS = [20, 40, 60, 200];
const ROUNDS = 150;
const HASHES_PER_ROUND = 10_000;

// Each hash is of other bytes than the one before, as keys of callers are: what hangs on them can't be guessed.
const WORDS = 1 << 18;
const words = new Int32Array(new Uint8Array(randomBytes(WORDS * 4)).buffer);
const ways = { "SipHash-1-3, 128 bits, in use": hashOfWords, ...WAYS };
const into = { keyHash: 0, keyHash1: 0, keyHash2: 0, keyHash3: 0 };

function nsPerHash(hash, length) {
  let at = (Math.random() * WORDS) >>> 0;
  const start = process.hrtime.bigint();
  for (let i = 0; i < HASHES_PER_ROUND; i++) {
    at = (at + 7_919) % (WORDS - 64);
    hash(words, at, length, into);
  }
  return Number(process.hrtime.bigint() - start) / HASHES_PER_ROUND;
}

const best = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, hash] of Object.entries(ways)) {
    for (const length of LENGTHS) {
      const what = `${name}, ${length} bytes`;
      best.set(what, Math.min(best.get(what) ?? Number.POSITIVE_INFINITY, nsPerHash(hash, length)));
    }
  }
}
const found = [...best].map(([what, value]) => ({ what, value, unit: "ns" }));
for (const { what, value } of found) console.log(`${what.padEnd(52)} ${value.toFixed(0).padStart(5)} ns`);
if (process.argv.includes("--write")) writeResults("key-hash", "node bench/micro/key-hash.mjs --write", found);
