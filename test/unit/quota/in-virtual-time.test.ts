// What two or more simulated Envoys get of 200/s with a burst of 200, second by second.

import { describe, expect, test } from "vitest";
import { makeLimit } from "../../support/builders.ts";
import { type Change, QuotaWorld, type Schedule } from "../../support/quota-world.ts";

const LIMIT = makeLimit({ amount: 200, burst: 200, windowSeconds: 1 });

const demand = (envoy: number, atSecond: number, perSecond: number): Change => ({
  atMs: atSecond * 1_000,
  envoy,
  does: { kind: "demand", perSecond },
});

function run(schedule: Partial<Schedule>, limit = LIMIT): QuotaWorld {
  return new QuotaWorld(limit, { seconds: 40, envoys: 2, changes: [], asked: [], delaysMs: [3], ...schedule }).run();
}

describe("a handed-out limit", () => {
  // Promise(quota): Steady demand above a limit uses at least 97 % of it, two reports after the last change.
  test.each<[name: string, changes: readonly Change[], asked: number]>([
    ["one Envoy", [demand(0, 0, 300)], 0],
    ["two, of which one wants little", [demand(0, 0, 300), demand(1, 0, 50)], 0],
    ["two that want all", [demand(0, 0, 300), demand(1, 3, 300)], 0],
    ["demand that turns", [demand(0, 0, 300), demand(1, 0, 50), demand(0, 20, 50), demand(1, 20, 300)], 0],
    ["callers that ask for half of it", [demand(0, 0, 300), demand(1, 0, 300)], 100],
    ["callers that ask for all of it", [demand(0, 0, 300), demand(1, 0, 300)], 1_000],
  ])("is used: %s", (_, changes, perSecond) => {
    const world = run({ changes, asked: new Array<number>(40).fill(perSecond) });
    expect(world.total(31, 40) / 9).toBeGreaterThanOrEqual(194);
    expect(world.total(31, 40) / 9).toBeLessThanOrEqual(206);
  });

  // Promise(quota): If demand turns, each Envoy has its new part one report and a second later.
  test("follows demand that turns", () => {
    const world = run({ changes: [demand(0, 0, 300), demand(1, 0, 50), demand(0, 20, 50), demand(1, 20, 300)] });
    expect(world.of(0, 19, 20)).toBeGreaterThan(140);
    expect(world.of(1, 26, 27)).toBeGreaterThan(120);
    expect(world.of(1, 31, 32)).toBeGreaterThan(140);
    expect(world.of(0, 26, 27)).toBeGreaterThanOrEqual(49);
  });

  // Promise(quota): What a dead Envoy had stays paid until it expires, 15 s; then the others get it.
  test("gives a dead Envoy's part away when it has expired", () => {
    const world = run({
      changes: [demand(0, 0, 300), demand(1, 0, 300), { atMs: 16_000, envoy: 0, does: { kind: "dies" } }],
    });
    expect(world.of(1, 24, 25)).toBeLessThan(105);
    expect(world.of(1, 36, 37)).toBeGreaterThan(190);
  });

  test("does not lose a part to a cut stream: its Envoy comes back to it", () => {
    const world = run({
      changes: [demand(0, 0, 300), demand(1, 0, 300), { atMs: 16_000, envoy: 0, does: { kind: "cut" } }],
    });
    for (let second = 15; second < 30; second++) expect(world.total(second, second + 1)).toBeGreaterThan(190);
    expect(world.book.partCount).toBe(2);
  });

  // In any order: the one that comes back first must not get what the other one spends on.
  test.each([12_000, 16_000])(
    "keeps the bound when an Envoy without tokens comes back before one that has them",
    (atMs) => {
      const limit = makeLimit({ amount: 5, burst: 8, windowSeconds: 1 });
      const cut = (envoy: number): Change => ({ atMs, envoy, does: { kind: "cut" } });
      const world = run({ changes: [demand(0, 0, 90), demand(1, 2, 90), cut(0), cut(1)] }, limit);
      expect(world.worstBurst()).toBeLessThanOrEqual(10 + 1e-6);
    },
  );

  // Promise(quota): Each Envoy keeps its floor, whatever callers that ask want.
  test("leaves a floor to Envoys under a flood of calls that ask", () => {
    const world = run({ changes: [demand(0, 0, 300)], asked: new Array<number>(40).fill(5_000) });
    expect(world.of(0, 20, 40)).toBeGreaterThanOrEqual(35);
  });

  // Promise(quota): Only floor(burst / 8) Envoys hold tokens of a limit; the others are denied, and operators are told.
  test("denies Envoys for which the burst has no token", () => {
    const limit = makeLimit({ amount: 20, burst: 20, windowSeconds: 1 });
    const world = run({ envoys: 4, changes: [0, 1, 2, 3].map((envoy) => demand(envoy, 0, 30)) }, limit);
    expect([0, 1, 2, 3].map((envoy) => world.of(envoy, 30, 40) > 0)).toEqual([true, true, false, false]);
    expect(
      [...world.book.buckets.values()].flatMap(({ parts }) => [...parts]).filter((part) => part.isLeftOut),
    ).toHaveLength(2);
  });

  test("takes an idle Envoy's part back, and serves it when it comes again", () => {
    const world = run({ seconds: 100, changes: [demand(0, 0, 50), demand(0, 5, 0), demand(0, 80, 50)] });
    expect(world.of(0, 82, 90)).toBeGreaterThan(380);
  });
});
