// Suggested limits keep their word: rule files compile without a problem, and simulated on the same calls each limit refuses no
// larger share of its callers than was chosen.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { reportOf } from "../../src/tools/simulate/report.ts";
import { Simulation } from "../../src/tools/simulate/simulation.ts";
import { CallerPeaks, callersLeft } from "../../src/tools/simulate/suggest/caller-peaks.ts";
import { rulesText } from "../../src/tools/simulate/suggest/rules-text.ts";
import type { Shape } from "../../src/tools/simulate/suggest/shapes.ts";
import { suggest } from "../../src/tools/simulate/suggest/suggest.ts";
import { type DrawnCall, drawnCalls } from "../support/recorded-calls.ts";
import { PLAIN_SETTINGS } from "../support/recorded-service.ts";
import { compileYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

/** What 1 - 0.9 lacks of a tenth. */
const ROUNDING = 1e-9;

function compiled(shapes: readonly Shape[]) {
  const domains = [...new Set(shapes.map(({ domain }) => domain))];
  const { ruleSet, problems } = compileYaml(
    domains.map((domain) =>
      rulesText(
        domain,
        shapes.filter((shape) => shape.domain === domain),
        { noteOf: () => ["a note"] },
      ),
    ),
  );
  if (ruleSet === undefined) throw new Error(JSON.stringify(problems));
  return { ruleSet, problems };
}

async function suggested(calls: readonly DrawnCall[], share: number, headroom: number) {
  return suggest({
    share,
    headroom,
    settings: PLAIN_SETTINGS,
    compile: (shapes) => compiled(shapes).ruleSet,
    async *openCalls() {
      yield calls;
    },
  });
}

describe("suggested limits", () => {
  const share = fc.constantFrom(0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 1);
  const headroom = fc.constantFrom(1, 1.2, 3);

  // Promise(simulations): Suggested rules compile, and refuse no more callers than the percentile leaves.
  test("compile, and refuse no more callers than the percentile says", async () => {
    await fc.assert(
      fc.asyncProperty(drawnCalls(80, false), share, headroom, async (calls, chosen, room) => {
        const { shapes } = await suggested(calls, chosen, room);
        fc.pre(shapes.length > 0);
        const { ruleSet, problems } = compiled(shapes);
        expect(problems).toEqual([]);
        const simulation = new Simulation({ ruleSet, settings: PLAIN_SETTINGS });
        for (const call of calls) simulation.feed(call);
        const { limits } = reportOf(simulation);
        expect(limits.length).toBe(shapes.length);
        for (const limit of limits) {
          expect(limit.callers_refused).toBeLessThanOrEqual((1 - chosen) * limit.callers + ROUNDING);
        }
      }),
      { numRuns: runs(20) },
    );
  });

  test("are made of the first callers where there are too many", () => {
    const left = callersLeft(2);
    const kinds = [new CallerPeaks(left), new CallerPeaks(left)];
    for (const kind of kinds) for (const name of ["a", "b", "a"]) kind.count(name, 1, 0);
    expect([kinds.map((kind) => kind.peakOf(1)), left.isExceeded]).toEqual([[2, 0], true]);
  });
});
