// Hash slots as Redis Cluster counts them.

import { expect, test } from "vitest";
import { keySlot } from "../../../../src/stores/redis/cluster-tags.ts";

test.each([
  { name: "the specification's check text", key: "123456789", slot: 0x31c3 },
  { name: "an empty key", key: "", slot: 0 },
  { name: "a word", key: "foo", slot: 12_182 },
  { name: "a hash tag", key: "bar{foo}baz", slot: 12_182 },
  { name: "the first hash tag of two", key: "{foo}{bar}", slot: 12_182 },
])("the slot of $name", ({ key, slot }) => {
  expect(keySlot(key)).toBe(slot);
});

test("empty braces and braces that stay open are no hash tag", () => {
  expect(keySlot("foo{}{bar}")).not.toBe(keySlot("bar"));
  expect(keySlot("{foo")).not.toBe(keySlot("foo"));
});
