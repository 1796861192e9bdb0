// The format of snapshots, byte for byte: files that are out there must be read, and say what they are to who can't read them.

import { endianness } from "node:os";
import { crc32 } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { hashKeyInUse, useHashKey } from "../../../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { TakeGroup } from "../../../../src/engine/domain/take.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { FIRST_LINE } from "../../../../src/stores/memory/snapshot/chunks.ts";
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
  makeLimit({ amount: 10, windowSeconds: 86_400, holdSeconds: 60, name: "held" }),
];

/** What version 3 writes of a token bucket that has paid 1, a log that has paid 2, and a bucket with a hold, at the beginning of 2026. */
const VERSION_3 = [
  // the first line
  "686561646761746520736e617073686f74203033206c650a",
  // a chunk with the begin: when, and the key of the hashes
  "2000000018b14d83000000000000f03f00008118211d1943000102030405060708090a0b0c0d0e0f",
  // a chunk: its length and checksum
  "98010000853e80bb",
  // a bucket: its hash, two words, two numbers
  "00000000000000400a7d88153760c3e6210250a6ed32b12bc0da55690000000000008118211d19430000000080842e41",
  // a log: its hash, two words, its payments
  "00000000000008409792f32f5ce54f474989fcde8a75e0c3800a576901000000000000000000000000008118211d19430000000000000040",
  // the bucket with a hold
  "00000000000000405ebbaf6204bc06ba0b0f5d540a15de16401e56690000000000008118211d19430000000060e34641",
  // the bucket with a hold again, and its limit
  "00000000000010405ebbaf6204bc06ba0b0f5d540a15de16401e56690000000000008118211d19430000000060e346410000000000000000",
  "00000000000000000000000000004e40000000000018f5400000000000002440000000000000244000000000000059400000000000000000",
  // how many lows and holds there are, and the lows
  "0000000000000840000000000000f03f000000000000000000000000000000000000000060e34641",
  // the hold, with its id
  "000000000000084000008118211d1943001ccf26211d19430000000000000000000000000000104069642d33000000000000000000000000",
  "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
  // a chunk with the end: how many there were
  "180000000f5296c100000000000018400000000000000040000000000000f03f",
].join("");

function take(store: MemoryStore, costs: readonly number[]): (number | undefined)[] {
  const group = new TakeGroup();
  fillGroup(
    group,
    LIMITS.map((limit, i) => ({ limit, cost: costs[i] as number, holdId: i === 2 ? `id-${costs[i]}` : "" })),
    "",
    false,
  );
  store.take(group);
  return group.takes.map(({ remaining }) => remaining);
}

describe("a snapshot", () => {
  const clock = new ManualClock();

  test("of version 3 is written and read as ever", async () => {
    useHashKey(KEY);
    const store = new MemoryStore({ clock });
    take(store, [1, 2, 3]);
    expect(snapshotOf(store, clock.nowUs()).toString("hex")).toBe(VERSION_3);
    await store.close();

    useHashKey(before);
    const next = new MemoryStore({ clock });
    const read = restore(next, Buffer.from(VERSION_3, "hex"), clock.nowUs());
    expect(read).toMatchObject({ beganAtUs: clock.nowUs(), hashKey: KEY, kept: 3, ended: 0, withoutRoom: 0 });
    expect(take(next, [1, 1, 1])).toEqual([8, 7, 6]);
    await next.close();
  });

  test.each([
    {
      name: "another version",
      line: FIRST_LINE.toString("latin1").replace("03", "04"),
      says: "expected version 3 at byte 18, got 4: another version of Headgate wrote it",
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
    expect(() => restore(store, Buffer.from(line, "latin1"), 0)).toThrow(says);
    await store.close();
  });

  test("with an entry of a kind that is not known is refused: it would be forgotten", async () => {
    const store = new MemoryStore({ clock });
    const bytes = snapshotOf(store, clock.nowUs());
    const begin = bytes.subarray(24, 24 + 8 + 32);
    const unknown = Buffer.alloc(16);
    unknown.writeUInt32LE(8, 0);
    unknown.set(new Uint8Array(Float64Array.of(9).buffer), 8);
    const checksum = crc32(begin.subarray(8), crc32(begin.subarray(0, 4), crc32(FIRST_LINE)));
    unknown.writeUInt32LE(crc32(unknown.subarray(8), crc32(unknown.subarray(0, 4), checksum)), 4);
    const changed = Buffer.concat([FIRST_LINE, begin, unknown]);
    expect(() => restore(store, changed, 0)).toThrow(
      "expected an entry of one of the kinds 1, 2, 3, 4, 5, 6 at byte 72, got 9: another version of Headgate wrote it",
    );
    await store.close();
  });

  test("has less than there was if SLIDING_LOG_BYTES_MAX is smaller, and says how many logs begin anew", async () => {
    const store = new MemoryStore({ clock });
    for (let i = 0; i < 5; i++) {
      const group = new TakeGroup();
      fillGroup(group, [{ limit: LIMITS[1] as (typeof LIMITS)[0], identity: `${i}` }], "", false);
      store.take(group);
    }
    const small = new MemoryStore({ clock, logBytesMax: 3 * 256 });
    const read = restore(small, snapshotOf(store, clock.nowUs()), clock.nowUs());
    expect([read.kept, read.withoutRoom, small.bucketCount]).toEqual([3, 2, 3]);
    await Promise.all([store.close(), small.close()]);
  });
});
