// The small hash tables: found again after any mix of adding and removing, also around the table's end.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Keyed, keyedOf } from "../../../../src/core/key-bytes.ts";
import { BucketRecords } from "../../../../src/stores/memory/bucket-records.ts";
import { KeyTable } from "../../../../src/stores/memory/key-table.ts";
import { runs } from "../../../support/runs.ts";

/** Hashes whose home slots crowd the last and the first slots of a table of any capacity. */
const HASHES = [0xffff_ffff, 0xf800_0000, 0xf000_0000, 0xe800_0000, 0, 0x0800_0000, 0x1000_0000] as const;

function keyed(text: string, hash: number): Keyed {
  const made = keyedOf(text);
  made.keyHash = hash;
  return made;
}

describe("key table", () => {
  test("finds every key that is there and no other", () => {
    const change = fc.record({ key: fc.nat({ max: 40 }), isRemoved: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const records = new BucketRecords();
        const table = new KeyTable(records);
        const known = new Map<number, number>();
        const hashOf = (key: number) => HASHES[key % HASHES.length] ?? 0;
        for (const { key, isRemoved } of changes) {
          const address = known.get(key);
          if (isRemoved && address !== undefined) {
            table.remove(hashOf(key), address);
            records.drop(address);
            known.delete(key);
          } else if (!isRemoved && address === undefined) {
            expect(table.makeRoom(hashOf(key))).toBe(true);
            const added = records.add(keyed(`key-${key}`, hashOf(key)));
            table.add(hashOf(key), added);
            known.set(key, added);
          }
        }
        const found = Array.from({ length: 41 }, (_, key) => table.find(keyed(`key-${key}`, hashOf(key))));
        expect(found).toEqual(Array.from({ length: 41 }, (_, key) => known.get(key) ?? 0));
        expect(table.count).toBe(known.size);
      }),
      { numRuns: runs(300) },
    );
  });

  test("shrinks when most of its keys have gone", () => {
    const records = new BucketRecords();
    const table = new KeyTable(records);
    const added = Array.from({ length: 2_000 }, (_, i) => {
      const hash = Math.imul(i, 0x9e3779b1) >>> 0;
      expect(table.makeRoom(hash)).toBe(true);
      const address = records.add(keyed(`key-${i}`, hash));
      table.add(hash, address);
      return { hash, address };
    });
    const grown = table.capacity;
    for (const { hash, address } of added.slice(10)) table.remove(hash, address);
    expect(grown).toBeGreaterThan(2_000);
    expect(table.capacity).toBeLessThanOrEqual(64);
    expect(added.slice(0, 10).map(({ hash }, i) => table.find(keyed(`key-${i}`, hash)))).toEqual(
      added.slice(0, 10).map(({ address }) => address),
    );
  });
});
