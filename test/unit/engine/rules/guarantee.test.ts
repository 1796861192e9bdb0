// What `check` says about a guarantee that is not kept.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { compileYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

interface Numbers {
  readonly rate: number;
  readonly burst: number;
  readonly ownRate: number;
  readonly ownBurst: number;
  readonly keep: number;
  readonly callers: number;
}

/** Decimals of both sides, far above and below 1 a second. */
const rates = fc
  .tuple(fc.integer({ min: 1, max: 9_999 }), fc.constantFrom(1e-4, 1e-3, 1e-2, 0.1, 1, 10))
  .map(([digits, unit]) => Number((digits * unit).toPrecision(4)));

const numbers: fc.Arbitrary<Numbers> = fc
  .record({
    rate: rates,
    more: fc.integer({ min: 0, max: 500 }),
    ownRate: rates,
    ownBurst: fc.integer({ min: 1, max: 40 }),
    keep: fc.integer({ min: 1, max: 99 }),
    callers: fc.integer({ min: 1, max: 400 }),
  })
  .map(({ more, ...rest }) => ({ ...rest, burst: Math.ceil(rest.rate) + more }));

function check({ rate, burst, ownRate, ownBurst, keep, callers }: Numbers): string {
  const guarantee = { entry: "tenant", tokens_per_second: ownRate, burst: ownBurst, keep: `${keep}%`, callers };
  const limit = { tokens_per_second: rate, burst: Math.max(burst, Math.ceil(rate)), guarantee };
  return compileYaml(JSON.stringify({ domain: "edge", global_limit: limit }))
    .problems.map(formatProblem)
    .join("\n");
}

describe("advice about a guarantee that is not kept", () => {
  // Promise(sharing): The numbers that `check` advises keep the guarantee, whichever of them are taken.
  test.each(["lower", "raise"] as const)("keeps it for the callers that the file names: %s", (way) => {
    let advised = 0;
    fc.assert(
      fc.property(numbers, (written) => {
        const said = check(written);
        fc.pre(said !== "");
        const number = (text: string) =>
          Number(new RegExp(`${text} to ([\\d.e-]*\\d)`, "i").exec(said)?.[1] ?? Number.NaN);
        const or = (advice: number, otherwise: number) => (Number.isNaN(advice) ? otherwise : advice);
        const raised = {
          rate: or(number("raise the shared rate"), written.rate),
          burst: or(number("raise the shared burst"), written.burst),
        };
        const ownBurst = number("lower burst");
        const ownRate = number("lower tokens_per_second");
        // What can't be lowered far enough is raised.
        const lowered = {
          ownBurst: or(ownBurst, written.ownBurst),
          ownRate: or(ownRate, written.ownRate),
          burst: Number.isNaN(ownBurst) ? raised.burst : written.burst,
          rate: Number.isNaN(ownRate) ? raised.rate : written.rate,
        };
        const taken = { ...written, ...(way === "lower" ? lowered : raised) };
        expect(taken).not.toEqual(written);
        expect(check(taken)).toBe("");
        advised++;
      }),
      { numRuns: runs(300) },
    );
    expect(advised).toBeGreaterThan(0);
  });
});
