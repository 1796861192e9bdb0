// The service's Redis and PostgreSQL stores with nothing around them, for benches that compare them with other ways.

import { hashBucketKey } from "../../dist/engine/domain/key-bytes.js";
import { Mode, TakeGroup, Verdict } from "../../dist/engine/domain/take.js";
import { openPostgresStore } from "../../dist/stores/postgres/postgres-store.js";
import { openRedisStore } from "../../dist/stores/redis/redis-store.js";
import { SILENT_STORE_OBSERVER } from "../../dist/stores/store-observer.js";
import { bucketOf } from "./limits.mjs";

const START_MS = 5_000;

/** Opens the store on a port of this machine; `take` resolves to whether the take passed. Rejects if it fails. */
export async function openStoreForBench({ port, limit: { ratePerSecond, burst } }) {
  let calls = 0;
  const store = openRedisStore({
    target: {
      address: { kind: "tcp", host: "127.0.0.1", port },
      database: 0,
      login: undefined,
      loginFile: undefined,
      tls: undefined,
      connectTimeoutMs: 1_000,
    },
    // A bench measures, it does not degrade: an answer that takes long counts as long.
    deadlineMs: 10_000,
    observer: { ...SILENT_STORE_OBSERVER, answered: () => calls++ },
  });
  await connected(store);
  return clientOf([store], limitOf({ ratePerSecond, burst }), () => calls);
}

/**
 * The same for PostgreSQL. `processes` stores with connections of their own share the callers, as processes would; calls
 * that were repeated count as often as they were sent. `mode` is that of all takes (engine/domain/take.ts), the rest options of the store.
 */
export async function openPostgresForBench({ port, limit, processes = 1, mode, ...options }) {
  let calls = 0;
  let repeats = 0;
  const target = { host: "127.0.0.1", port, database: "postgres", user: "headgate", connectTimeoutMs: 5_000 };
  const stores = Array.from({ length: processes }, () =>
    openPostgresStore({
      target,
      deadlineMs: 10_000,
      unlogged: true,
      ...options,
      observer: { ...SILENT_STORE_OBSERVER, answered: () => calls++, repeated: () => repeats++ },
    }),
  );
  await Promise.all(stores.map(connected));
  return { ...clientOf(stores, limitOf(limit), () => calls + repeats, mode), repeats: () => repeats };
}

function limitOf({ ratePerSecond, burst }) {
  return bucketOf({ amount: ratePerSecond, burst });
}

function clientOf(stores, limit, callsSent, mode = Mode.pay) {
  const idle = [];
  let turn = 0;
  return {
    /** One call with a take for each of the users. */
    take(...users) {
      const group = idle.pop() ?? new TakeGroup();
      for (const user of users) {
        const take = group.add(limit);
        take.bucketKey = `{bench|user=${user}${limit.keySuffix}`;
        take.mode = mode;
        take.keyHash = hashBucketKey(take.bucketKey);
      }
      const store = stores[turn++ % stores.length];
      return new Promise((resolve, reject) => {
        const settled = () => {
          const { verdict, failure } = group;
          group.reset();
          idle.push(group);
          if (verdict === Verdict.failed) reject(failure);
          else resolve(verdict === Verdict.allowed);
        };
        if (store.take(group, { answered: settled })) settled();
      });
    },
    callsSent,
    close: () => Promise.all(stores.map((store) => store.close())),
  };
}

async function connected(store) {
  const end = performance.now() + START_MS;
  while (store.trouble() !== undefined) {
    if (performance.now() > end) throw new Error(`the store did not connect: ${store.trouble()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
