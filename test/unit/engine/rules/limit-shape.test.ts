// Rates and windows as written become whole numbers, exactly or not at all.

import { describe, expect, test } from "vitest";
import { AMOUNT_MAX } from "../../../../src/base/units.ts";
import { UNIT_NAMES, WINDOW_SECONDS_MAX } from "../../../../src/engine/domain/limit.ts";
import { parseWindow, rateOfDecimal } from "../../../../src/engine/rules/limit-shape.ts";

describe("rates in decimal", () => {
  test.each([
    { text: "10", amount: 10, windowSeconds: 1, unit: "second" },
    { text: "0.5", amount: 30, windowSeconds: 60, unit: "minute" },
    { text: "2.25", amount: 135, windowSeconds: 60, unit: "minute" },
    { text: "0.01", amount: 36, windowSeconds: 3600, unit: "hour" },
    { text: "0.0625", amount: 225, windowSeconds: 3600, unit: "hour" },
    { text: "0.03125", amount: 2700, windowSeconds: 86400, unit: "day" },
    { text: "0.001", amount: 1, windowSeconds: 1000, unit: "unknown" },
    { text: "1e2", amount: 100, windowSeconds: 1, unit: "second" },
    { text: ".1", amount: 6, windowSeconds: 60, unit: "minute" },
    { text: "1_000.5", amount: 60030, windowSeconds: 60, unit: "minute" },
    { text: "4294967295", amount: AMOUNT_MAX, windowSeconds: 1, unit: "second" },
  ])("$text per second is $amount per $windowSeconds s", ({ text, amount, windowSeconds, unit }) => {
    expect(rateOfDecimal(text)).toEqual({
      amount,
      windowSeconds,
      unit: (UNIT_NAMES as readonly string[]).indexOf(unit),
      keySeconds: 1,
    });
  });

  test.each(["", "0", "0.0", "-1", "x", "1e999", "0.00000001", "4294967296", "4294967295.5", ".", "1.2.3"])(
    "'%s' is no rate",
    (text) => {
      expect(rateOfDecimal(text)).toBeTypeOf("string");
    },
  );
});

describe("windows", () => {
  test.each([
    ["1s", 1],
    ["30s", 30],
    ["5m", 300],
    ["12h", 43_200],
    ["7d", 604_800],
    ["365d", WINDOW_SECONDS_MAX],
  ])("%s is %d s", (text, seconds) => {
    expect(parseWindow(text)).toBe(seconds);
  });

  test.each(["", "0s", "30", "s", "1.5h", "-1s", "1w", "366d", "99999999999s", "1h30m", " 1s"])(
    "'%s' is no window",
    (text) => {
      expect(parseWindow(text)).toBeUndefined();
    },
  );
});
