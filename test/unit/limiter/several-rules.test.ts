// Rules that meet in one call, and the ways to write a token bucket, as a caller sees them.

import { describe, expect, test } from "vitest";
import { LimiterRig } from "../../support/limiter-rig.ts";

describe("a token bucket", () => {
  const allowed = (limit: string) => {
    const rig = new LimiterRig(`domain: edge\ndescriptors:\n  - { key: a, rate_limit: { ${limit} } }\n`);
    const hits = () => Array.from({ length: 50 }, () => rig.hit({ a: "x" })).filter(({ over }) => !over).length;
    const atOnce = hits();
    rig.clock.advanceSeconds(2);
    return [atOnce, hits()];
  };

  // Promise(rules): `tokens_per_second` and `rps` mean the same; the burst is the rate unless given.
  test.each([
    { limit: "tokens_per_second: 10", expected: [10, 10] },
    { limit: "rps: 10", expected: [10, 10] },
    { limit: "rps: 10, burst: 30", expected: [30, 20] },
  ])("of $limit starts full and refills at its rate up to its burst", ({ limit, expected }) => {
    expect(allowed(limit)).toEqual(expected);
  });
});
