// Counters of rules over reloads, and the bounds on those of values.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { oneByteOf } from "../../../../src/engine/domain/request.ts";
import { LimitStatsBook, VALUE_ENTRIES_MAX } from "../../../../src/operate/telemetry/stats-book.ts";

describe("counters of rules", () => {
  test("are distinguished by domain, path and limit, however the texts are cut", () => {
    const part = fc.string({ unit: fc.constantFrom("a", ":", "1", "/"), maxLength: 3 });
    const rule = fc.tuple(part, fc.array(part, { maxLength: 3 }), part);
    fc.assert(
      fc.property(rule, rule, (a, b) => {
        const book = new LimitStatsBook(200);
        const same = JSON.stringify(a) === JSON.stringify(b);
        expect(book.statsOf(...a) === book.statsOf(...b)).toBe(same);
      }),
    );
  });

  test("carry the labels that dashboards know", () => {
    const book = new LimitStatsBook(200);
    book.statsOf("edge", ["plan_free", "api_key", "path"], "per-day");
    expect([...book.entries()].map((entry) => entry.labels)).toEqual([
      'domain="edge",key1="plan_free",key2="api_key",rule="plan_free/api_key/path",limit="per-day"',
    ]);
  });

  test("escape their labels and show text as it was sent", () => {
    const book = new LimitStatsBook(200);
    book.statsOf("edge", [oneByteOf('a"\\\nü')], "");
    expect([...book.entries()][0]?.labels).toContain('key1="a\\"\\\\\\nü"');
  });

  test("of values that look the same once shown as text are one", () => {
    const book = new LimitStatsBook(200);
    const rule = book.statsOf("edge", ["tenant"], "");
    const [first, second] = ["tenant_\xff", "tenant_\xfe"].map((path) => book.statsOfValues(rule, [path]));
    expect(first).toBe(second);
    expect([...book.entries()].map((entry) => entry.labels)).toEqual([
      expect.stringContaining('key1="tenant"'),
      expect.stringContaining('key1="tenant_\ufffd"'),
    ]);
  });

  // Promise(operators): Long values are cut to a bound in bytes wherever they are labels.
  test("of long values are bounded in bytes, and two that differ at their ends stay two", () => {
    const book = new LimitStatsBook(200);
    const rule = book.statsOf("edge", ["tenant"], "");
    const long = `tenant_${oneByteOf("ü").repeat(30_000)}`;
    const of = (path: string) => book.statsOfValues(rule, [path]);
    const [one, other] = [of(`${long}1`), of(`${long}2`)];
    expect(one).not.toBe(other);
    expect(of(`${long}1`)).toBe(one);
    const labels = [...book.entries()].slice(1).map((entry) => entry.labels);
    expect(new Set(labels).size).toBe(2);
    // The value stands in two labels, cut between two characters each time.
    expect(labels.filter((label) => Buffer.byteLength(label) > 400 || label.includes("\ufffd"))).toEqual([]);
  });

  test("go when a reload no longer has their rule, with those of its values", () => {
    const book = new LimitStatsBook(200);
    const kept = book.statsOf("edge", ["a"], "");
    const gone = book.statsOf("edge", ["b"], "");
    book.statsOfValues(gone, ["b_1"]);
    runThrough(book.retainOnly(new Set([kept])));
    expect([...book.entries()].map((entry) => entry.stats)).toEqual([kept]);
    expect(book.statsOfValues(gone, ["b_2"])).toBe(gone);
  });
});

describe("counters of values", () => {
  test("count with their rule, those beyond the bound too, until the rule goes", () => {
    const book = new LimitStatsBook(2);
    const [rule, other] = [book.statsOf("edge", ["plan_free", "tenant"], ""), book.statsOf("edge", ["tenant"], "")];
    rule.totalHits = 1;
    for (const value of ["a", "b", "c"]) book.statsOfValues(rule, ["plan_free", `tenant_${value}`]).totalHits += 10;
    expect(rule.count()).toEqual({ hits: 31, refused: 0, shadowed: 0 });
    expect(other.count().hits).toBe(0);
    runThrough(book.retainOnly(new Set([other])));
    expect([...book.entries()].map(({ stats }) => stats)).toEqual([other]);
  });

  test("are one per value up to the bound, then those of other", () => {
    const book = new LimitStatsBook(2);
    const rule = book.statsOf("edge", ["tenant"], "");
    const of = (value: string) => book.statsOfValues(rule, [`tenant_${value}`]);
    const [acme, blue, carp, dune] = [of("acme"), of("blue"), of("carp"), of("dune")];
    expect(new Set([rule, acme, blue, carp]).size).toBe(4);
    expect(dune).toBe(carp);
    expect(of("acme")).toBe(acme);
    expect([...book.entries()].map((entry) => entry.labels.split(",")[1])).toEqual([
      'key1="tenant"',
      'key1="tenant_acme"',
      'key1="tenant_blue"',
      'key1="tenant_other"',
    ]);
  });

  test("are bounded for each rule by itself, and in all", () => {
    const book = new LimitStatsBook(VALUE_ENTRIES_MAX * 2);
    const first = book.statsOf("edge", ["a"], "");
    for (let i = 0; i < VALUE_ENTRIES_MAX + 10; i++) book.statsOfValues(first, [`a_${i}`]);
    const second = book.statsOf("edge", ["b"], "");
    const other = book.statsOfValues(second, ["b_1"]);
    expect(book.statsOfValues(second, ["b_2"])).toBe(other);
    expect([...book.entries()]).toHaveLength(VALUE_ENTRIES_MAX + 2 + 2);
  });
});
