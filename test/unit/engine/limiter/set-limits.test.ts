// Limits at run time at the rules where they meet something else: tiers without a limit, shadow mode, peeks. test/property/runtime-limits.test.ts
// compares the rest with rules.

import { expect, test } from "vitest";
import { Kind, type Take } from "../../../../src/engine/domain/take.ts";
import type { LimitCall } from "../../../../src/engine/limiter/call.ts";
import { MarkedCalls } from "../../../../src/operate/telemetry/marked-calls.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";
import type { ManualClock } from "../../../support/manual-clock.ts";

const RULES = `
domain: edge
descriptors:
  - { key: user, tier: { entry: plan, default: free } }
  - { key: ghost, shadow_mode: true, rate_limit: { requests_per_unit: 5, unit: hour } }
  - { key: tenant, rate_limit: { requests_per_unit: 5, unit: hour } }
  - { key: tokens, post_paid: true, rate_limit: { requests_per_unit: 100, unit: hour } }
limits:
  free: { unlimited: true }
  paid: [{ requests_per_unit: 3, unit: hour }]
`;
const rigOf = () => new LimiterRig(RULES, { openStore: (clock) => new MemoryStore({ clock }) });

test.each([
  { name: "limits a caller whose tier is unlimited", uses: "paid", plan: "free", amount: 3 },
  { name: "limits a caller without a tier", uses: "paid", plan: undefined, amount: 3 },
  { name: "lifts the limit of a caller who has one", uses: "free", plan: "paid", amount: undefined },
])("use $name", ({ uses, plan, amount }) => {
  const rig = rigOf();
  rig.set({ user: "a" }, { kind: "use", name: uses });
  const answers = Array.from({ length: 5 }, () => rig.hit({ user: "a", ...(plan === undefined ? {} : { plan }) }));
  expect(answers.map(({ over }) => !over)).toEqual(answers.map((_, i) => i < (amount ?? 5)));
  expect(answers[0]?.statuses[0]?.amount).toBe(amount);
});

const BLOCK = { kind: "block", shadow: false } as const;

test.each([
  { name: "a call of a blocked caller counts its hits", key: "tenant", hits: 3, counted: 3 },
  { name: "a peek of a blocked caller counts none", key: "tenant", hits: 0, counted: 0 },
  { name: "a block refuses and counts on a shadow rule, which hides nothing of it", key: "ghost", hits: 3, counted: 3 },
])("$name", ({ key, hits, counted }) => {
  // What top keys and sinks hear of the refusal.
  const kinds: Kind[] = [];
  const openListener = () => ({ decided: ({ group }: LimitCall) => void kinds.push((group.takes[0] as Take).kind) });
  const rig = new LimiterRig(RULES, { openListener });
  rig.set({ [key]: "a" }, BLOCK);
  expect(rig.hit({ [key]: "a" }, hits)).toMatchObject({ over: true, wasShadowed: false, statuses: [{ over: true }] });
  const stats = rig.statsBook.stats.get(`edge|${key}|`);
  expect(stats).toMatchObject({ totalHits: counted, overLimit: counted, shadowMode: 0 });
  expect(kinds).toEqual([Kind.ordinary]);
});

test.each([
  { name: "a block refuses", key: "tenant", shadow: false, hits: 1, marked: { blocked: 1, shadowed: 0 } },
  { name: "a block on paper would refuse", key: "tenant", shadow: true, hits: 1, marked: { blocked: 0, shadowed: 1 } },
  { name: "a rule refuses", key: "tenant", shadow: undefined, hits: 6, marked: { blocked: 0, shadowed: 0 } },
  { name: "a shadow rule would refuse", key: "ghost", shadow: undefined, hits: 6, marked: { blocked: 0, shadowed: 1 } },
])("the page tells apart what $name", ({ key, shadow, hits, marked }) => {
  const calls = new MarkedCalls(undefined);
  const openStore = (clock: ManualClock) => new MemoryStore({ clock });
  const rig = new LimiterRig(RULES, { openStore, openListener: () => calls });
  if (shadow !== undefined) rig.set({ [key]: "a" }, { kind: "block", shadow });
  rig.hit({ [key]: "a" }, hits);
  expect(calls).toMatchObject(marked);
});

test("a call is reused without what was set for the caller before", () => {
  const rig = rigOf();
  const call = rig.begin([{ entries: { tenant: "a" } }], 0, "edge");
  const shown = () => call.decision.statuses[0];
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  expect(shown()).toMatchObject({ remaining: 4, hasReset: true, limit: { amount: 5 } });
  call.reset();
  rig.fill(call, [{ entries: { nobody: "a" } }]);
  rig.limiter.decide(call, Number.POSITIVE_INFINITY);
  expect(shown()).toMatchObject({ overLimit: false, limit: undefined, remaining: 0, hasReset: false, resetSeconds: 0 });
});

// Each part of a call with a blocked caller, in every order: the block refuses the call, its reports are kept, the rest is not asked.
const PARTS = [
  { entries: { tenant: "blocked" } },
  { entries: { tenant: "other" } },
  { entries: { tokens: "x" }, hits: 7 },
  { entries: { nobody: "x" } },
] as const;

test.each(orders([0, 1, 2, 3]).map((order) => ({ order })))(
  "a call with a blocked caller is answered and counted alike in the order $order",
  ({ order }) => {
    const marked = new MarkedCalls(undefined);
    const openStore = (clock: ManualClock) => new MemoryStore({ clock });
    const rig = new LimiterRig(RULES, { openStore, openListener: () => marked });
    rig.set({ tenant: "blocked" }, BLOCK);
    const call = rig.begin(
      order.map((part) => PARTS[part] as (typeof PARTS)[number]),
      0,
      "edge",
    );
    rig.limiter.decide(call, Number.POSITIVE_INFINITY);
    expect(call.decision.overLimit).toBe(true);
    expect(marked).toMatchObject({ blocked: 1, shadowed: 0 });
    const shown = call.decision.statuses.map(({ overLimit, remaining }) => [overLimit, remaining]);
    expect(order.map((_, part) => shown[order.indexOf(part)])).toEqual([
      [true, 0],
      [false, 0],
      [false, 93],
      [false, 0],
    ]);
    expect(call.unmatched).toEqual([order.indexOf(3)]);
    expect(call.domain?.stats.descriptors).toBe(1);
    expect(rig.statsBook.stats.get("edge|tenant|")).toMatchObject({ totalHits: 0 });
  },
);

function orders(parts: readonly number[]): readonly (readonly number[])[] {
  if (parts.length < 2) return [parts];
  return parts.flatMap((part) => orders(parts.filter((each) => each !== part)).map((rest) => [part, ...rest]));
}
