// Calls with counters, several under way at once, on a store that answers later.

import { expect, test } from "vitest";
import { hashBucketKey } from "../../../../src/engine/domain/key-bytes.ts";
import { TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { CountersFirst } from "../../../../src/stores/counters/counters-first.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const counter = makeLimit({ algorithm: 2, isCounter: true, amount: 1_000, windowSeconds: 60 });
const bucket = makeLimit({ amount: 1_000, burst: 1_000, windowSeconds: 60 });

test.each([
  { name: "counters alone", limits: [counter] },
  { name: "counters and other limits", limits: [counter, bucket] },
])("each of several calls at once gets its own answer, once: $name", ({ limits }) => {
  const store = new ScriptedStore(new ManualClock());
  const all = new CountersFirst(store, store, { stopsAtOver: false });
  store.holdsBack = true;
  const answers: number[] = [];
  // Later rounds use calls of the pool again.
  for (let round = 0; round < 3; round++) {
    const groups = Array.from({ length: 4 }, (_, call) => groupOf(limits, `${round}:${call}`));
    for (const [call, group] of groups.entries()) {
      expect(all.take(group, { answered: () => answers.push(round * 4 + call) })).toBe(false);
    }
    // Once for the counters, once for the rest.
    store.release();
    store.release();
    expect(groups.map(({ verdict, takes }) => [verdict, takes[0]?.count])).toEqual(
      groups.map(() => [Verdict.allowed, 1]),
    );
  }
  expect(answers).toEqual(Array.from({ length: 12 }, (_, i) => i));
});

function groupOf(limits: readonly (typeof counter)[], name: string): TakeGroup {
  const group = new TakeGroup();
  for (const [i, limit] of limits.entries()) {
    const take = group.add(limit);
    take.bucketKey = `${name}:${i}`;
    take.keyHash = hashBucketKey(take.bucketKey);
    take.descriptor = i;
  }
  return group;
}
