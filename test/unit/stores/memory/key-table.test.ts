// The small hash tables: found again after any mix of adding and removing, also around the table's end.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BucketEntries } from "../../../../src/stores/memory/bucket-entries.ts";
import { KeyTable } from "../../../../src/stores/memory/key-table.ts";

/** Hashes whose home slots crowd the last and the first slots of a table of any capacity. */
const HASHES = [0xffff_ffff, 0xf800_0000, 0xf000_0000, 0xe800_0000, 0, 0x0800_0000, 0x1000_0000] as const;

describe("key table", () => {
  test("finds every key that is there and no other", () => {
    const change = fc.record({ key: fc.nat({ max: 40 }), isRemoved: fc.boolean() });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
        const entries = new BucketEntries();
        const table = new KeyTable(entries);
        const known = new Map<number, number>();
        const hashOf = (key: number) => HASHES[key % HASHES.length] ?? 0;
        for (const { key, isRemoved } of changes) {
          const entry = known.get(key);
          if (isRemoved && entry !== undefined) {
            table.remove(hashOf(key), entry);
            entries.drop(entry);
            known.delete(key);
          } else if (!isRemoved && entry === undefined) {
            expect(table.makeRoom(hashOf(key))).toBe(true);
            const added = entries.add(hashOf(key), `key-${key}`);
            table.add(hashOf(key), added);
            known.set(key, added);
          }
        }
        const found = Array.from({ length: 41 }, (_, key) => table.find(hashOf(key), `key-${key}`));
        expect(found).toEqual(Array.from({ length: 41 }, (_, key) => known.get(key) ?? -1));
        expect(table.count).toBe(known.size);
      }),
      { numRuns: 300 },
    );
  });

  test("shrinks when most of its keys have gone", () => {
    const entries = new BucketEntries();
    const table = new KeyTable(entries);
    const added = Array.from({ length: 2_000 }, (_, i) => {
      const hash = Math.imul(i, 0x9e3779b1) >>> 0;
      expect(table.makeRoom(hash)).toBe(true);
      const entry = entries.add(hash, `key-${i}`);
      table.add(hash, entry);
      return { hash, entry };
    });
    const grown = table.capacity;
    for (const { hash, entry } of added.slice(10)) table.remove(hash, entry);
    expect(grown).toBeGreaterThan(2_000);
    expect(table.capacity).toBeLessThanOrEqual(64);
    expect(added.slice(0, 10).map(({ hash }, i) => table.find(hash, `key-${i}`))).toEqual(
      added.slice(0, 10).map(({ entry }) => entry),
    );
  });
});
