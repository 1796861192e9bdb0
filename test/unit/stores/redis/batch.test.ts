// What a batch sends, how much it holds, and how its reply is read.

import { describe, expect, test } from "vitest";
import { Kind, Mode, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { isReplyTo, ReplyReader } from "../../../../src/stores/batching/reply.ts";
import { BATCH_BYTES_MAX, BATCH_WEIGHT_MAX, RedisBatch } from "../../../../src/stores/redis/batch.ts";
import { makeLimit } from "../../../support/builders.ts";

const perSecond = makeLimit({ amount: 7, burst: 9, debtMax: 90 });
const perMinute = makeLimit({ algorithm: 1, amount: 5, windowSeconds: 60, debtMax: 50 });
const nobody = { settled: () => undefined };

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
  const add = (key: string, holdId: string) => {
    const group = new TakeGroup();
    Object.assign(group.add(held), { bucketKey: key, holdId, cost: 1 });
    batch.add(group, nobody);
    batch.encode(0, timesOf(0));
    return batch.bucketCount;
  };
  expect([add("a", "1"), add("a", "2"), add("b", "1")]).toEqual([1, 1, 2]);
  batch.receipts.push({ bucketKey: "c", limit: held, cost: 1, paidAtUs: 1, holdId: "x", sinceUs: 0 });
  expect(batch.bucketCount).toBe(3);
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
  function batchOf(...groups: TakeGroup[]): RedisBatch {
    const batch = new RedisBatch();
    for (const group of groups) batch.add(group, nobody);
    return batch;
  }

  test.each([
    { name: "too short", reply: [1, 0, 1, 5, 0, 0, 0, 0] },
    { name: "too long", reply: [1, 0, 1, 5, 0, 0, 0, 0, 0, 0] },
    { name: "that tells of holds where none were asked of", reply: [1, 0, 1, 5, 0, 0, 0, 0, 0, 1, 2] },
    { name: "with an unknown verdict", reply: [1, 0, 9, 5, 0, 0, 0, 0, 0] },
    { name: "with text", reply: [1, 0, 1, 5, 0, 0, "0", 0, 0] },
    { name: "with nothing in it", reply: [1, 0, 1, 5, 0, 0, null, 0, 0] },
    { name: "that is no list", reply: "OK" },
  ])("one $name is none", ({ reply }) => {
    expect(isReplyTo(batchOf(groupOf("a")), reply)).toBe(false);
  });

  test("are read group by group, past those that came too late", () => {
    const [first, late, second] = [groupOf("a"), groupOf("b"), groupOf("c")];
    const batch = batchOf(first, late, second);
    const reply = [5, 0, 1, 5, 4, 0, 100, 5, 0, 3, 2, 2, 0, 9, 200, 0, 0];
    expect(isReplyTo(batch, reply)).toBe(true);
    const reader = new ReplyReader(reply);
    for (const [index, group] of [first, late, second].entries()) {
      const batched = batch.groups[index];
      if (batched === undefined) throw new RangeError("no such group");
      if (group === late) reader.skip(batched);
      else reader.writeTo(group, batched);
    }
    expect(first).toMatchObject({ verdict: 1 });
    expect(first.takes[0]).toMatchObject({ outcome: 1, paid: true, remaining: 4, resetUs: 100, paidAtUs: 5 });
    expect(late).toMatchObject({ verdict: 0 });
    expect(second.takes[0]).toMatchObject({ outcome: 2, paid: false, remaining: 0, waitUs: 9, resetUs: 200 });
  });
});
