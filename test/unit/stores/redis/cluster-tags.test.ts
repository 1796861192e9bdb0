// The hash tags of a Redis Cluster: every key that is sent lies in the slot of its queue, and tags are spread evenly.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Limit } from "../../../../src/engine/domain/limit.ts";
import { ClusterTags, keySlot, SLOTS } from "../../../../src/stores/redis/cluster-tags.ts";
import { makeLimit } from "../../../support/builders.ts";
import { runs } from "../../../support/runs.ts";

const bucket = makeLimit({ amount: 1 });
const counter: Limit = { ...bucket, isCounter: true };
const COUNTS = [1, 2, 3, 7, 64, 100, 256, 1_000, 4_096];
const known = new Map<string, ClusterTags>();

const counts = fc.constantFrom(...COUNTS);
const prefixes = fc.constantFrom("", "rl:", "a b/");
// Braces where rules put them, and where only a counter's key can have them.
const texts = fc.string({ unit: fc.constantFrom("a", "7", "|", "=", "{", "}", ":", "\xff"), maxLength: 24 });

// Made once: to find some thousand tags takes some milliseconds.
function tagsOf(count: number, prefix: string): ClusterTags {
  const name = `${count} ${prefix}`;
  const tags = known.get(name) ?? new ClusterTags(count, prefix);
  known.set(name, tags);
  return tags;
}

describe("every key", () => {
  // Promise(redis): Every key is in the slot of its tag, and no two buckets share a key.
  test("is kept in the slot of its queue, behind the prefix, and no two keys under one name", () => {
    fc.assert(
      fc.property(
        counts,
        prefixes,
        texts,
        texts,
        fc.constantFrom(bucket, counter),
        (count, prefix, one, other, limit) => {
          const tags = tagsOf(count, prefix);
          const [first, second] = [one, other].map((text) => {
            const take = { bucketKey: prefix + text, limit };
            const queues = [tags.queueOf(take), tags.queueAlone(take)];
            const stored = queues.map((queue) => tags.storedKey(take.bucketKey, queue));
            expect(stored[1]).toBe(stored[0]);
            expect(stored[0]?.startsWith(prefix)).toBe(true);
            for (const queue of queues) expect(tags.slotOf(queue)).toBe(keySlot(stored[0] ?? ""));
            return stored[0];
          });
          expect(first === second).toBe(one === other);
        },
      ),
      { numRuns: runs(1_000) },
    );
  });

  // Promise(compatibility): Counters of COMPATIBILITY_MODE keep envoyproxy/ratelimit's keys on a Cluster.
  test("of a counter stays as envoyproxy/ratelimit writes it", () => {
    const tags = new ClusterTags(64, "rl:");
    const take = { bucketKey: "rl:edge_{a}_b_0", limit: counter };
    expect(tags.storedKey(take.bucketKey, tags.queueOf(take))).toBe(take.bucketKey);
    expect(tags.queueOf(take)).toBe(keySlot("a"));
  });

  test("of one descriptor gets one tag, whatever its limit, and a queue of its own when alone", () => {
    const tags = new ClusterTags(64);
    const lanesOf = (key: string) => [
      tags.queueOf({ bucketKey: key, limit: bucket }),
      tags.queueAlone({ bucketKey: key, limit: bucket }),
    ];
    const [second, day] = [lanesOf("{edge|tenant=a}|tb/1"), lanesOf("{edge|tenant=a}|fw/86400")];
    expect(second[0]).toBe(day[0]);
    expect(second[1]).not.toBe(day[1]);
  });
});

test("tags lie at equal distances, and the slot that a key would have by itself is near its tag's", () => {
  fc.assert(
    fc.property(counts, texts, (count, text) => {
      const tags = tagsOf(count, "");
      const slots = Array.from({ length: count }, (_, index) => tags.slotOf(SLOTS + index));
      expect(slots).toEqual(slots.map((_, index) => Math.floor(((index + 0.5) * SLOTS) / count)));
      const slot = tags.slotOf(tags.queueOf({ bucketKey: text, limit: bucket }));
      expect(Math.abs(slot - keySlot(text))).toBeLessThanOrEqual(SLOTS / count / 2 + 1);
    }),
    { numRuns: runs(200) },
  );
});

test("the names of tags never change: they are what buckets are found by", () => {
  const tags = new ClusterTags(64);
  const nameOf = (index: number) => tags.storedKey("", SLOTS + index);
  expect([0, 1, 31, 63].map(nameOf)).toMatchInlineSnapshot(`
    [
      "{53t}",
      "{j3j}",
      "{iu}",
      "{802}",
    ]
  `);
});
