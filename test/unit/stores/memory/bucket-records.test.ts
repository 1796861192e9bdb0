// Records of buckets: keys kept apart by every byte, records freed, used again and walked through.

import { describe, expect, test } from "vitest";
import { LogState } from "../../../../src/algorithms/log-state.ts";
import { BucketState } from "../../../../src/algorithms/step.ts";
import { keyedOf } from "../../../../src/core/key-bytes.ts";
import { BucketRecords } from "../../../../src/stores/memory/bucket-records.ts";

function stateOf(used: number): BucketState {
  return Object.assign(new BucketState(), { used, atUs: used * 2, previous: 0xffff_ffff - (used % 5) });
}

/** Every address on the way from `from` until it comes back to where it was first. */
function walk(records: BucketRecords): number[] {
  const found: number[] = [];
  for (let at = records.next(0); !found.includes(at); at = records.next(at)) found.push(at);
  return found;
}

describe("bucket records", () => {
  test("tell keys apart by every byte and by their length", () => {
    const records = new BucketRecords();
    const address = records.add(keyedOf("{edge|user=\xff}"));
    expect(records.hasKey(address, keyedOf("{edge|user=\xff}"))).toBe(true);
    const others = [
      "{edge|user=\xfe}",
      "{Edge|user=\xff}",
      "[edge|user=\xff}",
      "{edge|user=\xff}\0",
      "{edge|user=\xff",
    ];
    expect(others.filter((other) => records.hasKey(address, keyedOf(other)))).toEqual([]);
  });

  test("keep keys and numbers of many lengths while others come and go", () => {
    const records = new BucketRecords();
    const textOf = (i: number) => `${i}:${"x".repeat((i * 37) % 3_000)}`;
    const addresses = new Map<number, number>();
    const add = (i: number) => {
      const address = records.add(keyedOf(textOf(i)));
      records.write(address, stateOf(i), i + 1);
      addresses.set(i, address);
    };
    for (let i = 0; i < 3_000; i++) add(i);
    for (let i = 0; i < 3_000; i += 2) {
      records.drop(addresses.get(i) ?? 0);
      addresses.delete(i);
    }
    for (let i = 3_000; i < 5_000; i++) add(i);
    expect(new Set(addresses.values()).size).toBe(addresses.size);
    expect(records.count).toBe(addresses.size);
    const read = new BucketState();
    const wrong = [...addresses].filter(([i, address]) => {
      records.read(address, read);
      const { used, atUs, previous } = stateOf(i);
      const isSame = read.used === used && read.atUs === atUs && read.previous === previous;
      return !isSame || records.expiresS(address) !== i + 1 || !records.hasKey(address, keyedOf(textOf(i)));
    });
    expect(wrong).toEqual([]);
  });

  test("use a freed record again, for keys of its size", () => {
    const records = new BucketRecords();
    const first = records.add(keyedOf("aaaa"));
    const second = records.add(keyedOf("bbbb"));
    records.drop(first);
    records.drop(second);
    expect(records.add(keyedOf("c".repeat(100)))).not.toBe(first);
    expect([records.add(keyedOf("cccc")), records.add(keyedOf("ddddd"))]).toEqual([second, first]);
  });

  test("take keys of any length that a request can have", () => {
    const records = new BucketRecords();
    const lengths = [0, 1, 7, 8, 95, 96, 97, 255, 256, 257, 2_047, 65_537, 100_000];
    const addresses = lengths.map((length) => records.add(keyedOf("k".repeat(length))));
    expect(lengths.filter((n, i) => !records.hasKey(addresses[i] ?? 0, keyedOf("k".repeat(n))))).toEqual([]);
    for (const address of addresses) records.drop(address);
    const again = lengths.map((length) => records.add(keyedOf("j".repeat(length))));
    expect(again.sort((a, b) => a - b)).toEqual(addresses);
  });

  test("are walked through one after another, free ones too, over the end of a block and back to the first", () => {
    const records = new BucketRecords();
    // Keys of 100,000 bytes: some forty of them fill a block.
    const added = Array.from({ length: 100 }, (_, i) => records.add(keyedOf(`${i}`.padEnd(100_000, "k"))));
    for (const address of added.slice(0, 50)) records.drop(address);
    expect(walk(records)).toEqual(added);
    expect(records.made).toBe(100);
    expect(added.map((address) => records.expiresS(address) === 0)).toEqual(added.map((_, i) => i < 50));
  });

  test("hold logs beside the numbers, until numbers take their place", () => {
    const records = new BucketRecords();
    const logs = Array.from({ length: 5_000 }, () => new LogState());
    const addresses = logs.map((log, i) => {
      const address = records.add(keyedOf(`log-${i}`));
      records.writeLog(address, log, 9);
      return address;
    });
    expect(addresses.every((address, i) => records.logOf(address) === logs[i])).toBe(true);
    const [first = 0, second = 0, third = 0] = addresses;
    records.write(first, stateOf(3), 9);
    records.drop(second);
    const again = records.add(keyedOf("log-1"));
    const replaced = new LogState();
    records.writeLog(third, replaced, 9);
    expect([first, again].map((address) => records.logOf(address))).toEqual([undefined, undefined]);
    expect(records.logOf(third)).toBe(replaced);
  });
});
