// Suggested holds against recordings of which all is known: they cover the share of calls that was asked for, and rules with them
// refuse no more callers than the percentile leaves.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RecordedCall } from "../../src/tools/mirror/read-recording.ts";
import { messageOf } from "../../src/tools/simulate/question.ts";
import { reportOf } from "../../src/tools/simulate/report.ts";
import { Simulation } from "../../src/tools/simulate/simulation.ts";
import { rulesText } from "../../src/tools/simulate/suggest/rules-text.ts";
import type { Shape } from "../../src/tools/simulate/suggest/shapes.ts";
import { suggest } from "../../src/tools/simulate/suggest/suggest.ts";
import { PLAIN_SETTINGS } from "../support/recorded-service.ts";
import { callsOfStreams, drawnStreams, type RecordedStream } from "../support/recorded-streams.ts";
import { compileYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

const NAMES = { id: "request_id", estimate: "max_tokens", settle: "settle" };
/** What 1 - 0.9 lacks of a tenth. */
const ROUNDING = 1e-9;

function textOf(shapes: readonly Shape[], isForRecording: boolean): string {
  return rulesText("llm", shapes, { noteOf: () => [], names: NAMES, isForRecording });
}

function compiled(shapes: readonly Shape[], isForRecording: boolean) {
  const { ruleSet, problems } = compileYaml(textOf(shapes, isForRecording));
  if (ruleSet === undefined) throw new Error(JSON.stringify(problems));
  expect(problems).toEqual([]);
  return ruleSet;
}

async function suggested(calls: readonly RecordedCall[], share: number, headroom: number) {
  return suggest({
    share,
    headroom,
    settings: PLAIN_SETTINGS,
    holdNames: NAMES,
    compile: (shapes) => compiled(shapes, true),
    async *openCalls() {
      yield calls;
    },
  });
}

const share = fc.constantFrom(0.01, 0.5, 0.9, 0.99, 1);
const headroom = fc.constantFrom(1, 1.2, 3);

/** The number that a share of all do not exceed. */
function quantile(numbers: readonly number[], of: number): number {
  const sorted = numbers.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(of * sorted.length) - 1)] ?? 0;
}

const withNumber = ({ reports }: RecordedStream) => reports === "once" || reports === "twice";

describe("a suggested hold", () => {
  // Promise(simulations): A suggested hold covers the share of calls that was asked for.
  test("covers the share of calls that was asked for", async () => {
    await fc.assert(
      fc.asyncProperty(drawnStreams(80), share, headroom, async (streams, chosen, room) => {
        fc.pre(streams.some(({ reports }) => reports !== "never"));
        const [shape, ...others] = (await suggested(callsOfStreams(streams), chosen, room)).shapes;
        expect([others, shape?.keys, shape?.calls]).toEqual([[], ["tenant"], streams.length]);
        const hold = shape?.use?.hold;
        if (hold === undefined) throw new Error("expected a hold");
        const known = streams.filter(withNumber).map(({ used }) => used);
        const most = Math.max(0, ...known);
        // Numbers up to 256 are kept exactly.
        expect(hold.max).toBe(Math.max(1, Math.ceil(most * room)));
        expect(hold.default).toBe(Math.max(1, Math.ceil(quantile(known, chosen) * room)));
        const covered = known.filter((used) => used <= hold.default).length;
        expect(covered).toBeGreaterThanOrEqual(chosen * known.length - ROUNDING);
        const longestMs = Math.max(
          ...streams.filter(({ reports }) => reports !== "never").map(({ takesUs }) => Math.ceil(takesUs / 1_000)),
        );
        expect(hold.seconds).toBe(Math.max(1, Math.ceil(Math.ceil(longestMs / 1_000) * room)));
        expect(shape?.burst).toBeGreaterThanOrEqual(hold.max);
      }),
      { numRuns: runs(40) },
    );
  });

  // Promise(simulations): Suggested rules compile, and refuse no more callers than the percentile leaves.
  test("with its limit refuses no more callers than the percentile leaves", async () => {
    await fc.assert(
      fc.asyncProperty(drawnStreams(60), share, headroom, async (streams, chosen, room) => {
        fc.pre(streams.some(({ reports }) => reports !== "never"));
        const calls = callsOfStreams(streams);
        const { shapes } = await suggested(calls, chosen, room);
        const simulation = new Simulation({ ruleSet: compiled(shapes, false), settings: PLAIN_SETTINGS });
        for (const call of calls) simulation.feed(call);
        const [limit] = reportOf(simulation).limits;
        expect(limit?.asked).toBe(streams.length);
        expect(limit?.callers_refused ?? -1).toBeLessThanOrEqual((1 - chosen) * (limit?.callers ?? 0) + ROUNDING);
        expect(limit?.holds?.opened).toBe(streams.length - (limit?.refused ?? 0));
      }),
      { numRuns: runs(40) },
    );
  });

  test("comes of final numbers, too, where nothing says when calls end", async () => {
    const used = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 50 });
    await fc.assert(
      fc.asyncProperty(used, share, fc.boolean(), async (numbers, chosen, states) => {
        fc.pre(Math.max(...numbers) > 1);
        const calls = numbers.map((hits, i) => {
          const entries = [["tenant", "ann"], ...(states ? [["max_tokens", "5"]] : [])] as [string, string][];
          return {
            atUs: i * 1_000_000,
            message: messageOf({ domain: "llm", descriptors: [{ entries, hits }], hitsAddend: 0 }),
          };
        });
        const [shape] = (await suggested(calls, chosen, 1)).shapes;
        const usual = quantile(numbers, chosen);
        expect(shape?.use?.hold).toEqual({ default: usual, max: Math.max(...numbers), seconds: 600 });
        // Each call pays what it has used when it comes, and no more: that is what the limit has to bear.
        const all = numbers.reduce((sum, one) => sum + one, 0);
        expect(shape?.burst).toBeGreaterThanOrEqual(Math.max(...numbers));
        expect(shape?.burst).toBeLessThanOrEqual(all);
        compiled([shape as Shape], false);
      }),
      { numRuns: runs(30) },
    );
  });

  test("is not made where nothing says what calls have used", async () => {
    const calls = (entries: readonly (readonly [string, string])[]) =>
      [1, 2, 3].map((i) => ({
        atUs: i,
        message: messageOf({
          domain: "llm",
          descriptors: [{ entries: [["tenant", "ann"], ...entries] }],
          hitsAddend: 0,
        }),
      }));
    const begins = await suggested(calls([["request_id", "r1"]]), 1, 1);
    expect([begins.shapes, begins.neverEnded]).toEqual([[], 1]);
    const plain = await suggested(calls([]), 1, 1);
    expect([plain.shapes.map(({ use }) => use), plain.neverEnded]).toEqual([[undefined], 0]);
  });
});
