// Which of two Redis servers keeps a limit (REDIS_PERSECOND) hangs on how its window is written, not on its numbers.

import fc from "fast-check";
import { expect, test } from "vitest";
import { perSecondShard } from "../../../../src/process/app/open-store.ts";
import { rulesFromYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

/** The shard of a limit with that text, and what its bucket keys end with. */
function placed(text: string): { shard: number; keySuffix: string } {
  const rules = rulesFromYaml(`domain: edge\ndescriptors:\n  - { key: k, rate_limit: { ${text} } }\n`);
  const limit = [...(rules.domains.get("edge")?.limits ?? [])][0];
  if (limit === undefined) throw new Error(`expected a limit in ${text}`);
  return { shard: perSecondShard({ limit }), keySuffix: limit.keySuffix };
}

const amounts = fc.integer({ min: 1, max: 100_000 });
const algorithms = fc.constantFrom("token_bucket", "sliding_window", "fixed_window");
const rates = fc.tuple(amounts, fc.nat(3)).map(([amount, decimals]) => String(amount / 10 ** decimals));

// Promise(redis): Editing a number never moves a bucket to the other of two servers.
test("no edit of a rate or an amount moves a bucket to the other server", () => {
  const windows = fc.constantFrom(
    "unit: second",
    "unit: minute",
    "unit: hour",
    "unit: day",
    "window: 90s",
    "window: 1s",
  );
  fc.assert(
    fc.property(windows, algorithms, amounts, amounts, (window, algorithm, amount, edited) => {
      const textOf = (number: number) => `requests_per_unit: ${number}, ${window}, algorithm: ${algorithm}`;
      const isPerSecond = window === "unit: second" || window === "window: 1s";
      expect(placed(textOf(amount)).shard).toBe(isPerSecond ? 1 : 0);
      expect(placed(textOf(edited))).toEqual(placed(textOf(amount)));
    }),
    { numRuns: runs(200) },
  );
});

test("tokens per second are limits per second, whatever their number", () => {
  fc.assert(
    fc.property(rates, (rate) => {
      expect(placed(`tokens_per_second: ${rate}, burst: 200000`).shard).toBe(1);
    }),
    { numRuns: runs(200) },
  );
});
