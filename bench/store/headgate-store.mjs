// The service's Redis store with nothing around it, for benches that compare it with other ways.

import { LimitStats } from "../../dist/core/limit-stats.js";
import { TakeGroup, Verdict } from "../../dist/core/take.js";
import { hashBucketKey } from "../../dist/rules/bucket-key.js";
import { openRedisStore } from "../../dist/stores/redis/redis-store.js";
import { SILENT_STORE_OBSERVER } from "../../dist/stores/store-observer.js";

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
  const limit = {
    algorithm: 0,
    amount: ratePerSecond,
    burst,
    windowSeconds: 1,
    debtMax: burst,
    shownAmount: ratePerSecond,
    shownUnit: 1,
    name: "",
    id: "bench",
    path: "bench",
    keySuffix: "}|tb/1",
    retryAfterJitter: 0,
    onStoreFailure: 0,
    sync: 0,
    replaces: [],
    stats: new LimitStats(),
  };
  const idle = [];
  return {
    take(user) {
      const group = idle.pop() ?? new TakeGroup();
      const take = group.add(limit);
      take.bucketKey = `{bench|user=${user}${limit.keySuffix}`;
      take.keyHash = hashBucketKey(take.bucketKey);
      return new Promise((resolve, reject) => {
        const settled = () => {
          const { verdict, failure } = group;
          group.reset();
          idle.push(group);
          if (verdict === Verdict.failed) reject(failure);
          else resolve(verdict === Verdict.allowed);
        };
        if (store.take(group, { settled })) settled();
      });
    },
    callsSent: () => calls,
    close: () => store.close(),
  };
}

async function connected(store) {
  const end = performance.now() + START_MS;
  while (store.trouble() !== undefined) {
    if (performance.now() > end) throw new Error(`the store did not connect: ${store.trouble()}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
