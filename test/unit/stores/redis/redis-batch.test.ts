// What a batch sends, how much it holds, and how its reply is read.

import { describe, expect, test } from "vitest";
import { Kind, Mode, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { isReplyTo } from "../../../../src/stores/batching/reply.ts";
import { BATCH_BYTES_MAX, BATCH_WEIGHT_MAX, RedisBatch } from "../../../../src/stores/redis/redis-batch.ts";
import { makeLimit } from "../../../support/builders.ts";

const perSecond = makeLimit({ amount: 7, burst: 9, debtMax: 90 });
const perMinute = makeLimit({ algorithm: 1, amount: 5, windowSeconds: 60, debtMax: 50 });
const nobody = { answered: () => undefined };

function groupOf(...keys: string[]): TakeGroup {
  const group = new TakeGroup();
  keys.forEach((key, index) => {
    const take = group.add(index % 2 === 0 ? perSecond : perMinute);
    take.bucketKey = key;
    take.descriptor = index;
    take.cost = index + 1;
    take.kind = Kind.quota;
    take.mode = Mode.peek;
  });
  return group;
}

const NOW_US = 1_767_225_600_000_000;
const timesOf = (latestUs: number) => ({ latestOf: () => latestUs, bucketTimeUs: () => NOW_US });

test("counts buckets, however many keys the holds of a bucket add when it is sent", () => {
  const held = makeLimit({ amount: 7, holdSeconds: 60 });
  const batch = new RedisBatch();
  const add = (key: string, holdId: string, mode: Mode = Mode.pay) => {
    const group = new TakeGroup();
    Object.assign(group.add(held), { bucketKey: key, holdId, cost: 1, mode });
    batch.add(group, nobody);
    batch.encode(0, timesOf(0));
    return batch.bucketCount;
  };
  expect([add("a", "1"), add("a", "2"), add("b", "1")]).toEqual([1, 1, 2]);
  expect(add("c", "x", Mode.giveBack)).toBe(3);
});

describe("arguments", () => {
  test("keep what a group asked after the group serves another call", () => {
    const batch = new RedisBatch();
    const group = groupOf("a");
    batch.add(group, nobody);
    group.reset();
    group.add(perMinute).bucketKey = "other";
    expect(batch.encode(0, timesOf(0))[1]).toBe("a");
    const [batched] = batch.groups;
    expect(batched && batch.takeOf(batched, 0)).toEqual({
      bucketKey: "a",
      limit: perSecond,
      mode: Mode.peek,
      cost: 1,
      holdId: "",
    });
  });
});

describe("bounds", () => {
  test("long keys fill a batch sooner", () => {
    const batch = new RedisBatch();
    const keyOf = (group: number) => String(group).padStart(1_000, "k");
    let groups = 0;
    while (batch.hasRoomFor(groupOf(keyOf(groups)))) batch.add(groupOf(keyOf(groups++)), nobody);
    expect(groups).toBeLessThanOrEqual(BATCH_BYTES_MAX / 1_000);
    expect(groups).toBeGreaterThan(10);
  });

  test("a group above all bounds travels alone", () => {
    const keys = Array.from({ length: BATCH_WEIGHT_MAX + 1 }, (_, index) => `k${index}`);
    const batch = new RedisBatch();
    expect(batch.hasRoomFor(groupOf(...keys))).toBe(true);
    batch.add(groupOf(...keys), nobody);
    expect(batch.hasRoomFor(groupOf("a"))).toBe(false);
  });
});

describe("replies", () => {
  test.each([
    { name: "too short", reply: [1, 0, 1, 5, 0, 0, 0, 0] },
    { name: "too long", reply: [1, 0, 1, 5, 0, 0, 0, 0, 0, 0] },
    { name: "with holds that were not asked for", reply: [1, 0, 1, 5, 0, 0, 0, 0, 0, 1, 2] },
    { name: "with an unknown verdict", reply: [1, 0, 9, 5, 0, 0, 0, 0, 0] },
    { name: "with text", reply: [1, 0, 1, 5, 0, 0, "0", 0, 0] },
    { name: "with nothing in it", reply: [1, 0, 1, 5, 0, 0, null, 0, 0] },
    { name: "that is no list", reply: "OK" },
  ])("rejects one $name", ({ reply }) => {
    const batch = new RedisBatch();
    batch.add(groupOf("a"), nobody);
    expect(isReplyTo(batch, reply)).toBe(false);
  });
});
