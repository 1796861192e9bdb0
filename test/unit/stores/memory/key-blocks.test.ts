// Bytes of keys: kept apart, freed, used again.

import { describe, expect, test } from "vitest";
import { KeyBlocks } from "../../../../src/stores/memory/key-blocks.ts";

describe("key blocks", () => {
  test("tells keys apart by every byte", () => {
    const keys = new KeyBlocks();
    const address = keys.put("{edge|user=\xff}");
    expect(keys.equals(address, "{edge|user=\xff}")).toBe(true);
    expect(keys.equals(address, "{edge|user=\xfe}")).toBe(false);
    expect(keys.equals(address, "{Edge|user=\xff}")).toBe(false);
    expect(keys.equals(address, "[edge|user=\xff}")).toBe(false);
  });

  test("keeps many keys of many lengths, and gives freed places to keys of their size only", () => {
    const keys = new KeyBlocks();
    const textOf = (i: number) => `${i}:${"x".repeat((i * 37) % 3_000)}`;
    const addresses = new Map<number, number>();
    for (let i = 0; i < 2_000; i++) addresses.set(i, keys.put(textOf(i)));
    for (let i = 0; i < 2_000; i += 2) {
      keys.free(addresses.get(i) ?? -1, textOf(i).length);
      addresses.delete(i);
    }
    for (let i = 2_000; i < 4_000; i++) addresses.set(i, keys.put(textOf(i)));
    expect(new Set(addresses.values()).size).toBe(addresses.size);
    expect([...addresses].filter(([i, address]) => !keys.equals(address, textOf(i)))).toEqual([]);
  });

  test("uses a freed place again", () => {
    const keys = new KeyBlocks();
    const first = keys.put("aaaa");
    const second = keys.put("bbbb");
    keys.free(first, 4);
    keys.free(second, 4);
    expect([keys.put("cccc"), keys.put("dddd")]).toEqual([second, first]);
  });

  test("uses the block of a freed long key again", () => {
    const keys = new KeyBlocks();
    const address = keys.put("k".repeat(100_000));
    expect(keys.equals(address, "k".repeat(100_000))).toBe(true);
    keys.free(address, 100_000);
    expect(keys.put("j".repeat(70_000))).toBe(address);
  });
});
