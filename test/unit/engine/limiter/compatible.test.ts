// What the recorded answers of envoyproxy/ratelimit (test/vectors) say nothing of: the global limit, which the reference has not,
// and whose headers a call gets among its quota descriptors.

import { expect, test } from "vitest";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const RULES = `
domain: edge
global_limit: { requests_per_unit: 50, unit: hour, algorithm: fixed_window }
descriptors:
  - { key: two, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: ghost, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
`;

test.each([
  { name: "the global limit if it has no other one", asked: ["nothing"], governs: "edge#global" },
  { name: "its own limit before the global one", asked: ["two"], governs: "edge/two" },
  { name: "a refusing one before a quota descriptor that is over", asked: ["q1", "two", "q1"], governs: "edge/two" },
])("a call has the headers of $name", ({ asked, governs }) => {
  const rig = new LimiterRig(RULES, { compatible: true });
  const descriptors = asked.map((key, i) => ({ entries: { [key]: String(i) } }));
  expect(rig.ask(descriptors, asked.length).governing).toBe(governs);
});

test("a shadow rule that the local cache denies still passes", () => {
  const rig = new LimiterRig(RULES, { compatible: true, localCacheBytes: 1 });
  rig.hit({ ghost: "a" }, 2);
  expect(rig.hit({ ghost: "a" })).toMatchObject({ over: false, statuses: [{ over: false, remaining: 0 }] });
  expect(rig.statsBook.stats.get("edge|ghost|")).toMatchObject({ shadowMode: 2, overLimitWithLocalCache: 1 });
});

test.each([
  { name: "refuses a call", options: {}, over: true },
  { name: "lets a call pass under SHADOW_MODE", options: { shadowMode: true }, over: false },
])("what the local cache denies $name", ({ options, over }) => {
  // Without the global limit, which a store would have to answer.
  const rules = RULES.replace(/^global_limit.*$/m, "");
  const rig = new LimiterRig(rules, { compatible: true, localCacheBytes: 1, ...options });
  rig.hit({ two: "a" }, 3);
  const asked = rig.store.seen.length;
  expect(rig.hit({ two: "a" })).toMatchObject({ over, statuses: [{ over: true, remaining: 0 }] });
  expect(rig.store.seen).toHaveLength(asked);
});
