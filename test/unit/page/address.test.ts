// The address of what the operator's page shows.

import fc from "fast-check";
import { expect, test } from "vitest";
import { hrefOf, viewOf } from "../../../page/address.mjs";

const NONE = viewOf("");

test("an address is read as the view that it was written of, whatever callers send", () => {
  const text = fc.string({ unit: "grapheme" });
  const view = fc.record(Object.fromEntries(Object.keys(NONE).map((name) => [name, text]))) as fc.Arbitrary<
    typeof NONE
  >;
  fc.assert(
    fc.property(view, (shown) => {
      const href = hrefOf(shown);
      expect(viewOf(href)).toEqual(shown);
      expect(href).toMatch(/^#[\x21-\x7e]*$/);
    }),
  );
});

test("it has only what is not empty, and nothing else is read", () => {
  expect(hrefOf(NONE, { rule: "edge/user" })).toBe("#rule=edge%2Fuser");
  expect(new Set(Object.values(NONE))).toEqual(new Set([""]));
  expect(viewOf("#token=secret&find=acme")).toEqual({ ...NONE, find: "acme" });
});
