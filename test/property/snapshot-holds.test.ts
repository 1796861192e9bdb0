// Holds in a snapshot that is written while takes go on: a bucket that comes back with holds is one that it was at one moment,
// so no hold gives back what nobody paid. What has none any more may keep what was estimated.

import fc from "fast-check";
import { expect, test } from "vitest";
import { tokenBucket } from "../../src/engine/algorithms/token-bucket.ts";
import { WorkingBucket } from "../../src/engine/algorithms/working-bucket.ts";
import { keyedOf } from "../../src/engine/domain/key-bytes.ts";
import { Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { CONCURRENT_KEY_SUFFIX } from "../../src/engine/rules/bucket-key.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { type Ask, bucketKeyOf, fillGroup } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { restore, SnapshotInSteps, sealed } from "../support/snapshot-bytes.ts";

const LIMITS = [
  makeLimit({ amount: 100, burst: 100, windowSeconds: 600, holdSeconds: 30 }),
  makeLimit({
    amount: 0,
    burst: 4,
    windowSeconds: 30,
    holdSeconds: 30,
    isConcurrent: true,
    keySuffix: CONCURRENT_KEY_SUFFIX,
  }),
];
const IDENTITIES = ["0", "1", "2"];
const KEYS = LIMITS.flatMap((limit) => IDENTITIES.map((identity) => bucketKeyOf({ limit, identity }, "")));

interface State {
  /** When and how much is used; "" if there is no record. */
  readonly numbers: string;
  readonly holds: string;
}

function stateOf({ buckets, holds: book }: MemoryStore, key: string): State {
  const bucket = new WorkingBucket(tokenBucket);
  bucket.useKeyOf(keyedOf(key));
  const numbers = buckets.load(bucket) ? `${bucket.state.atUs} ${bucket.state.used}` : "";
  book.beginStep();
  const holds = book.of(bucket);
  return { numbers, holds: JSON.stringify(holds === undefined ? [] : book.live(holds)) };
}

const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      mode: fc.constantFrom(Mode.pay, Mode.pay, Mode.settle),
      limit: fc.constantFrom(...LIMITS),
      identity: fc.constantFrom(...IDENTITIES),
      cost: fc.integer({ min: 1, max: 9 }),
      holdId: fc.constantFrom("a", "b", "c", "d"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ seconds: fc.constantFrom(1, 10, 31) }) },
);
type Act = Ask | { readonly seconds: number };

// Promise(restarts): A bucket comes back with its holds of the same moment, or without them.
test("a bucket comes back with its holds as both were at one moment, or without them", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(act, { maxLength: 12 }),
      fc.array(fc.tuple(fc.array(act, { maxLength: 4 }), fc.integer({ min: 1, max: 2 })), { maxLength: 8 }),
      async (before, during) => {
        const clock = new ManualClock();
        const store = new MemoryStore({ clock });
        const group = new TakeGroup();
        const run = (one: Act) => {
          if ("seconds" in one) return clock.advanceSeconds(one.seconds);
          group.reset();
          fillGroup(group, [{ ...one, cost: one.limit.isConcurrent === true ? 1 : (one.cost ?? 1) }], "", false);
          store.take(group);
        };
        const seen = new Map(KEYS.map((key) => [key, [] as State[]]));
        const look = () => {
          for (const [key, states] of seen) states.push(stateOf(store, key));
        };
        for (const one of before) run(one);
        look();
        const snapshot = new SnapshotInSteps(store, clock.nowUs());
        snapshot.step();
        for (const [acts, steps] of during) {
          for (const one of acts) {
            run(one);
            look();
          }
          for (let i = 0; i < steps; i++) snapshot.step();
        }
        const next = new MemoryStore({ clock });
        await restore(next, await sealed(snapshot.entries()), clock.nowUs());
        look();
        for (const [key, states] of seen) {
          const found = stateOf(next, key);
          if (found.holds === "[]") expect(["", ...states.map(({ numbers }) => numbers)]).toContain(found.numbers);
          // A record that has ended is left out.
          else expect([...states, ...states.map(({ holds }) => ({ numbers: "", holds }))]).toContainEqual(found);
        }
        await Promise.all([store.close(), next.close()]);
      },
    ),
    { numRuns: runs(100) },
  );
});
