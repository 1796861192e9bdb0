// What a simulation says of holds, against streams of which all is known: what became of each, what was held too much or too
// little, and how large a budget would have had to be.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Mode, type Take } from "../../src/engine/domain/take.ts";
import { reportOf } from "../../src/tools/simulate/report.ts";
import { Simulation } from "../../src/tools/simulate/simulation.ts";
import { PLAIN_SETTINGS } from "../support/recorded-service.ts";
import { callsOfStreams, drawnStreams, type RecordedStream } from "../support/recorded-streams.ts";
import { rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

const TTL_US = 60_000_000;
const DEFAULT = 25;
const MAX = 50;

/** Simulates the streams under one limit; tells which streams were let in. */
function simulated(streams: readonly RecordedStream[], limit: object) {
  const hold = { id: "request_id", estimate: "max_tokens", default: DEFAULT, max: MAX, ttl: "60s" };
  const rules = { domain: "llm", descriptors: [{ key: "tenant", hold, ...limit }] };
  const admitted = new Set<string>();
  const left = new Map<string, number>();
  const simulation = new Simulation({
    ruleSet: rulesFromYaml(JSON.stringify(rules)),
    settings: PLAIN_SETTINGS,
    onDecided: ({ group, request }) => {
      const [take] = group.takes as [Take];
      left.set(request.descriptors[0]?.values[0] ?? "", take.remaining);
      if (take.mode === Mode.pay && take.paid) admitted.add(take.holdId);
    },
  });
  const calls = callsOfStreams(streams);
  for (const call of calls) simulation.feed(call);
  const report = reportOf(simulation);
  void simulation.close();
  return { report, limit: report.limits[0], admitted, left, endUs: calls.at(-1)?.atUs ?? 0 };
}

const window = (amount: number) => ({
  rate_limit: { requests_per_unit: amount, unit: "year", algorithm: "fixed_window" },
});
const held = ({ stated }: RecordedStream) => (stated === undefined ? DEFAULT : Math.min(stated, MAX));

/** What must be told of streams of which those were let in. */
function expected(streams: readonly RecordedStream[], admitted: ReadonlySet<string>, endUs: number) {
  const open = streams.filter(({ id }) => admitted.has(id));
  const reports = (stream: RecordedStream) => stream.reports !== "never";
  const isInTime = (stream: RecordedStream) => reports(stream) && stream.takesUs < TTL_US;
  const usedBy = (stream: RecordedStream) => (stream.reports === "without a number" ? held(stream) : stream.used);
  const settled = open.filter(isInTime);
  const late = open.filter((stream) => reports(stream) && !isInTime(stream));
  const unsettled = open.filter((stream) => !isInTime(stream));
  const live = unsettled.filter(({ atUs }) => atUs + TTL_US > endUs);
  const off = settled.map((stream) => usedBy(stream) - held(stream));
  const above = off.filter((hits) => hits > 0);
  const below = off.filter((hits) => hits < 0);
  const sum = (hits: readonly number[]) => hits.reduce((all, one) => all + one, 0);
  return {
    opened: open.length,
    settled: settled.length,
    settled_below: below.length,
    unused_hits: sum(below.map(Math.abs)),
    settled_above: above.length,
    exceeded_hits: sum(above),
    exceeded_hits_max: Math.max(0, ...above),
    expired: unsettled.length - live.length,
    live: live.length,
    late_settlements: late.length,
    late_hits: sum(late.map(usedBy)),
    repeated_settlements: open.filter(({ reports }) => reports === "twice").length,
    settlements_of_refused: sum(
      streams
        .filter(({ id }) => !admitted.has(id))
        .map((stream) => (stream.reports === "twice" ? 2 : reports(stream) ? 1 : 0)),
    ),
    spent: sum(settled.map(usedBy)) + sum(late.map(usedBy)) + sum(live.map(held)),
  };
}

describe("a simulation of holds", () => {
  // Promise(simulations): A simulation says what became of each hold, and by how much estimates were off.
  test("says what became of each, also of those that it refuses", () => {
    fc.assert(
      fc.property(drawnStreams(60), fc.constantFrom(60, 200, 1_000_000), (streams, amount) => {
        const { limit, admitted, endUs } = simulated(streams, window(amount));
        const { spent: _, ...holds } = expected(streams, admitted, endUs);
        expect(limit?.holds).toEqual(holds);
        expect(limit?.refused).toBe(streams.length - admitted.size);
      }),
      { numRuns: runs(80) },
    );
  });

  // Promise(simulations): What calls would settle that a simulation refuses is charged to nobody.
  test("charges what calls that it lets in have used, and nothing of those that it refuses", () => {
    fc.assert(
      fc.property(drawnStreams(40), fc.constantFrom(60, 200), (drawn, amount) => {
        const streams = drawn.map((stream) => ({ ...stream, tenant: "ann" }));
        const last = { id: "last", tenant: "ann", takesUs: 0, stated: 1, used: 0, reports: "once" } as const;
        const endUs = (callsOfStreams(streams).at(-1)?.atUs ?? 0) + 1;
        const { admitted, left } = simulated([...streams, { ...last, atUs: endUs }], window(amount));
        const { spent } = expected(streams, admitted, endUs);
        expect(left.get("ann")).toBe(Math.max(0, amount - spent));
      }),
      { numRuns: runs(80) },
    );
  });

  test("counts places, too", () => {
    fc.assert(
      fc.property(drawnStreams(60), fc.integer({ min: 1, max: 8 }), (streams, concurrent) => {
        const { limit, admitted, endUs } = simulated(streams, { concurrent });
        const { opened, settled, expired, live } = expected(streams, admitted, endUs);
        expect(limit?.holds).toMatchObject({ opened, settled, expired, live });
        expect(limit?.holds).toMatchObject({ settled_below: 0, settled_above: 0, late_hits: 0 });
      }),
      { numRuns: runs(40) },
    );
  });
});

const limits = fc.constantFrom<((size: number) => object)[]>(
  window,
  (burst) => ({ rate_limit: { tokens_per_second: 1, burst } }),
  (concurrent) => ({ concurrent }),
);

// Promise(simulations): The smallest burst, budget or number of places that a simulation reports refuses nobody, and one less somebody.
test("the smallest burst of a limit with holds refuses nobody, and one less refuses somebody", () => {
  fc.assert(
    fc.property(drawnStreams(50), limits, (streams, limitOf) => {
      const smallest = simulated(streams, limitOf(30)).limit?.smallest_burst ?? 0;
      expect(smallest).toBeGreaterThan(0);
      expect(simulated(streams, limitOf(smallest)).limit?.refused).toBe(0);
      if (smallest > 1) expect(simulated(streams, limitOf(smallest - 1)).limit?.refused).toBeGreaterThan(0);
    }),
    { numRuns: runs(60) },
  );
});
