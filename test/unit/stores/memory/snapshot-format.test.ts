// The format of snapshots, byte for byte: files that are out there must be read, and say what they are to who can't read them.

import { endianness } from "node:os";
import { afterEach, describe, expect, test } from "vitest";
import { hashKeyInUse, useHashKey } from "../../../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { readHoldText } from "../../../../src/stores/memory/snapshot/hold-text.ts";
import { FIRST_LINE, RunningChecksum } from "../../../../src/stores/memory/snapshot/sections.ts";
import { fillGroup } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { restore, snapshotOf } from "../../../support/snapshot-bytes.ts";

const before = hashKeyInUse();
afterEach(() => useHashKey(before));

const KEY = Buffer.from("000102030405060708090a0b0c0d0e0f", "hex");
const LIMITS = [
  makeLimit({ amount: 10, windowSeconds: 86_400 }),
  makeLimit({ algorithm: Algorithm.slidingLog, amount: 10, windowSeconds: 86_400 }),
];

/** What version 1 writes of a token bucket that has paid 1 and a log that has paid 2, at the beginning of 2026. */
const VERSION_2 = [
  // the first line
  "686561646761746520736e617073686f74203032206c650a",
  // HEAD: when, and the key
  "48454144180000006dfc5c4e0000000000008118211d1943000102030405060708090a0b0c0d0e0f",
  // NUMS: a record
  "4e554d5328000000552add2e0000000000008118211d19430000000080842e4100000000c0da55690a7d88153760c3e6210250a6ed32b12b",
  // LOGS: a record; the sum before the payment, its time, its sum
  "4c4f475340000000d1311e2f00000000000000000000f03f000000000000f0bf00000000800a57699792f32f5ce54f474989fcde8a75e0c30000000000000000",
  "00008118211d19430000000000000040",
  // DONE: how many
  "444f4e45100000002cf460f000000000000000000000f03f000000000000f03f",
].join("");

function take(store: MemoryStore, costs: readonly number[]): (number | undefined)[] {
  const group = new TakeGroup();
  fillGroup(
    group,
    LIMITS.map((limit, i) => ({ limit, cost: costs[i] as number })),
    "",
    false,
  );
  store.take(group);
  return group.takes.map(({ remaining }) => remaining);
}

describe("a snapshot", () => {
  const clock = new ManualClock();

  test("of version 2 is written and read as ever", async () => {
    useHashKey(KEY);
    const store = new MemoryStore({ clock });
    take(store, [1, 2]);
    expect(snapshotOf(store, clock.nowUs()).toString("hex")).toBe(VERSION_2);
    await store.close();

    useHashKey(before);
    const next = new MemoryStore({ clock });
    const read = await restore(next, Buffer.from(VERSION_2, "hex"), clock.nowUs());
    expect(read).toMatchObject({ beganAtUs: clock.nowUs(), hashKey: KEY, kept: 2, ended: 0, withoutRoom: 0 });
    useHashKey(read.hashKey);
    expect(take(next, [1, 1])).toEqual([8, 7]);
    await next.close();
  });

  test.each([
    {
      name: "another version",
      line: FIRST_LINE.toString("latin1").replace("02", "03"),
      says: "expected version 2 at byte 18, got 3: another version of Headgate wrote it",
    },
    {
      name: "a machine of the other byte order",
      line: FIRST_LINE.toString("latin1").replace(/le|be/, endianness() === "LE" ? "be" : "le"),
      says: "expected numbers in this machine's order at byte 18",
    },
    { name: "something else", line: "REDIS0011\xfa\tredis-ver\x057.0.15", says: 'got "REDIS0011' },
    { name: "nothing", line: "", says: 'got ""' },
  ])("of $name is refused with what it is", async ({ line, says }) => {
    const store = new MemoryStore({ clock });
    await expect(restore(store, Buffer.from(line, "latin1"), 0)).rejects.toThrow(says);
    await store.close();
  });

  test("with a section of a type that is not known is refused: it would be forgotten", async () => {
    const store = new MemoryStore({ clock });
    const bytes = snapshotOf(store, clock.nowUs());
    const later = Buffer.alloc(16);
    later.write("WHAT", "latin1");
    const checksum = new RunningChecksum();
    checksum.add(bytes.subarray(24, 64));
    later.writeInt32LE(checksum.add(later) | 0, 8);
    const changed = Buffer.concat([bytes.subarray(0, 64), later, bytes.subarray(64)]);
    await expect(restore(store, changed, 0)).rejects.toThrow(
      "expected one of the sections HEAD, NUMS, LOGS, HOLD, DONE at byte 64, got WHAT: another version of Headgate wrote it",
    );
    await store.close();
  });

  const hold = { key: "k", limit: [0, 1, 1, 1, 1, 1, 0] };
  test.each([
    "",
    "null",
    "[]",
    "{",
    '{"settled":{}}',
    '{"settled":[["name","1"]]}',
    '{"settled":[["name",-1]]}',
    '{"buckets":[{}]}',
    JSON.stringify({ buckets: [{ ...hold, limit: [0, 1, 1, 1, 1, 1], holds: [] }] }),
    JSON.stringify({ buckets: [{ ...hold, holds: [["a", 1, 2]] }] }),
    JSON.stringify({
      buckets: [{ ...hold, holds: [["a", 0.5, 2, 3]] }],
    }),
    JSON.stringify({ buckets: [{ ...hold, holds: [], record: [1] }] }),
    JSON.stringify({
      buckets: [{ ...hold, limit: [0, 1, 1, 0, 1, 1, 0], holds: [] }],
    }),
  ])("says of no other text that it is holds: %s", (text) => {
    expect(readHoldText(text)).toBeUndefined();
  });

  test("has less than there was if SLIDING_LOG_BYTES_MAX is smaller, and says how many logs begin anew", async () => {
    const store = new MemoryStore({ clock });
    for (let i = 0; i < 5; i++) {
      const group = new TakeGroup();
      fillGroup(group, [{ limit: LIMITS[1] as (typeof LIMITS)[0], identity: `${i}` }], "", false);
      store.take(group);
    }
    const small = new MemoryStore({ clock, logBytesMax: 3 * 256 });
    const read = await restore(small, snapshotOf(store, clock.nowUs()), clock.nowUs());
    expect([read.kept, read.withoutRoom, small.bucketCount]).toEqual([3, 2, 3]);
    await Promise.all([store.close(), small.close()]);
  });
});
