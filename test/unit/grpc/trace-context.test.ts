// traceparent headers: the examples and the rules of W3C Trace Context, and drawn texts against the grammar said another way.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readTraceparent } from "../../../src/grpc/trace-context.ts";
import { runs } from "../../support/runs.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

test.each([
  { name: "sampled", text: `00-${TRACE}-${SPAN}-01`, isSampled: true },
  { name: "not sampled", text: `00-${TRACE}-${SPAN}-00`, isSampled: false },
  { name: "with flags of later levels", text: `00-${TRACE}-${SPAN}-03`, isSampled: true },
  { name: "with flags that are unknown", text: `00-${TRACE}-${SPAN}-fe`, isSampled: false },
  { name: "of a later version", text: `cc-${TRACE}-${SPAN}-01`, isSampled: true },
  { name: "of a later version that says more", text: `cc-${TRACE}-${SPAN}-01-what-the-future-brings`, isSampled: true },
])("reads one $name", ({ text, isSampled }) => {
  expect(readTraceparent(text)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled });
});

describe("whatever is sent", () => {
  const hex = (length: number) =>
    fc.bigInt({ min: 0n, max: 16n ** BigInt(length) - 1n }).map((number) => number.toString(16).padStart(length, "0"));
  const good = fc
    .tuple(fc.oneof(fc.constant("00"), hex(2)), hex(32), hex(16), hex(2), fc.constantFrom("", "-", "-x", "x", "\n"))
    .map(([version, trace, span, flags, rest]) => `${[version, trace, span, flags].join("-")}${rest}`);
  const zeros = fc
    .tuple(fc.constantFrom(TRACE, "0".repeat(32)), fc.constantFrom(SPAN, "0".repeat(16)))
    .map(([trace, span]) => `00-${trace}-${span}-01`);
  // One character of a good one is another, is gone, or comes twice.
  const nearlyGood = fc
    .tuple(good, fc.nat(60), fc.constantFrom("", "-", "0", "A", "g", " ", "\u00e9", "\u0000", "00"))
    .map(([text, at, put]) => text.slice(0, at) + put + text.slice(at + 1));
  const texts = fc.oneof(good, zeros, nearlyGood, fc.string({ unit: "binary" }));

  // Promise(traces): A traceparent is read if W3C's grammar has it, and ignored otherwise.
  test("is read if the grammar has it, and ignored otherwise", () => {
    fc.assert(
      fc.property(texts, (text) => {
        expect(readTraceparent(text) !== undefined).toBe(isInGrammar(text));
      }),
      { numRuns: runs(5_000) },
    );
  });

  test("costs the same, however long it is", () => {
    const long = `00-${TRACE}-${SPAN}-01${"-0".repeat(32_768)}`;
    expect(readTraceparent(long)).toBeUndefined();
    expect(readTraceparent(`01${long.slice(2)}`)).toEqual({ traceId: TRACE, spanId: SPAN, isSampled: true });
  });
});

test("what is read keeps nothing else of a long header in memory", () => {
  setFlagsFromString("--expose_gc");
  const collect = runInNewContext("gc") as () => void;
  const heldBytes = () => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const length = 65_536;
  const before = heldBytes();
  const read = Array.from({ length: 500 }, (_, i) =>
    readTraceparent(Buffer.alloc(length, `01-${TRACE}-${SPAN}-01-${i}-`).toString("latin1")),
  );
  expect(heldBytes() - before).toBeLessThan((500 * length) / 4);
  expect(read.filter((context) => context?.traceId === TRACE)).toHaveLength(500);
});

// The grammar of the standard, field by field: by lengths and characters, where the code has one pattern.
function isInGrammar(text: string): boolean {
  const [version = "", trace = "", span = "", flags = "", ...more] = text.split("-");
  const isHex = (part: string, length: number) =>
    part.length === length && [...part].every((char) => "0123456789abcdef".includes(char));
  if (!isHex(version, 2) || !isHex(trace, 32) || !isHex(span, 16) || !isHex(flags, 2)) return false;
  if (version === "ff" || BigInt(`0x${trace}`) === 0n || BigInt(`0x${span}`) === 0n) return false;
  return version !== "00" || more.length === 0;
}
