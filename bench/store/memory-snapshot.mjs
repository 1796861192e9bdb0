// What snapshots of the memory store cost: a million buckets, long sliding logs, and full buckets of holds, written to a file and read
// back, in seconds, with the longest turn of the event loop in milliseconds. Run after `npm run build`:
//
//   node bench/store/memory-snapshot.mjs [folder]

import { join } from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { payHit } from "../harness/pay-hit.mjs";
import { temporaryFolder } from "../harness/temporary-folder.mjs";
import { loadDist } from "../load/dist.mjs";

const { Algorithm } = await loadDist("engine/domain/limit.js");
const { TakeGroup } = await loadDist("engine/domain/take.js");
const { limitKeySuffix } = await loadDist("engine/rules/bucket-key.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");
const { Snapshots } = await loadDist("stores/memory/snapshot/snapshots.js");

const clock = { nowUs: () => Math.floor((performance.timeOrigin + performance.now()) * 1_000) };
const log = { info: () => undefined, warn: (fields, message) => console.error(message, fields) };
const folder = process.argv[2] ?? temporaryFolder("headgate-snapshot");

function limitOf(algorithm, burst) {
  const keySuffix = limitKeySuffix(algorithm, 864_000, "");
  // No bucket is full again while this runs.
  const amount = algorithm === Algorithm.tokenBucket ? 10 : burst;
  return { algorithm, amount, burst, windowSeconds: 864_000, debtMax: burst, keySuffix };
}

function fill(store, { algorithm, keys, times, holdSeconds = 0 }) {
  const limit = { ...limitOf(algorithm, 10_000), holdSeconds };
  const group = new TakeGroup();
  for (let round = 0; round < times; round++) {
    for (let i = 0; i < keys; i++) {
      group.reset();
      const take = group.add(limit);
      if (holdSeconds > 0) take.holdId = `${round}`.padEnd(36, "-");
      const at = group.keys.end;
      group.keys.write(`{edge|user=${i}${limit.keySuffix}`);
      payHit(store, group, take, at);
    }
  }
}

async function timesOf(work) {
  const start = performance.now();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await work();
  delay.disable();
  return { seconds: (performance.now() - start) / 1_000, turn: delay.max / 1e6 };
}

const ROUNDS = 3;
const KINDS = [
  { name: "a million token buckets", algorithm: Algorithm.tokenBucket, keys: 1_000_000, times: 1 },
  { name: "30,000 sliding logs of 200 payments", algorithm: Algorithm.slidingLog, keys: 30_000, times: 200 },
  {
    name: "10 buckets of 10,000 holds",
    algorithm: Algorithm.tokenBucket,
    keys: 10,
    times: 10_000,
    holdSeconds: 86_400,
  },
];

/** The quickest of several: what else the machine does is none of ours. */
async function quickest(work) {
  const all = [];
  for (let round = 0; round < ROUNDS; round++) all.push(await timesOf(work));
  const least = (values) => Number(Math.min(...values).toPrecision(3));
  return { seconds: least(all.map(({ seconds }) => seconds)), turn_ms: least(all.map(({ turn }) => turn)) };
}

const rows = [];
for (const [place, kind] of KINDS.entries()) {
  const options = { clock, file: join(folder, `buckets-${place}`), intervalMs: 86_400_000, log };
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000, logBytesMax: 134_217_728, holdsMax: 100_000 });
  const snapshots = new Snapshots({ ...options, store });
  await snapshots.open();
  fill(store, kind);
  rows.push({ what: `${kind.name}: write`, ...(await quickest(() => snapshots.write())) });
  await snapshots.close(60_000);
  const MB = Number((snapshots.state.bytes / 1e6).toPrecision(3));
  const read = await quickest(async () => {
    const other = new MemoryStore({ clock, bucketsMax: 1_000_000, logBytesMax: 134_217_728, holdsMax: 100_000 });
    const next = new Snapshots({ ...options, store: other });
    await next.open();
    if (other.bucketCount !== store.bucketCount)
      throw new Error(`expected ${store.bucketCount} buckets, got ${other.bucketCount}`);
    await next.abandon();
    await other.close();
  });
  await store.close();
  rows.push({ what: `${kind.name}: read`, ...read, MB });
}
console.table(rows);
