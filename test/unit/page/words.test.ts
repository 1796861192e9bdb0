// Numbers, times and text of callers as the operator's page writes them.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { proxyHeaders } from "../../../page/ask.mjs";
import {
  cut,
  durationWords,
  formTimeMs,
  rateWords,
  setZone,
  shown,
  sinceWords,
  timeWords,
  zoneWords,
} from "../../../page/words.mjs";
import { durationWords as inTerminal } from "../../../src/base/units.ts";
import { visible } from "../../../src/base/visible.ts";

test("text of callers hides nothing, and is short", () => {
  expect(shown("a\u202eb\x1b")).toBe("a\\u{202e}b\\u{1b}");
  expect(shown("x".repeat(16_384))).toBe(`${"x".repeat(160)} ... (16384 characters)`);
  const any = fc.string({ unit: "binary", maxLength: 400 });
  fc.assert(
    fc.property(any, (text) => {
      expect(visible(shown(text))).toBe(shown(text));
      expect(shown(text).length).toBeLessThan(1_500);
    }),
  );
});

test("text that is cut keeps both ends, is never longer than asked, and hides nothing", () => {
  expect(cut("a-long-beginning-of-a-name.team-payments", 21)).toBe("a-long-beg\u2026m-payments");
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 90 }), fc.integer({ min: 3, max: 60 }), (text, max) => {
      expect([...cut(text, max)].length).toBeLessThanOrEqual(max);
      expect(visible(cut(text, max))).toBe(cut(text, max));
    }),
  );
});

test("times are of the reader's zone or of UTC, in forms, too", () => {
  const atMs = Date.parse("2026-11-28T14:12:58.152Z");
  setZone("utc");
  expect([timeWords(atMs), zoneWords(atMs), timeWords(atMs, atMs + 100_000_000)]).toEqual([
    "14:12:58",
    "UTC",
    "2026-11-28 14:12:58",
  ]);
  expect(formTimeMs("2026-11-28T14:12")).toBe(Date.parse("2026-11-28T14:12:00Z"));
  setZone("");
  expect(formTimeMs("2026-11-28T14:12")).toBe(new Date(2026, 10, 28, 14, 12).getTime());
});

test("lengths of time read alike on the page and in the terminal, which knows parts of a second, too", () => {
  fc.assert(
    fc.property(fc.oneof(fc.nat(4_000), fc.nat(10_000_000)), (seconds) => {
      expect(inTerminal(seconds)).toBe(durationWords(seconds));
    }),
  );
  expect([0.0042, 0.25, 1.26, 59.6].map(inTerminal)).toEqual(["4.2 ms", "250 ms", "1.3 s", "1 min"]);
  expect(inTerminal(756_399)).toBe("8 d 18 h");
});

test.each([
  [0, "0 s"],
  [59.6, "1 min"],
  [61, "1 min 1 s"],
  [400, "6 min"],
  [7_500, "2 h 5 min"],
  [90_000, "1 d 1 h"],
])("%d seconds are %s", (seconds, words) => {
  expect(durationWords(seconds)).toBe(words);
});

test("a rate is as exact as it is worth", () => {
  expect([null, 0, 0.04, 9.94, 10.6, 12_345].map((rate) => rateWords(rate))).toEqual([
    "-",
    "0",
    "0.0",
    "9.9",
    "11",
    "12,345",
  ]);
});

test("a start is shown in the server's time, with the day unless it is today", () => {
  expect(sinceWords("2026-11-22T13:00:00Z", "2026-11-22T13:02:30Z")).toMatch(/^\d\d:\d0:00 \(2 min 30 s\)$/);
  expect(sinceWords("2026-11-20T13:00:00Z", "2026-11-22T13:00:00Z")).toMatch(/^2026-11-\d\d \d\d:\d0:00 \(2 d\)$/);
});

describe("what the page says of proxies before it", () => {
  const at = (href: string) => proxyHeaders(new URL(href));
  test("is nothing where it was called on this host", () => {
    expect(["http://localhost:8080/", "http://127.0.0.1/", "http://[::1]:1/"].map(at)).toEqual([{}, {}, {}]);
  });
  test("is its path prefix, and the host that it was called by", () => {
    expect(at("http://localhost:8080/tools/gate/")).toEqual({ "x-forwarded-prefix": "/tools/gate/" });
    expect(at("https://ops.example/")).toEqual({ "x-forwarded-host": "ops.example" });
  });
});
