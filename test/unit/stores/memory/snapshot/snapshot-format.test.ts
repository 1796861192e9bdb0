// The format of snapshots, byte for byte: files that are out there must be read, and say what they are to who can't read them.

import { endianness } from "node:os";
import { afterEach, describe, expect, test } from "vitest";
import { hashKeyInUse, useHashKey } from "../../../../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../../../../src/engine/domain/limit.ts";
import { TakeGroup } from "../../../../../src/engine/domain/take.ts";
import { MemoryStore } from "../../../../../src/stores/memory/memory-store.ts";
import { fillGroup } from "../../../../contract/store-harness.ts";
import { makeLimit } from "../../../../support/builders.ts";
import { ManualClock } from "../../../../support/manual-clock.ts";
import { entriesIn, restore, sealed, snapshotOf } from "../../../../support/snapshot-bytes.ts";

const before = hashKeyInUse();
afterEach(() => useHashKey(before));

const KEY = Buffer.from("000102030405060708090a0b0c0d0e0f", "hex");
const LIMITS = [
  makeLimit({ amount: 10, windowSeconds: 86_400 }),
  makeLimit({ algorithm: Algorithm.slidingLog, amount: 10, windowSeconds: 86_400 }),
  makeLimit({ amount: 10, windowSeconds: 86_400, holdSeconds: 60, name: "held" }),
];

/** What version 5 writes of a token bucket that has paid 1, a log that has paid 2, and a bucket with a hold, at the beginning of 2026. */
const AT_US = 1_767_225_600_000_000;
const HELD = [1_655_683_934, 3_121_003_524, 1_415_384_843, 383_653_130, 1_767_251_520, AT_US, 3_000_000, 0];
const VERSION_5 = [
  // the begin: when, and the key of the hashes
  [1, AT_US, ...KEY],
  // a bucket: its hash, when it expires, its state
  [2, 361_266_442, 3_871_563_831, 2_790_261_281, 733_033_197, 1_767_234_240, AT_US, 1_000_000, 0],
  // a log: its hash, when it expires, its payments
  [3, 804_491_927, 1_196_418_396, 3_741_092_169, 3_286_267_274, 1_767_312_000, 0, AT_US, 2],
  // the bucket with a hold
  [2, ...HELD],
  // the bucket with a hold again, its limit, its lows, and the hold with its id
  [4, ...HELD, 0, 0, 60, 86_400, 10, 10, 100, 0, 3, 0, 0, 3_000_000, 3, AT_US, AT_US + 60_000_000, 0, 4, 0x332d_6469],
];

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

  test("of version 5 keeps its format", async () => {
    useHashKey(KEY);
    const store = new MemoryStore({ clock });
    take(store, [1, 2, 3]);
    const bytes = await sealed(snapshotOf(store, clock.nowUs()));
    expect(await entriesIn(bytes)).toEqual(VERSION_5);
    expect(bytes.toString("latin1", 0, 24)).toBe(`headgate snapshot 05 ${endianness().toLowerCase()}\n`);
    await store.close();

    useHashKey(before);
    const next = new MemoryStore({ clock });
    const read = await restore(next, await sealed(VERSION_5), clock.nowUs());
    expect(read).toMatchObject({ beganAtUs: clock.nowUs(), hashKey: KEY, kept: 3, ended: 0, withoutRoom: 0 });
    expect(take(next, [1, 1, 1])).toEqual([8, 7, 6]);
    await next.close();
  });

  test.each([
    { name: "an older version", bytes: "headgate snapshot 04 le\n", says: "another version of Headgate" },
    { name: "a machine of another byte order", bytes: "headgate snapshot 05 xe\n", says: "another kind of machine" },
    { name: "something else", bytes: "REDIS0011\xfa\tredis-ver\x057.0.15", says: 'got "REDIS0011' },
    { name: "nothing", bytes: "", says: 'got ""' },
  ])("of $name is refused with what it is", async ({ bytes, says }) => {
    const store = new MemoryStore({ clock });
    await expect(restore(store, Buffer.from(bytes, "latin1"), 0)).rejects.toThrow(says);
    await store.close();
  });

  test("has less than there was if logs get less room, and says how many logs begin again", async () => {
    const store = new MemoryStore({ clock });
    for (let i = 0; i < 5; i++) {
      const group = new TakeGroup();
      fillGroup(group, [{ limit: LIMITS[1] as (typeof LIMITS)[0], identity: `${i}` }], "", false);
      store.take(group);
    }
    const small = new MemoryStore({ clock, logBytesMax: 3 * 256 });
    const read = await restore(small, await sealed(snapshotOf(store, clock.nowUs())), clock.nowUs());
    expect([read.kept, read.withoutRoom, small.bucketCount]).toEqual([3, 2, 3]);
    await Promise.all([store.close(), small.close()]);
  });
});
