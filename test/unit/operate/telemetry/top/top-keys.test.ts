// Which calls count as asked and as refused, under which key, in which window, and what is told of them.

import { describe, expect, test } from "vitest";
import { noKeyWords } from "../../../../../page/keys.mjs";
import { StoreError } from "../../../../../src/base/errors.ts";
import type { LimitStats } from "../../../../../src/engine/domain/stats.ts";
import { mergeSummaries, summaryOf, type TopOrder } from "../../../../../src/operate/telemetry/top/summary.ts";
import { TopKeys, type TopWindow } from "../../../../../src/operate/telemetry/top/top-keys.ts";
import { type TopView, topView } from "../../../../../src/operate/telemetry/top/top-view.ts";
import { MemoryStore } from "../../../../../src/stores/memory/memory-store.ts";
import { topText } from "../../../../../src/tools/cli/top-text.ts";
import { type AskedDescriptor, LimiterRig, type RigOptions } from "../../../../support/limiter-rig.ts";
import type { ManualClock } from "../../../../support/manual-clock.ts";
import { RecordedTerminal } from "../../../../support/recorded-terminal.ts";

interface ShownKey {
  readonly rule: string;
  readonly key: string;
  readonly descriptor?: readonly object[];
  readonly asked: number;
  readonly refused: number;
  readonly overcount: number;
  readonly refused_since: string | null;
  readonly last_refused: string | null;
}

const RULES = `domain: edge
descriptors:
  - key: user
    rate_limit: { requests_per_unit: 2, unit: day, algorithm: fixed_window }
`;

function open(rules: string, options: RigOptions & { readonly keysMax?: number } = {}) {
  let top: TopKeys | undefined;
  const labels = new Map<LimitStats, { domain: string; rule: string; limit: string }>();
  const rig = new LimiterRig(rules, {
    openStore: (clock) => new MemoryStore({ clock }),
    ...options,
    openListener: (clock: ManualClock) => {
      top = new TopKeys({
        keysMax: options.keysMax ?? 100,
        nowUs: clock.nowUs(),
        labelsOf: (stats) => labels.get(stats),
      });
      return top;
    },
  });
  const counting = top as unknown as TopKeys;
  for (const [name, stats] of rig.statsBook.stats) {
    const [domain = "", ...path] = name.split("|");
    const limit = path.pop() ?? "";
    labels.set(stats, { domain, rule: path.join("/"), limit });
  }
  const summary = (window: TopWindow) => {
    const { parts, fromUs } = counting.partsOf(window, rig.clock.nowUs());
    return summaryOf(parts, fromUs, 100);
  };
  const show = (window: TopWindow = "minute", by: TopOrder = "refused") =>
    topView({ window, by, keys: 100 }, summary(window), rig.clock.nowUs()) as {
      readonly from: string;
      readonly asked: number;
      readonly refused: number;
      readonly keys: readonly ShownKey[];
    };
  const keys = (window: TopWindow = "minute", by: TopOrder = "refused") => show(window, by).keys;
  const counts = (window: TopWindow = "minute", by: TopOrder = "asked") =>
    keys(window, by).map(({ key, asked, refused }) => [key, asked, refused]);
  return { rig, top: counting, summary, show, keys, counts };
}

function times(count: number, act: () => void): void {
  for (let i = 0; i < count; i++) act();
}

test("a caller is shown with rule, key, descriptor, counts, and since when it is refused", () => {
  const { rig, keys } = open(RULES);
  times(5, () => rig.hit({ user: "alice" }));
  rig.hit({ user: "bob" });
  rig.clock.advanceMs(1_500);
  rig.hit({ user: "alice" });
  expect(keys()).toEqual([
    {
      domain: "edge",
      rule: "user",
      limit: "",
      key: "{edge|user=alice}|fw/86400",
      descriptor: [{ key: "user", value: "alice" }],
      asked: 6,
      refused: 4,
      overcount: 0,
      asked_overcount: 0,
      refused_overcount: 0,
      refused_since: "2026-01-01T00:00:00.000Z",
      trend: [0, 4],
      last_refused: "2026-01-01T00:00:01.500Z",
    },
  ]);
  expect(keys("minute", "asked").map(({ key, asked, refused }) => [key, asked, refused])).toEqual([
    ["{edge|user=alice}|fw/86400", 6, 4],
    ["{edge|user=bob}|fw/86400", 1, 0],
  ]);
});

describe("what counts", () => {
  const alice = (more: Partial<AskedDescriptor> = {}): AskedDescriptor => ({ entries: { user: "alice" }, ...more });

  test("peeks ask, too, and may be refused; refunds and reports after the fact do not ask", () => {
    const { rig, counts } = open(
      `${RULES}  - { key: spent, post_paid: true, rate_limit: { requests_per_unit: 1, unit: day } }\n`,
    );
    times(3, () => rig.ask([alice({ hits: 1 })]));
    rig.ask([alice({ hits: 0 })]);
    rig.ask([alice({ hits: 5, refund: true })]);
    rig.ask([{ entries: { spent: "a" }, hits: 7 }]);
    rig.ask([{ entries: { spent: "a" }, hits: 0 }]);
    expect(counts()).toEqual([
      ["{edge|user=alice}|fw/86400", 4, 2],
      ["{edge|spent=a}|sw/86400", 1, 1],
    ]);
  });

  test("a limit with room in a refused call has asked, and only the limit that was over has refused", () => {
    const { rig, counts } = open(
      `${RULES}global_limit: { requests_per_unit: 100, unit: day, algorithm: fixed_window }\n`,
    );
    times(3, () => rig.hit({ user: "alice" }));
    expect(counts()).toEqual([
      ["{edge|user=alice}|fw/86400", 3, 1],
      ["{edge}|global|fw/86400", 3, 0],
    ]);
  });

  test("a shadow rule asks and never refuses, nor does anything under SHADOW_MODE", () => {
    const shadow = open(RULES.replace("user\n", "user\n    shadow_mode: true\n"));
    times(5, () => shadow.rig.hit({ user: "alice" }));
    expect(shadow.counts()).toEqual([["{edge|user=alice}|fw/86400", 5, 0]]);
    const all = open(RULES, { shadowMode: true });
    times(5, () => all.rig.hit({ user: "alice" }));
    expect(all.counts()).toEqual([["{edge|user=alice}|fw/86400", 5, 0]]);
  });

  test("of quota descriptors that refuse together each has refused; one that is over alone has not", () => {
    const quota = (key: string, amount: number) =>
      `  - { key: ${key}, quota_mode: true, rate_limit: { requests_per_unit: ${amount}, unit: day, algorithm: fixed_window } }\n`;
    const { rig, counts } = open(`domain: edge\ndescriptors:\n${quota("a", 1)}${quota("b", 2)}`);
    times(3, () => rig.ask([{ entries: { a: "1" } }, { entries: { b: "1" } }]));
    // Of the three the second finds only the first quota used up.
    expect(counts().toSorted()).toEqual([
      ["{edge|a=1}|fw/86400", 3, 1],
      ["{edge|b=1}|fw/86400", 3, 1],
    ]);
  });

  test("what on_store_failure refuses is refused, what it allows is asked", () => {
    const { rig, counts } = open(
      RULES.replace("fixed_window", "fixed_window, on_store_failure: deny") +
        "  - { key: other, rate_limit: { requests_per_unit: 1, unit: day } }\n",
      { openStore: undefined as never },
    );
    rig.store.failure = new StoreError("STORE_TIMEOUT", "no answer", { transient: true });
    rig.hit({ user: "alice" });
    rig.hit({ other: "x" });
    expect(counts().toSorted()).toEqual([
      ["{edge|other=x}|sw/86400", 1, 0],
      ["{edge|user=alice}|fw/86400", 1, 1],
    ]);
  });

  test("limits that calls bring, priorities and tiers count under the bucket that they pay", () => {
    const { rig, counts } = open(`domain: edge
limits:
  free: { requests_per_unit: 1, unit: day, algorithm: fixed_window }
  paid: { requests_per_unit: 2, unit: day, algorithm: fixed_window }
descriptors:
  - key: tenant
    tier: { entry: plan, default: free }
  - key: pool
    rate_limit: { requests_per_unit: 10, unit: day, algorithm: fixed_window, priority: { entry: class, high: 50%, values: [paid] } }
`);
    rig.hit({ tenant: "a", plan: "free" });
    rig.hit({ tenant: "a", plan: "paid" });
    rig.hit({ tenant: "a", plan: "paid" });
    times(6, () => rig.hit({ pool: "p", class: "any" }));
    rig.hit({ pool: "p", class: "paid" });
    times(2, () => rig.ask([{ entries: { free: "y" }, override: { amount: 1, unit: 4 } }]));
    expect(counts().toSorted()).toEqual([
      ["{edge|free=y}|sw/86400", 2, 1],
      ["{edge|pool=p}|fw/86400", 7, 1],
      ["{edge|tenant=a}|fw/86400", 3, 1],
    ]);
  });
});

describe("windows", () => {
  test("keep what came in the last minute and hour, and up to a part longer", () => {
    const { rig, counts, show } = open(RULES);
    rig.clock.advanceSeconds(5);
    rig.hit({ user: "alice" });
    const alice = ["{edge|user=alice}|fw/86400", 1, 0];
    expect([counts(), counts("hour")]).toEqual([[alice], [alice]]);
    rig.clock.advanceSeconds(64.999999);
    expect([counts(), counts("hour"), show().from]).toEqual([[alice], [alice], "2026-01-01T00:00:00.000Z"]);
    rig.clock.advanceUs(1);
    expect([counts(), counts("hour"), show().from]).toEqual([[], [alice], "2026-01-01T00:00:10.000Z"]);
    rig.clock.advanceSeconds(69 * 60 - 10.000001);
    expect([counts("hour"), show("hour").from]).toEqual([[alice], "2026-01-01T00:00:00.000Z"]);
    rig.clock.advanceUs(1);
    expect([counts("hour"), show("hour").from]).toEqual([[], "2026-01-01T00:10:00.000Z"]);
  });

  test("go on after time that stood still for hours, and after time that stepped back", () => {
    const { rig, counts } = open(RULES);
    rig.hit({ user: "alice" });
    rig.clock.advanceSeconds(5 * 3_600 + 7);
    expect([counts(), counts("hour")]).toEqual([[], []]);
    rig.hit({ user: "bob" });
    rig.clock.advanceSeconds(-3_600);
    rig.hit({ user: "bob" });
    rig.clock.advanceSeconds(3_601);
    rig.hit({ user: "bob" });
    const bob = ["{edge|user=bob}|fw/86400", 3, 1];
    expect([counts(), counts("hour")]).toEqual([[bob], [bob]]);
    rig.clock.advanceSeconds(71);
    expect([counts(), counts("hour")]).toEqual([[], [bob]]);
  });

  test("a counter's windows are one key, and tell the entries", () => {
    const { rig, keys } = open(
      "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 1, unit: second } }]\n",
      {
        compatible: true,
      },
    );
    for (let second = 0; second < 5; second++) {
      times(2, () => rig.hit({ user: "alice" }));
      rig.clock.advanceSeconds(1);
    }
    expect(keys()).toMatchObject([
      { key: "edge_user_alice", descriptor: [{ key: "user", value: "alice" }], asked: 10, refused: 5 },
    ]);
  });
});

test("refused_since is the first refusal after which no whole minute went by without one", () => {
  const { rig, keys } = open(RULES);
  const since = () => keys("hour").map((key) => [key.refused_since, key.last_refused]);
  times(3, () => rig.hit({ user: "alice" }));
  for (let i = 0; i < 20; i++) {
    rig.clock.advanceSeconds(60);
    rig.hit({ user: "alice" });
  }
  expect(since()).toEqual([["2026-01-01T00:00:00.000Z", "2026-01-01T00:20:00.000Z"]]);
  rig.clock.advanceSeconds(60);
  expect(since()).toEqual([["2026-01-01T00:00:00.000Z", "2026-01-01T00:20:00.000Z"]]);
  rig.clock.advanceUs(1);
  expect(since()).toEqual([[null, "2026-01-01T00:20:00.000Z"]]);
  rig.hit({ user: "alice" });
  expect(since()).toEqual([["2026-01-01T00:21:00.000Z", "2026-01-01T00:21:00.000Z"]]);
});

describe("what is shown of a key", () => {
  // Promise(input): `hash_values` hides values in bucket names, labels, metadata, `explain`, `/top` and the decision log.
  test("no value of a rule with hash_values, in either mode", () => {
    const rules = `domain: edge
descriptors:
  - key: token
    hash_values: true
    rate_limit: { requests_per_unit: 1, unit: day }
    descriptors: [{ key: path, rate_limit: { requests_per_unit: 1, unit: day } }]
`;
    for (const compatible of [false, true]) {
      const { rig, keys, summary } = open(rules, { compatible });
      times(2, () => rig.hit({ token: "s3cret" }));
      times(2, () => rig.hit({ token: "s3cret", path: "pr1vate" }));
      times(2, () => rig.ask([{ entries: { token: "s3cret" }, override: { amount: 1, unit: 4 } }]));
      expect(keys().length).toBeGreaterThan(1);
      expect(keys().map(({ descriptor }) => descriptor)).toEqual(keys().map(() => undefined));
      expect(JSON.stringify([keys(), summary("hour")])).not.toMatch(/s3cret|pr1vate/);
    }
  });

  test("no descriptor where many values share the bucket, and entries as they came where one has it", () => {
    const { rig, keys } = open(`domain: edge
descriptors:
  - { key: ip, value: "10.*", share_threshold: true, rate_limit: { requests_per_unit: 1, unit: day } }
  - { key: "a=b|c", rate_limit: { requests_per_unit: 1, unit: day } }
`);
    times(2, () => rig.hit({ ip: "10.1" }));
    times(3, () => rig.hit({ "a=b|c": "x{y}=z|%#" }));
    expect(keys().map(({ descriptor }) => descriptor)).toEqual([[{ key: "a=b|c", value: "x{y}=z|%#" }], undefined]);
  });

  test("a caller of a domain with a long name keeps its descriptor, unless that is long, too", () => {
    const domain = `edge.${"x".repeat(250)}`;
    const { rig, keys } = open(
      `domain: ${domain}\ndescriptors: [{ key: user, descriptors: [{ key: path, rate_limit: { requests_per_unit: 1, unit: day } }] }]\n`,
    );
    const ask = (user: string, path: string) => rig.ask([{ entries: { user, path } }], 0, domain);
    times(3, () => ask("ann", "/"));
    times(2, () => ask("y".repeat(256), "z".repeat(256)));
    const ann = [
      { key: "user", value: "ann" },
      { key: "path", value: "/" },
    ];
    expect(keys().map(({ descriptor }) => descriptor)).toEqual([ann, undefined]);
  });

  test("keys are cut to a bounded length, and stay apart", () => {
    const { rig, keys } = open(
      "domain: edge\ndescriptors: [{ key: user, rate_limit: { requests_per_unit: 1, unit: day } }]\n",
      {
        compatible: true,
      },
    );
    for (const end of ["a", "b"]) times(2, () => rig.hit({ user: "x".repeat(16_384) + end }));
    expect(keys().map(({ key, descriptor }) => [key.length, descriptor])).toEqual([
      [256, undefined],
      [256, undefined],
    ]);
    expect(new Set(keys().map(({ key }) => key)).size).toBe(2);
  });
});

// Promise(operators): Ever new callers fill no memory of top keys.
test("callers who are all new fill no memory: text is kept of so many keys, however many come", () => {
  const { rig, top, counts } = open(RULES, { keysMax: 50 });
  let most = 0;
  for (let i = 0; i < 40_000; i++) {
    rig.hit({ user: `new-${i}` });
    if (i % 10 === 0) rig.hit({ user: "steady" });
    if (i % 100 === 0) rig.clock.advanceSeconds(1);
    most = Math.max(most, top.trackedKeys);
  }
  // Two sketches and six tallies of each before the minute's, as many and one more of the hour's.
  expect(most).toBeLessThanOrEqual(2 * 14 * 50);
  expect(counts("minute")[0]?.[0]).toBe("{edge|user=steady}|fw/86400");
  expect(counts("hour")[0]?.[0]).toBe("{edge|user=steady}|fw/86400");
});

test("refusals of keys that are all new are counted, though no key stands out", () => {
  const { rig, show } = open(`${RULES}  - { key: none, rate_limit: { requests_per_unit: 0, unit: day } }\n`, {
    keysMax: 5,
  });
  for (let i = 0; i < 3_000; i++) {
    rig.hit({ none: `new-${i}` });
    rig.clock.advanceMs(10);
  }
  const { asked, refused, keys } = show();
  expect([asked, refused, keys]).toEqual([3_000, 3_000, []]);
  const said = topText(show() as unknown as TopView, new RecordedTerminal());
  expect(said).toContain("no key stands out among 3000 refusals");
  expect(noKeyWords({ ...show(), window: "minute" })).toBe(
    "No key stands out among 3,000 refusals within the last minute.",
  );
});

test("several processes add up what each has counted, and refusals that no whole minute parts are one stretch", () => {
  const processes = [open(RULES), open(RULES), open(RULES)] as const;
  times(4, () => processes[0].rig.hit({ user: "alice" }));
  for (const { rig } of processes) rig.clock.advanceSeconds(50);
  times(3, () => processes[1].rig.hit({ user: "alice" }));
  times(1, () => processes[1].rig.hit({ user: "bob" }));
  for (const { rig } of processes) rig.clock.advanceSeconds(5);
  const merged = mergeSummaries(processes.map(({ summary }) => summary("minute")));
  const view = topView({ window: "minute", by: "asked", keys: 5 }, merged, processes[0].rig.clock.nowUs(), {
    processes: 3,
  });
  expect(view).toMatchObject({
    processes: 3,
    keys: [
      {
        key: "{edge|user=alice}|fw/86400",
        asked: 7,
        refused: 3,
        overcount: 0,
        refused_since: "2026-01-01T00:00:00.000Z",
        last_refused: "2026-01-01T00:00:50.000Z",
      },
      { key: "{edge|user=bob}|fw/86400", asked: 1, refused: 0, refused_since: null },
    ],
  });
});
