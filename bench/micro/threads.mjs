// What two threads do on one memory store beside one: takes a second of two threads together against one thread alone, on keys in no order and on
// one hot key. A thread's own CPU time counts where Node can tell it (24 and newer), so other work on the machine matters little; wall time
// elsewhere. Run after `npm run build`:
//
//   node bench/micro/threads.mjs [--rounds 5] [--json]

import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { payHit } from "../harness/pay-hit.mjs";
import { loadDist } from "../load/dist.mjs";

const { Algorithm } = await loadDist("engine/domain/limit.js");
const { hashKeyInUse, useHashKey } = await loadDist("engine/domain/key-bytes.js");
const { LimitStats } = await loadDist("engine/domain/stats.js");
const { TakeGroup } = await loadDist("engine/domain/take.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");
const { newSharedStore } = await loadDist("stores/memory/store-memory.js");

const MILLION = 1_000_000;
const TAKES = 200_000;
const THREADS_MAX = 2;
const KEYS = [
  { what: "a million keys", count: MILLION },
  { what: "one hot key", count: 1 },
];

if (isMainThread) await main();
else await take(workerData);

async function main() {
  const { values } = parseArgs({
    options: { rounds: { type: "string", default: "5" }, json: { type: "boolean", default: false } },
  });
  const found = [];
  for (const { what, count } of KEYS) {
    const ratios = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const alone = await perSecond(1, count);
      const together = await perSecond(THREADS_MAX, count);
      ratios.push({ ratio: together / alone, aloneNs: 1e9 / alone });
    }
    ratios.sort((one, other) => one.ratio - other.ratio);
    const { ratio, aloneNs } = ratios[ratios.length >> 1];
    found.push({
      what,
      "two threads against one": Number(ratio.toFixed(2)),
      "one thread, ns per take": Math.round(aloneNs),
    });
  }
  if (values.json) process.stdout.write(`${JSON.stringify(found)}\n`);
  else console.table(found);
}

/** Takes a second of so many threads together. */
async function perSecond(threads, keys) {
  const shared = newSharedStore({ bucketsMax: 1_000_000, threadsMax: THREADS_MAX });
  const begin = new SharedArrayBuffer(8);
  const workers = Array.from({ length: threads }, (_, i) => {
    const data = { shared, begin, threads, thread: i + 1, keys, hashKey: hashKeyInUse() };
    return new Worker(new URL(import.meta.url), { workerData: data });
  });
  const rates = await Promise.all(
    workers.map((worker) => new Promise((done, failed) => worker.once("message", done).once("error", failed))),
  );
  await Promise.all(workers.map((worker) => worker.terminate()));
  return rates.reduce((sum, rate) => sum + rate, 0);
}

async function take({ shared, begin, threads, thread, keys, hashKey }) {
  useHashKey(Buffer.from(hashKey));
  const clock = { us: Date.UTC(2026, 0, 1) * 1000, nowUs: () => clock.us };
  const store = new MemoryStore({ clock, shared: { store: shared, thread } });
  const limit = {
    algorithm: Algorithm.tokenBucket,
    amount: 4e9,
    burst: 4e9,
    windowSeconds: 3_600,
    debtMax: 4e9,
    holdSeconds: 0,
    keySuffix: "|tb/3600",
    stats: new LimitStats(),
  };
  const group = new TakeGroup();
  let random = thread;
  const run = (takes) => {
    for (let i = 0; i < takes; i++) {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      group.reset();
      const take = group.add(limit);
      const at = group.keys.end;
      group.keys.write(`{edge|plan=pro|api_key=${random % keys}${limit.keySuffix}`);
      payHit(store, group, take, at);
      clock.us++;
    }
  };
  run(keys === 1 ? TAKES : MILLION);
  const arrived = new Int32Array(begin);
  Atomics.add(arrived, 0, 1);
  Atomics.notify(arrived, 0);
  for (let count = 0; count < threads; count = Atomics.load(arrived, 0)) Atomics.wait(arrived, 0, count, 10);
  const start = now();
  run(TAKES);
  const seconds = now() - start;
  // Others still measure themselves beside this thread.
  Atomics.add(arrived, 1, 1);
  while (Atomics.load(arrived, 1) < threads) run(1_000);
  parentPort.postMessage(TAKES / seconds);
}

/** Seconds of this thread's CPU, or of the wall clock. */
function now() {
  if (process.threadCpuUsage === undefined) return performance.now() / 1_000;
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1e6;
}
