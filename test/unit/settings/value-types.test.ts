// How the text of a variable becomes a value.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  durationUs,
  HOST_NAME,
  oneOf,
  parseGoDuration,
  showDuration,
} from "../../../src/process/settings/value-types.ts";

describe("durations", () => {
  test.each([
    { text: "10s", us: 10_000_000 },
    { text: "150us", us: 150 },
    { text: "150µs", us: 150 },
    { text: "1h30m", us: 5_400_000_000 },
    { text: "1.5s", us: 1_500_000 },
    { text: ".5s", us: 500_000 },
    { text: "0.1ms", us: 100 },
    { text: "1ns", us: 1 },
    { text: "0", us: 0 },
    { text: "+2m", us: 120_000_000 },
    { text: "", us: undefined },
    { text: "10", us: undefined },
    { text: "-1s", us: undefined },
    { text: "1d", us: undefined },
    { text: "1 s", us: undefined },
    { text: "s", us: undefined },
    { text: "1s1", us: undefined },
    { text: ".s", us: undefined },
  ])("$text is $us microseconds", ({ text, us }) => {
    expect(parseGoDuration(text)).toBe(us);
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

  test("are rounded up to milliseconds where that is the unit", () => {
    expect(durationMs(0, 1_000).parse("150us")).toBe(1);
    expect(durationMs(0, 1_000).parse("2ms")).toBe(2);
  });

  test("stay within their bounds", () => {
    const type = durationUs(100, 1_000);
    expect(["99us", "100us", "1ms", "1001us"].map((text) => type.parse(text))).toEqual([
      undefined,
      100,
      1_000,
      undefined,
    ]);
  });
});

test("booleans are those of Go", () => {
  expect(["1", "t", "True", "0", "F", "false", "yes", "tRUE"].map((text) => BOOLEAN.parse(text))).toEqual([
    true,
    true,
    true,
    false,
    false,
    false,
    undefined,
    undefined,
  ]);
});

test("numbers have no exponent and no sign", () => {
  const type = decimalNumber(0, 1);
  expect(["0.8", ".5", "1.", "1e-1", "-0", "1.1", ".", "0x1"].map((text) => type.parse(text))).toEqual([
    0.8,
    0.5,
    1,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test("words are found in any case and under other names", () => {
  const type = oneOf(["warn", "info"], { warning: "warn" });
  expect(["WARN", "Warning", "info", "loud"].map((text) => type.parse(text))).toEqual([
    "warn",
    "warn",
    "info",
    undefined,
  ]);
});

test("hosts have no port", () => {
  expect(["0.0.0.0", "::", "fe80::1%eth0", "a.example", "a:80", "a b"].map((text) => HOST_NAME.parse(text))).toEqual([
    "0.0.0.0",
    "::",
    "fe80::1%eth0",
    "a.example",
    undefined,
    undefined,
  ]);
});
