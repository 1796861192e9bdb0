// Calls whose sliding log has no room in memory: each limit's on_store_failure decides them, other limits go on.

import { expect, test } from "vitest";
import { LOG_BLOCK_BYTES as BLOCK_BYTES } from "../../../../src/stores/memory/buckets.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";

const RULES = `
domain: edge
descriptors:
  - { key: allow, on_store_failure: allow, rate_limit: { requests_per_unit: 5, unit: minute, algorithm: sliding_log } }
  - { key: deny, on_store_failure: deny, rate_limit: { requests_per_unit: 5, unit: minute, algorithm: sliding_log } }
  - { key: local, on_store_failure: local, rate_limit: { requests_per_unit: 1, unit: minute, algorithm: sliding_log } }
  - { key: shadow, shadow_mode: true, on_store_failure: deny, rate_limit: { requests_per_unit: 5, unit: minute, algorithm: sliding_log } }
  - { key: other, rate_limit: { requests_per_unit: 2, unit: minute } }
`;

// Promise(limits): A call that a sliding log has no room for gets that limit's `on_store_failure`; other limits count as usual.
test.each([
  { key: "allow", over: [false, false] },
  { key: "deny", over: [true, true] },
  { key: "local", over: [false, true] },
  { key: "shadow", over: [false, false] },
])("a call without room is decided by its limit's own policy: $key", ({ key, over }) => {
  const rig = new LimiterRig(RULES, { openStore: (clock) => new MemoryStore({ clock, logBytesMax: BLOCK_BYTES }) });
  const ask = (...entries: Record<string, string>[]) => {
    const call = rig.begin(
      entries.map((one) => ({ entries: one })),
      1,
      "edge",
    );
    rig.limiter.decide(call, Number.POSITIVE_INFINITY);
    return call.decision.overLimit;
  };
  expect(ask({ allow: "first" })).toBe(false);
  expect([ask({ [key]: "second" }), ask({ [key]: "second" })]).toEqual(over);
  const degraded = rig.observer.events.filter((event) => event.startsWith("degraded"));
  expect(degraded.length).toBeGreaterThan(0);
  expect(degraded.every((event) => event.endsWith("STORE_LOGS_FULL"))).toBe(true);
  // What has a place goes on, and the call's other limit is paid once for each call that passes.
  expect([1, 2, 3, 4, 5].map(() => ask({ allow: "first" }))).toEqual([false, false, false, false, true]);
  const beside = [1, 2, 3].map(() => ask({ [key]: "third" }, { other: "a" }));
  expect(beside).toEqual(
    key === "deny" ? [true, true, true] : key === "local" ? [false, true, true] : [false, false, true],
  );
  expect(ask({ other: "a" })).toBe(key === "allow" || key === "shadow");
});
