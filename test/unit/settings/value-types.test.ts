// How the text of a variable becomes a value.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  durationUs,
  HOST_NAME,
  HOST_PATTERNS,
  oneOf,
  parseGoDuration,
  type SettingType,
  showDuration,
} from "../../../src/settings/value-types.ts";

describe("durations", () => {
  test.each<[string, number]>([
    ["150\u00b5s", 150],
    ["1h30m", 5_400_000_000],
    [".5s", 500_000],
    ["1ns", 1],
    ["0", 0],
    ["+2m", 120_000_000],
  ])("%s is %d microseconds", (text, us) => {
    expect(parseGoDuration(text)).toBe(us);
  });

  test.each(["", "10", "-1s", "1d", "1 s", "s", "1s1", ".s"])("'%s' is none", (text) => {
    expect(parseGoDuration(text)).toBeUndefined();
  });

  const TEN_YEARS_US = 315_360_000_000_000;
  const anyUs = fc.oneof(fc.integer({ min: 0, max: 10 ** 7 }), fc.integer({ min: 0, max: TEN_YEARS_US }));

  test("read back as they are shown", () => {
    fc.assert(
      fc.property(anyUs, (us) => {
        expect(parseGoDuration(showDuration(us))).toBe(us);
      }),
    );
  });

  test("are exact to the microsecond in every unit, and less than one is rounded up", () => {
    const decimal = (us: number, digits: number) => {
      const text = String(us).padStart(digits + 1, "0");
      return `${text.slice(0, -digits)}.${text.slice(-digits)}`;
    };
    fc.assert(
      fc.property(anyUs, (us) => {
        for (const text of [`${us}us`, `${decimal(us, 3)}ms`, `${decimal(us, 6)}s`, `0.5m${us}us`]) {
          const more = text.startsWith("0.5m") ? 30_000_000 : 0;
          expect(parseGoDuration(text)).toBe(us + more);
          expect(parseGoDuration(`${text}0.001ns`)).toBe(us + more + 1);
        }
      }),
    );
  });
});

const WORDS = oneOf(["warn", "info"], { warning: "warn" });

test.each<readonly [string, SettingType<unknown>, Readonly<Record<string, unknown>>]>([
  ["booleans are those of Go", BOOLEAN, { 1: true, t: true, True: true, 0: false, F: false, false: false }],
  ["booleans are no other words", BOOLEAN, { yes: undefined, tRUE: undefined }],
  [
    "numbers have a point at most",
    decimalNumber(0, 1),
    { "0.8": 0.8, ".5": 0.5, "1.": 1, ".": undefined, "1.1": undefined },
  ],
  [
    "numbers have no exponent and no sign",
    decimalNumber(0, 1),
    { "1e-1": undefined, "-0": undefined, "0x1": undefined },
  ],
  [
    "words are found in any case and under other names",
    WORDS,
    { WARN: "warn", Warning: "warn", info: "info", loud: undefined },
  ],
  [
    "hosts are names and addresses",
    HOST_NAME,
    { "0.0.0.0": "0.0.0.0", "::": "::", "fe80::1%eth0": "fe80::1%eth0", "a.b": "a.b" },
  ],
  ["hosts have no port", HOST_NAME, { "a:80": undefined, "a b": undefined }],
  [
    "names of hosts are compared without case and last dot",
    HOST_PATTERNS,
    {
      "Limits.Example.com., *.NET.": ["limits.example.com", "*.net"],
      "*.": undefined,
      ".": undefined,
      "a:80": undefined,
    },
  ],
  [
    "durations stay within their bounds",
    durationUs(100, 1_000),
    { "99us": undefined, "100us": 100, "1ms": 1_000, "1001us": undefined },
  ],
  ["durations are rounded up to milliseconds where that is the unit", durationMs(0, 1_000), { "150us": 1, "2ms": 2 }],
])("%s", (_, type, values) => {
  for (const [text, value] of Object.entries(values)) expect([text, type.parse(text)]).toEqual([text, value]);
});
