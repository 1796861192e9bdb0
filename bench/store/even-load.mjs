// Several stores on one Redis, as that many processes with little to do: takes come at even distances, whether or not earlier
// ones were answered, each to one of the stores by chance. What is late, and how many takes share a call, as Redis gets busy
// (docs/decisions/0013-takes-held-back-for-batching.md).
//   npm run build && node bench/store/even-load.mjs [--seconds 3] [--stores 4]

import { parseArgs } from "node:util";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { CORE } from "../harness/pin.mjs";
import { startRedis } from "../harness/redis.mjs";
import { printTable, progress, writeResults } from "../harness/report.mjs";
import { openStoreForBench } from "./headgate-store.mjs";

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "3" }, stores: { type: "string", default: "4" } },
});
const seconds = Number(values.seconds);
const KEYS = 10_000;
const RATES = [5_000, 10_000, 25_000, 50_000];
const WARM_UP_SECONDS = 0.5;

const redis = await startRedis(CORE.load);
const limit = { ratePerSecond: 4e6, burst: 4e9 };
const stores = await Promise.all(
  Array.from({ length: Number(values.stores) }, () => openStoreForBench({ port: redis.port, limit })),
);
const rows = [];
try {
  for (const rate of RATES) {
    progress(`${rate} takes a second`);
    await drive(rate, WARM_UP_SECONDS);
    const before = look();
    const delaysMs = await drive(rate, seconds);
    const after = look();
    delaysMs.sort((a, b) => a - b);
    const takes = delaysMs.length;
    rows.push({
      "takes/s": rate,
      "p50 ms": delaysMs[Math.floor(takes / 2)].toFixed(2),
      "p99 ms": delaysMs[Math.floor(takes * 0.99)].toFixed(2),
      "takes per call": (takes / (after.calls - before.calls)).toFixed(1),
      "us of Redis' CPU": ((after.cpuMicros - before.cpuMicros) / takes).toFixed(1),
    });
  }
} finally {
  progress("");
  for (const store of stores) await store.close();
  await redis.stop();
}
printTable(`Takes at even distances, ${stores.length} stores on one Redis, ${KEYS} keys, ${seconds} s each`, rows);
const command = `node bench/store/even-load.mjs --seconds ${seconds} --stores ${stores.length}`;
const file = writeResults("even-load", command, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

/** How long each take of `forSeconds` was under way, in milliseconds from when it was due. */
async function drive(rate, forSeconds) {
  const delaysMs = [];
  const underWay = new Set();
  const startMs = performance.now();
  for (let sent = 0; performance.now() - startMs < forSeconds * 1_000; ) {
    // A timer would let takes come in lumps of a millisecond.
    await new Promise((resolve) => setImmediate(resolve));
    for (const due = ((performance.now() - startMs) / 1_000) * rate; sent < due; sent++) {
      const dueMs = startMs + (sent / rate) * 1_000;
      const take = stores[Math.floor(Math.random() * stores.length)]
        .take(`user-${Math.floor(Math.random() * KEYS)}`)
        .then(() => {
          delaysMs.push(performance.now() - dueMs);
          underWay.delete(take);
        });
      underWay.add(take);
    }
  }
  await Promise.all(underWay);
  return delaysMs;
}

function look() {
  return {
    cpuMicros: cpuMicrosOf(redis.pid),
    calls: stores.reduce((sum, store) => sum + store.callsSent(), 0),
  };
}
