// Counters in Redis, in a Redis Cluster, in PostgreSQL and in memory are one arithmetic: generated calls get the same answers from all, field by
// field.

import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { hashBucketKey } from "../../src/engine/domain/key-bytes.ts";
import { NOBODY } from "../../src/engine/domain/store.ts";
import { Kind, Mode, type Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { LocalCountersFirst } from "../../src/stores/counters/counters-first.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { postgresHarness } from "../contract/postgres-harness.ts";
import { clusterHarness, redisHarness } from "../contract/redis-harness.ts";
import { type StoreHarness, settleWithCounters } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { PostgresServer } from "../support/postgres-server.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { RedisServer } from "../support/redis-server.ts";
import { runs } from "../support/runs.ts";

const counters = [0, 3, 10].map((amount) =>
  makeLimit({ algorithm: 2, isCounter: true, amount, burst: amount, windowSeconds: 3_600 }),
);
const bucket = makeLimit({ amount: 1, burst: 4, windowSeconds: 86_400 });
const limits = [...counters, bucket];

const ask = fc.record({
  limit: fc.integer({ min: 0, max: limits.length - 1 }),
  key: fc.constantFrom("a", "b"),
  kind: fc.constantFrom(Kind.ordinary, Kind.ordinary, Kind.quota, Kind.shadow),
  mode: fc.constantFrom(Mode.pay, Mode.pay, Mode.pay, Mode.denied, Mode.refund),
  hits: fc.constantFrom(0, 1, 2, 5, 2 ** 32 - 1),
});
const call = fc.record({ asks: fc.array(ask, { minLength: 1, maxLength: 5 }), stopsAtOver: fc.boolean() });

describe.each([
  { name: "Redis", open: async () => redisHarness(await RedisServer.start()) },
  {
    name: "Redis Cluster, a call's counters on several nodes",
    open: async () => clusterHarness(await ClusterRig.start({ replicas: false })),
    // Whether a counter that a call names twice is over, a part can't tell as the whole does.
    namesOnce: true,
  },
  { name: "PostgreSQL", open: async () => postgresHarness(await PostgresServer.start()) },
])("$name", ({ open, namesOnce = false }) => {
  let harness: StoreHarness;
  let histories = 0;

  beforeAll(async () => {
    harness = await open();
  }, 60_000);

  test("answers for a call's counters and its other limits as memory does", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 8 }), async (calls) => {
        const prefix = `r${histories++}:`;
        const memory = new MemoryStore({ clock: new ManualClock(harness.nowUs()) });
        const memoryOf = [false, true].map((stopsAtOver) => new LocalCountersFirst(memory, { stopsAtOver }));
        for (const one of namesOnce ? calls.map(withoutRepeats) : calls) {
          const [here, there] = [groupOf(one, prefix), groupOf(one, prefix)];
          memoryOf[one.stopsAtOver ? 1 : 0]?.take(here, NOBODY);
          await settleWithCounters(harness, there, one.stopsAtOver);
          expect(answerOf(there)).toEqual(answerOf(here));
        }
        await memory.close();
      }),
      { numRuns: runs(150) },
    );
  });
});

type Call = typeof call extends fc.Arbitrary<infer T> ? T : never;

function withoutRepeats({ asks, stopsAtOver }: Call): Call {
  const nameOf = ({ limit, key }: (typeof asks)[number]) => `${limit}${key}`;
  return {
    asks: asks.filter((one, at) => asks.findIndex((other) => nameOf(other) === nameOf(one)) === at),
    stopsAtOver,
  };
}

function groupOf({ asks }: Call, prefix: string): TakeGroup {
  const group = new TakeGroup();
  for (const [i, { limit: place, key, kind, mode, hits }] of asks.entries()) {
    const limit = limits[place] ?? bucket;
    const take = group.add(limit);
    take.bucketKey = `${prefix}${place}${key}`;
    take.keyHash = hashBucketKey(take.bucketKey);
    take.descriptor = i;
    take.kind = kind;
    take.mode = limit.isCounter ? mode : Mode.pay;
    take.cost = limit.isCounter ? hits : Math.max(1, hits);
    if (take.mode === Mode.denied) take.outcome = 2;
  }
  return group;
}

function answerOf(group: TakeGroup) {
  const takes = group.takes.slice(0, group.size);
  return { verdict: group.verdict, takes: takes.map(answerOfTake) };
}

function answerOfTake({ outcome, paid, remaining, mode, count, waitUs, limit }: Take) {
  // Of a denied counter nobody asks more than that it is over.
  if (mode === Mode.denied) return { outcome };
  if (!limit.isCounter) return { outcome, paid, remaining, waitUs };
  return { outcome, remaining, count: mode === Mode.pay ? count : 0 };
}
