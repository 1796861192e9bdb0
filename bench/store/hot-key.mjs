// How many takes a second one process answers on one hot bucket of a Redis, and how often it asks Redis for that: exact
// with room, exact and refused with and without the denial memory, and leased. All in one run, by turns.
//
//   npm run build && node bench/store/hot-key.mjs [--seconds 2] [--rounds 3] [--callers 64]

import { parseArgs } from "node:util";
import { SystemClock } from "../../dist/base/clock.js";
import { hashBucketKey } from "../../dist/engine/domain/key-bytes.js";
import { Source, TakeGroup, Verdict } from "../../dist/engine/domain/take.js";
import { openStore } from "../../dist/process/app/open-store.js";
import { readSettings } from "../../dist/settings/settings.js";
import { SILENT_STORE_OBSERVER } from "../../dist/stores/store-observer.js";
import { startRedis } from "../harness/redis.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { bucketOf } from "./limits.mjs";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "2" },
    rounds: { type: "string", default: "3" },
    callers: { type: "string", default: "64" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const callers = Number(values.callers);

// Room for everybody, or for nobody.
const ROOMY = { amount: 100_000_000, burst: 100_000_000 };
const FULL = { amount: 1, burst: 1, windowSeconds: 86_400 };

const MODES = [
  { name: "exact, room", limit: bucketOf({ ...ROOMY, sync: 0 }) },
  { name: "exact, refused, DENIALS_MAX=0", limit: bucketOf({ ...FULL, sync: 0 }), env: { DENIALS_MAX: "0" } },
  { name: "exact, refused", limit: bucketOf({ ...FULL, sync: 0 }) },
  { name: "lease", limit: bucketOf({ ...ROOMY, sync: 1 }) },
];

/** Callers who ask again as soon as they are answered; those that need not wait let the others have their turn. */
async function run(store, limit, name) {
  const bucketKey = `{bench|hot=${name}${limit.keySuffix}`;
  const keyHash = hashBucketKey(bucketKey);
  const counts = { takes: 0, allowed: 0, failed: 0, fromMemory: 0 };
  const endMs = performance.now() + seconds * 1_000;
  const ask = (group, then) => {
    group.reset();
    const take = group.add(limit);
    take.bucketKey = bucketKey;
    take.keyHash = keyHash;
    take.descriptor = 0;
    take.kind = 0;
    take.mode = 0;
    take.cost = 1;
    return store.take(group, then);
  };
  const count = (group) => {
    counts.takes++;
    if (group.verdict === Verdict.allowed) counts.allowed++;
    else if (group.verdict === Verdict.failed) counts.failed++;
    if (group.source !== Source.store) counts.fromMemory++;
  };
  const startedMs = performance.now();
  await Promise.all(
    Array.from(
      { length: callers },
      () =>
        new Promise((resolve) => {
          const group = new TakeGroup();
          const next = () => {
            // A turn of the event loop reads some calls from each socket; eight stand for that.
            for (let i = 0; i < 8; i++) {
              if (performance.now() >= endMs) return resolve();
              if (
                !ask(group, {
                  answered: () => {
                    count(group);
                    next();
                  },
                })
              )
                return;
              count(group);
            }
            setImmediate(next);
          };
          next();
        }),
    ),
  );
  return { ...counts, perSecond: (counts.takes / (performance.now() - startedMs)) * 1_000 };
}

const redis = await startRedis();
const clock = new SystemClock();
const results = new Map(MODES.map(({ name }) => [name, []]));
try {
  for (let round = 1; round <= rounds; round++) {
    for (const { name, limit, env } of MODES) {
      progress(`round ${round} of ${rounds}: ${name}`);
      let calls = 0;
      const settings = readSettings({ REDIS_URL: `127.0.0.1:${redis.port}`, STORE_DEADLINE: "10s", ...env });
      const observer = { ...SILENT_STORE_OBSERVER, answered: () => calls++ };
      const { store, health, processes } = await openStore({ settings, clock, observer });
      while (health.trouble() !== undefined || processes.sureCount() > 1) await new Promise((r) => setTimeout(r, 10));
      const { takes, perSecond, failed, fromMemory } = await run(store, limit, name);
      results.get(name).push({ takes, perSecond, failed, fromMemory, calls });
      await store.close();
    }
  }
} finally {
  progress("");
  await redis.stop();
}

const rateOf = (name) => median(results.get(name).map(({ perSecond }) => perSecond));
const base = rateOf("exact, room");
const rows = MODES.map(({ name }) => {
  const runs = results.get(name);
  const sum = (key) => runs.reduce((total, run) => total + run[key], 0);
  return {
    mode: name,
    "takes/s": Math.round(rateOf(name)),
    "ratio to exact": (rateOf(name) / base).toFixed(2),
    "takes per Redis call": sum("calls") === 0 ? "no calls" : (sum("takes") / sum("calls")).toFixed(1),
    "from memory": `${((100 * sum("fromMemory")) / sum("takes")).toFixed(1)} %`,
    failed: sum("failed"),
  };
});
printTable(`One hot bucket, ${callers} callers, one process, one Redis, ${rounds} rounds of ${seconds} s`, rows);
const command = `node bench/store/hot-key.mjs --seconds ${seconds} --rounds ${rounds} --callers ${callers}`;
process.stdout.write(`\nwritten to ${writeResults("hot-key", command, rows)}\n`);
