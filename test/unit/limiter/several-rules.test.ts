// Rules that meet in one call, and the ways to write a token bucket, as a caller sees them.

import { describe, expect, test } from "vitest";
import { LimiterRig } from "../../support/limiter-rig.ts";

describe("a limit per endpoint and one per tier", () => {
  const RULES = `
domain: edge
descriptors:
  - { key: path, value: /search, rate_limit: { name: search, requests_per_unit: 3, unit: hour } }
  - { key: path, rate_limit: { name: paths, requests_per_unit: 100, unit: hour } }
  - key: plan
    value: gold
    descriptors: [{ key: user, rate_limit: { name: gold, requests_per_unit: 50, unit: hour } }]
  - key: plan
    descriptors: [{ key: user, rate_limit: { name: others, requests_per_unit: 2, unit: hour } }]
`;
  const asking = (path: string, plan: string) => [{ entries: { path } }, { entries: { plan, user: "u" } }];
  const passed = (path: string, plan: string) => {
    const rig = new LimiterRig(RULES);
    return Array.from({ length: 60 }, () => rig.ask(asking(path, plan))).filter(({ over }) => !over).length;
  };

  test.each([
    { path: "/search", plan: "gold", allowed: 3 },
    { path: "/search", plan: "free", allowed: 2 },
    { path: "/home", plan: "gold", allowed: 50 },
    { path: "/home", plan: "free", allowed: 2 },
  ])("of the two for $path and $plan the strictest decides", ({ path, plan, allowed }) => {
    expect(passed(path, plan)).toBe(allowed);
  });
});

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
