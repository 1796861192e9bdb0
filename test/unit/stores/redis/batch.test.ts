// What a batch sends, how much it holds, and how its reply is read.

import { describe, expect, test } from "vitest";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { LimitStats } from "../../../../src/engine/domain/stats.ts";
import { Kind, LOG_WEIGHT, Mode, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { isReplyTo, ReplyReader } from "../../../../src/stores/batching/reply.ts";
import { BATCH_BYTES_MAX, BATCH_WEIGHT_MAX, GIVE_BACK, RedisBatch } from "../../../../src/stores/redis/batch.ts";
import { packNumbers, unpackNumbers } from "../../../../src/stores/redis/packed-numbers.ts";
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

function numbersIn(packed: string | undefined): readonly number[] | undefined {
  return unpackNumbers(Buffer.from(packed ?? "?", "latin1"));
}

describe("packed numbers", () => {
  test("come out as they went in", () => {
    const numbers = [0, 1, 4_294_967_296, 1_767_225_600_123_456, Number.MAX_SAFE_INTEGER];
    expect(numbersIn(packNumbers(numbers))).toEqual(numbers);
    expect(
      unpackNumbers(Buffer.concat([Buffer.alloc(3), Buffer.from(packNumbers(numbers), "latin1")]).subarray(3)),
    ).toEqual(numbers);
  });

  test.each([
    { name: "half a number", reply: Buffer.alloc(12) },
    { name: "a list", reply: [1, 2] },
    { name: "text", reply: "12345678" },
    { name: "nothing", reply: null },
  ])("are not found in $name", ({ reply }) => {
    expect(unpackNumbers(reply)).toBeUndefined();
  });
});

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
  test("hand over the edges of a calendar's windows around the server's time", () => {
    const perHour = makeLimit({ algorithm: Algorithm.calendarWindow, amount: 5, windowSeconds: 3_600 });
    perHour.calendar?.turnTo(NOW_US - 1);
    const batch = new RedisBatch();
    const group = new TakeGroup();
    group.add(perHour).bucketKey = "a";
    batch.add(group, nobody);
    const hourUs = 3_600_000_000;
    const edges = [NOW_US, NOW_US + hourUs, NOW_US + 2 * hourUs];
    expect(numbersIn(batch.encode(0, timesOf(0))[3])).toEqual([Algorithm.calendarWindow, 5, ...edges]);
  });

  test("name each key and each limit once", () => {
    const batch = new RedisBatch();
    batch.add(groupOf("a", "b"), nobody);
    batch.add(groupOf("b", "a"), nobody);
    const args = batch.encode(0, timesOf(77));
    expect(args.slice(0, 3)).toEqual(["2", "a", "b"]);
    expect(numbersIn(args[3])).toEqual([0]);
    expect(numbersIn(args[4])).toEqual([0, 7, 9, 1, 90, 1, 5, 5, 60, 50]);
    expect(numbersIn(args[5])).toEqual([
      ...[2, 77, 0, 1, 1, 0, 1, 1, 1, 2, 2, 1, 1, 1, 2],
      ...[2, 77, 0, 2, 1, 0, 1, 1, 1, 1, 2, 1, 1, 1, 2],
    ]);
  });

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

  test("hold receipts as groups before the others", () => {
    const batch = new RedisBatch();
    batch.add(groupOf("a"), nobody);
    batch.receipts.push({
      bucketKey: "z",
      limit: perMinute,
      cost: 3,
      paidAtUs: 1_767_225_600_123_456,
      holdId: "",
      sinceUs: 0,
    });
    const args = batch.encode(0, timesOf(0));
    expect(args.slice(0, 3)).toEqual(["2", "a", "z"]);
    expect(numbersIn(args[5])?.slice(0, 12)).toEqual([1, 0, 0, 2, 2, 1_767_225_600_123_456, 0, GIVE_BACK, 3, 1, 0, 0]);
  });

  test("hold bytes above ASCII as they are", () => {
    const batch = new RedisBatch();
    batch.add(groupOf("caf\u00c3\u00a9"), nobody);
    expect(batch.encode(0, timesOf(0))[1]).toBe("caf\u00c3\u00a9");
  });

  test("carry spare quota and an injected time", () => {
    const batch = new RedisBatch();
    const group = groupOf("a");
    group.hasSpareQuota = true;
    batch.add(group, nobody);
    const args = batch.encode(1_767_225_600_000_000, timesOf(0));
    expect(numbersIn(args[2])).toEqual([1_767_225_600_000_000]);
    expect(numbersIn(args[4])?.slice(0, 3)).toEqual([1, 0, 1]);
  });
});

describe("bounds", () => {
  test("a call holds few takes on sliding logs, each of which may hold Redis for as long as many others", () => {
    const log = makeLimit({ algorithm: 3, amount: 5 });
    const batch = new RedisBatch();
    let groups = 0;
    for (; groups < BATCH_WEIGHT_MAX; groups++) {
      const group = new TakeGroup();
      group.add(log).bucketKey = `k${groups}`;
      if (!batch.hasRoomFor(group)) break;
      batch.add(group, nobody);
    }
    expect(groups).toBe(Math.floor(BATCH_WEIGHT_MAX / LOG_WEIGHT));
  });

  test("a batch holds so many takes and not one more", () => {
    const batch = new RedisBatch();
    for (let i = 0; i < BATCH_WEIGHT_MAX; i++) {
      expect(batch.hasRoomFor(groupOf("a"))).toBe(true);
      batch.add(groupOf("a"), nobody);
    }
    expect(batch.hasRoomFor(groupOf("a"))).toBe(false);
  });

  test("long keys fill a batch sooner", () => {
    const batch = new RedisBatch();
    const keyOf = (group: number) => String(group).padStart(1_000, "k");
    let groups = 0;
    while (batch.hasRoomFor(groupOf(keyOf(groups)))) batch.add(groupOf(keyOf(groups++)), nobody);
    expect(groups).toBeLessThanOrEqual(BATCH_BYTES_MAX / 1_000);
    expect(groups).toBeGreaterThan(10);
  });

  test("a long key that many groups share travels once and fills a batch no sooner", () => {
    const batch = new RedisBatch();
    const key = "k".repeat(1_000);
    let groups = 0;
    for (; batch.hasRoomFor(groupOf(key)); groups++) batch.add(groupOf(key), nobody);
    expect(groups).toBe(BATCH_WEIGHT_MAX);
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

  describe("of holds", () => {
    const held = makeLimit({ algorithm: 2, amount: 50, windowSeconds: 60, holdSeconds: 30 });

    function heldGroup(mode: Mode): TakeGroup {
      const group = new TakeGroup();
      Object.assign(group.add(held), { bucketKey: "a", holdId: "r1", mode, stats: new LimitStats() });
      return group;
    }

    test("tell whether a payment opened one, and a peek how many there are", () => {
      const groups = [heldGroup(Mode.pay), heldGroup(Mode.pay), heldGroup(Mode.peek)];
      const batch = batchOf(...groups);
      const reply = [5, 0, 1, 13, 4, 0, 100, 5, 0, 1, 5, 3, 0, 100, 5, 0, 1, 1, 3, 0, 100, 7, 0];
      expect(isReplyTo(batch, reply)).toBe(true);
      const reader = new ReplyReader(reply);
      for (const [i, group] of groups.entries()) reader.writeTo(group, batch.groups[i] as (typeof batch.groups)[0]);
      expect(groups.map(({ takes: [take] }) => [take?.outcome, take?.paid, take?.counted, take?.paidAtUs])).toEqual([
        [1, true, 1, 5],
        [1, true, 0, 5],
        [1, false, 7, 0],
      ]);
    });

    test("tell how many have ended, which count where their take does, or their receipt", () => {
      const group = heldGroup(Mode.pay);
      const batch = batchOf(group);
      const receipt = { limit: held, cost: 1, paidAtUs: 5, holdId: "r2", sinceUs: 0 };
      batch.receipts.push({ ...receipt, bucketKey: "b" });
      batch.encode(0, timesOf(0));
      const reply = [5, 0, 1, 13, 4, 0, 100, 5, 0];
      expect(isReplyTo(batch, [...reply, 1])).toBe(false);
      const places = ["a", "b"].map((key) => [1, 2, 3, 4, 5, 6].find((place) => batch.keyAt(place) === key) ?? 0);
      const told = [...reply, places[0] ?? 0, 2, places[1] ?? 0, 3];
      expect(isReplyTo(batch, told)).toBe(true);
      const reader = new ReplyReader(told);
      reader.writeTo(group, batch.groups[0] as (typeof batch.groups)[0]);
      reader.eachEnded((place, count) => batch.countEnded(place, count));
      expect([group.takes[0]?.stats.holdsExpired, held.stats.holdsExpired]).toEqual([2, 3]);
    });
  });
});
