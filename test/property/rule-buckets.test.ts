// Rules, their buckets and their series, over generated trees of rules whose texts are made to meet: two rules never share a
// bucket, no two series have the same labels, and what `hash_values` hides is hidden wherever values are shown.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OnStoreFailure } from "../../src/engine/domain/limit.ts";
import { oneByteOf } from "../../src/engine/domain/request.ts";
import {
  type LimitStats,
  LimitStats as Stats,
  type StatsBook,
  type ValueStatsBook,
} from "../../src/engine/domain/stats.ts";
import type { Take } from "../../src/engine/domain/take.ts";
import { LimitCall, NO_FINISHER } from "../../src/engine/limiter/call.ts";
import { TakeFiller } from "../../src/engine/limiter/fill.ts";
import { explainRequest } from "../../src/engine/rules/explain.ts";
import type { DomainRules, RuleSet } from "../../src/engine/rules/rule-set.ts";
import { addMetadata } from "../../src/grpc/rls/metadata.ts";
import { SeriesBook } from "../../src/operate/telemetry/series-book.ts";
import { LimitStatsBook } from "../../src/operate/telemetry/stats-book.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { PlainStatsBook, rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

interface Entry {
  readonly key: string;
  readonly value: string;
}

/** Keeps the labels under which hits were counted. */
class LabelBook implements StatsBook, ValueStatsBook {
  readonly labels: string[] = [];
  readonly #stats = new Stats();

  statsOf(): LimitStats {
    return this.#stats;
  }

  statsOfValues(_of: LimitStats, path: readonly string[]): LimitStats {
    this.labels.push(...path);
    return this.#stats;
  }
}

function rulesOf(
  descriptors: readonly object[],
  compatible: boolean,
  statsBook: StatsBook = new PlainStatsBook(),
): RuleSet | undefined {
  try {
    return rulesFromYaml(JSON.stringify({ domain: "edge", descriptors }), { compatible, statsBook });
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("the test's rules don't compile")) return undefined;
    throw error;
  }
}

function fillerOf(statsBook: StatsBook & ValueStatsBook): TakeFiller {
  const clock = new ManualClock();
  const onStoreFailure = OnStoreFailure.allow;
  const modes = { shadowMode: false, quotaMode: false, onStoreFailure, retryAfterJitter: 0 };
  return new TakeFiller({ ...modes, clock, statsBook });
}

function callOf(domain: DomainRules, entries: readonly Entry[], overridden: boolean): LimitCall {
  const call = new LimitCall(NO_FINISHER);
  call.request.domain = "edge";
  call.domain = domain;
  const descriptor = call.request.addDescriptor();
  for (const { key, value } of entries) descriptor.addEntry(oneByteOf(key), oneByteOf(value));
  if (overridden) Object.assign(descriptor, { hasOverride: true, overrideAmount: 3, overrideUnit: 2 });
  return call;
}

function takesOf({ group }: LimitCall): readonly Take[] {
  return group.takes.slice(0, group.size);
}

describe("two rules never share a bucket", () => {
  // Texts of all kinds of pattern that read like each other, and keys that read like a key and a value.
  const stars = fc.constantFrom("b*", "*", "prefix:a*", "suffix:a*", "regex:a*");
  const accepts = fc.oneof(
    { arbitrary: stars.map((value) => ({ value, share_threshold: true })), weight: 3 },
    {
      arbitrary: fc
        .constantFrom<object>({ prefix: "a*" }, { suffix: "a*" }, { regex: "a*" }, { cidr: "10.0.0.0/8" })
        .map((match) => ({ match, share_threshold: true })),
      weight: 3,
    },
    fc.constantFrom<object>({}, { value: "b" }),
  );
  const key = fc.constantFrom("a", "a", "a_b", "a*c", "*");
  const limit = { rate_limit: { tokens_per_second: 5 } };
  const levelOf = (rule: fc.Arbitrary<object>) =>
    fc.uniqueArray(rule, {
      minLength: 1,
      maxLength: 6,
      selector: (made) => JSON.stringify({ ...made, descriptors: 0 }),
    });
  const leaf = fc.tuple(key, accepts).map(([key, accepted]) => ({ key, ...accepted, ...limit }));
  const branch = fc.tuple(leaf, levelOf(leaf)).map(([rule, descriptors]) => ({ ...rule, descriptors }));
  const level = levelOf(fc.oneof(leaf, branch));
  const entry = fc.record({
    key: fc.constantFrom("a", "a", "a_b", "ac_x"),
    value: fc.constantFrom("b", "bz", "b_b", "c_bz", "a*", "prefix:ab", "suffix:ab", "regex:ab", "xa*", "10.1.2.3"),
  });
  const descriptors = fc.array(fc.array(entry, { minLength: 1, maxLength: 2 }), { minLength: 60, maxLength: 60 });

  // Promise(calls): Two rules never share a bucket, whatever their patterns and values.
  test.each([
    { mode: "its own way", compatible: false },
    { mode: "the compatibility mode", compatible: true },
  ])("in $mode", ({ compatible }) => {
    const filler = fillerOf(new LabelBook());
    let shared = 0;
    const check = (rules: readonly object[], asked: readonly (readonly Entry[])[]) => {
      const domain = rulesOf(rules, compatible)?.domains.get("edge");
      fc.pre(domain !== undefined);
      const ownerOf = new Map<string, string>();
      for (const entries of domain === undefined ? [] : asked) {
        const call = callOf(domain, entries, false);
        filler.fill(call, domain);
        for (const { bucketKey, limit } of takesOf(call)) {
          if (ownerOf.get(bucketKey) === limit.names.id) shared++;
          expect(`${bucketKey} ${ownerOf.get(bucketKey) ?? limit.names.id}`).toBe(`${bucketKey} ${limit.names.id}`);
          ownerOf.set(bucketKey, limit.names.id);
        }
      }
    };
    fc.assert(fc.property(level, descriptors, check), { numRuns: runs(60) });
    expect(shared).toBeGreaterThan(runs(60));
  });

  test("whose pattern texts meet, or whose text of key and value does", () => {
    const rules = [
      { key: "path", value: "prefix:/a*", share_threshold: true, ...limit },
      { key: "path", match: { prefix: "/a*" }, share_threshold: true, ...limit },
      { key: "a*c", value: "b*", share_threshold: true, ...limit },
      { key: "*", value: "b*", share_threshold: true, ...limit },
    ];
    const domain = rulesOf(rules, false)?.domains.get("edge") as DomainRules;
    const keyFor = (key: string, value: string) => {
      const call = callOf(domain, [{ key, value }], false);
      fillerOf(new LabelBook()).fill(call, domain);
      return takesOf(call)[0]?.bucketKey;
    };
    expect(keyFor("path", "prefix:/a1")).toBe("{edge|path=%*prefix:/a*}|tb/1");
    expect(keyFor("path", "/a*1")).toBe("{edge|path=%:prefix:/a*}|tb/1");
    expect(keyFor("ac_x", "c_bz")).toBe("{edge|ac_x=%=a*c=b*}|tb/1");
    expect(keyFor("ac_x", "bz")).toBe("{edge|ac_x=%=*=b*}|tb/1");
  });
});

describe("a scrape has no labels twice", () => {
  type Asked = readonly (readonly [entries: readonly Entry[], isOverridden: boolean])[];
  // Keys and values whose joined texts meet, and limits with and without names.
  const key = fc.constantFrom("a", "a_b");
  const value = fc.constantFrom("b_c", "c", "other", "b_other");
  const switches = fc.constantFrom({ detailed_metric: true }, { value_to_metric: true }, {});
  const HOLD = { id: "request_id", ttl: "120s" };
  const amounts = fc.constantFrom<object>(
    { rate_limit: { requests_per_unit: 5, unit: "minute" } },
    {
      rate_limits: [
        { requests_per_unit: 5, unit: "minute" },
        { requests_per_unit: 50, unit: "hour" },
      ],
    },
    {
      rate_limits: [
        { tokens_per_second: 5, name: "x" },
        { tokens_per_second: 7, burst: 9 },
      ],
      hold: HOLD,
      concurrent: 3,
    },
  );
  const valued = fc.constantFrom<object>({}, {}, {}, { value: "b_c" }, { value: "b*" });
  const node = fc
    .tuple(key, valued, switches, amounts)
    .map((parts) => Object.assign({}, { key: parts[0] }, ...parts.slice(1)));
  const level = fc.uniqueArray(node, {
    minLength: 1,
    maxLength: 5,
    selector: ({ key, value }: { key: string; value?: string }) => `${key} ${value}`,
  });
  const tree = fc
    .tuple(level, fc.option(level, { nil: undefined }))
    .map(([rules, below]) =>
      rules.map((rule, i) => (i === 0 && below !== undefined ? { ...rule, descriptors: below } : rule)),
    );
  const entries = fc.array(fc.record({ key, value }), { minLength: 1, maxLength: 2 });
  const calls = fc.array(fc.tuple(entries, fc.boolean()), { minLength: 10, maxLength: 30 });

  // Promise(operators): A scrape has no labels twice, whatever keys, values and limits look alike.
  test.each([
    { mode: "its own way", compatible: false },
    { mode: "the compatibility mode", compatible: true },
  ])("in $mode, and its sum is what was counted", ({ compatible }) => {
    let met = 0;
    const check = (rules: readonly object[], asked: Asked, valuesMax: number) => {
      const book = new LimitStatsBook(valuesMax);
      const domain = rulesOf(rules, compatible, book)?.domains.get("edge");
      fc.pre(domain !== undefined);
      if (domain === undefined) return;
      const filler = fillerOf(book);
      const series = new SeriesBook(book, 1_000);
      let counted = 0;
      for (const [given, overridden] of asked) {
        const call = callOf(domain, given, overridden);
        filler.fill(call, domain);
        for (const { stats } of takesOf(call)) stats.totalHits += 1;
        counted += call.group.size;
        const labels = [...series.entries()].map((entry) => entry.labels);
        expect(labels).toEqual([...new Set(labels)]);
        const hits = [...series.entries()].reduce((sum, { stats }) => sum + stats.totalHits, 0);
        expect(hits).toBe(counted);
      }
      const all = [...book.entries()].filter(({ stats }) => stats.hasMoved);
      if (all.length > new Set(all.map((entry) => entry.labels)).size) met++;
    };
    const meeting = ["a", "a_b"].map((key) => ({ key, detailed_metric: true, rate_limit: { tokens_per_second: 5 } }));
    const asked = [
      [[{ key: "a", value: "b_c" }], false],
      [[{ key: "a_b", value: "c" }], false],
    ] as const;
    const examples: [readonly object[], typeof asked, number][] = [[meeting, asked, 200]];
    const property = fc.property<[readonly object[], Asked, number]>(tree, calls, fc.constantFrom(1, 200, 200), check);
    fc.assert(property, { numRuns: runs(100), examples });
    expect(met).toBeGreaterThan(0);
  });
});

describe("what hash_values hides", () => {
  const SECRET = "s3cr3t";
  const accepted = fc.constantFrom<object>({}, { value: `${SECRET}*` }, { match: { prefix: SECRET } }, { value: "*" });
  const switches = fc.record({
    hash_values: fc.boolean(),
    detailed_metric: fc.boolean(),
    value_to_metric: fc.boolean(),
  });
  const limit = fc.constantFrom<object>(
    {},
    { rate_limit: { requests_per_unit: 5, unit: "minute" } },
    { rate_limit: { tokens_per_second: 5 } },
  );
  const node = fc.tuple(accepted, switches, limit).map(([accepts, on, limits]) => ({ ...accepts, ...on, ...limits }));
  /** A chain of rules, one level each. */
  const chain = fc.array(node, { minLength: 1, maxLength: 4 });

  // Promise(input): `hash_values` hides values in bucket names, labels, metadata, `explain`, `/top` and the decision log.
  test.each([
    { mode: "its own way", compatible: false },
    { mode: "the compatibility mode", compatible: true },
  ])("is in no key, label, metadata or explained bucket, of the rule or below it, in $mode", ({ compatible }) => {
    let hidden = 0;
    const check = (nodes: readonly { hash_values: boolean }[], depth: number, overridden: boolean) => {
      const tree = nodes.reduceRight<object[]>((below, rule, i) => [{ key: `k${i}`, ...rule, descriptors: below }], []);
      const rules = rulesOf(tree, compatible);
      const domain = rules?.domains.get("edge");
      fc.pre(rules !== undefined && domain !== undefined);
      const entries = nodes.slice(0, depth).map((_, i) => ({ key: `k${i}`, value: `${SECRET}${i}` }));
      fc.pre(entries.length > 0 && nodes.slice(0, depth).some((rule) => rule.hash_values));
      if (rules === undefined || domain === undefined) return;
      const book = new LabelBook();
      const call = callOf(domain, entries, overridden);
      fillerOf(book).fill(call, domain);
      addMetadata(call, "full");
      const explained = explainRequest(rules, "edge", [entries]).descriptors.flatMap(({ limits }) => limits);
      const shown = [
        ...takesOf(call).map(({ bucketKey }) => bucketKey.replaceAll(/%[*:][^|}]*/g, "")),
        ...book.labels.map((label) => label.replace(`${SECRET}*`, "").replace(`prefix:${SECRET}`, "")),
        ...explained.map(({ bucket }) => bucket.replaceAll(/%[*:][^|}]*/g, "")),
        JSON.stringify(call.decision.metadata?.descriptors ?? ""),
      ];
      expect(shown.filter((text) => text.includes(SECRET))).toEqual([]);
      hidden += shown.length;
    };
    fc.assert(fc.property(chain, fc.integer({ min: 1, max: 4 }), fc.boolean(), check), { numRuns: runs(150) });
    expect(hidden).toBeGreaterThan(runs(150));
  });
});
