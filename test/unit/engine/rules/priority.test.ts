// Calls of high and of low priority on one limit: who pays what, what each is told, and what else the rule says of both.
// test/property/priorities.test.ts holds the arithmetic; here is what stands around it.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { Algorithm, type Limit } from "../../../../src/engine/domain/limit.ts";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const PRIORITY = "priority: { entry: class, high: 20% }";
const TENANT = `
domain: edge
descriptors:
  - { key: tenant, rate_limit: { requests_per_unit: 10, unit: minute, algorithm: fixed_window, ${PRIORITY} } }
`;
const low = { entries: { tenant: "acme" } };
const high = { entries: { tenant: "acme", class: "high" } };

const times = (rig: LimiterRig, count: number, asked: AskedDescriptor) =>
  Array.from({ length: count }, () => rig.ask([asked]).over);
const passed = (rig: LimiterRig, asked: AskedDescriptor) => times(rig, 20, asked).filter((isOver) => !isOver).length;

describe("a limit with a priority", () => {
  test("shows each what it may use: the limit, what is left of it, and by which name", () => {
    const rig = new LimiterRig(TENANT);
    expect(rig.ask([low])).toMatchObject({
      governing: "edge/tenant#low",
      statuses: [{ amount: 8, remaining: 7 }],
    });
    expect(rig.ask([high])).toMatchObject({ governing: "edge/tenant", statuses: [{ amount: 10, remaining: 8 }] });
  });

  test("counts them apart", () => {
    const rig = new LimiterRig(TENANT);
    times(rig, 9, low);
    times(rig, 1, high);
    expect(rig.statsBook.stats.get("edge|tenant|low")).toMatchObject({ totalHits: 9, withinLimit: 8, overLimit: 1 });
    expect(rig.statsBook.stats.get("edge|tenant|")).toMatchObject({ totalHits: 1, withinLimit: 1, overLimit: 0 });
  });

  test("is one bucket of the tenant, whatever the entry says and wherever it is", () => {
    const rig = new LimiterRig(TENANT);
    for (const entries of [
      { tenant: "acme" },
      { class: "high", tenant: "acme" },
      { tenant: "acme", class: "low" },
      { tenant: "acme", class: "" },
    ])
      rig.ask([{ entries }]);
    expect(rig.store.seen).toEqual(Array(4).fill(["{edge|tenant=acme}|fw/60"]));
    expect(rig.ask([low]).statuses[0]?.remaining).toBe(3);
  });

  test("charges what is reported after the fact whatever it leaves, and asks before by what is kept", () => {
    const rig = new LimiterRig(TENANT.replace("key: tenant,", "key: tenant, post_paid: true,"));
    expect(rig.ask([{ ...low, hits: 9 }]).over).toBe(false);
    expect(rig.ask([{ ...low, hits: 0 }]).over).toBe(true);
    expect(rig.ask([{ ...high, hits: 0 }]).over).toBe(false);
  });

  test("holds estimates by it, and settles them whatever the settlement says of priority", () => {
    const rig = new LimiterRig(TENANT.replace("key: tenant,", "key: tenant, hold: { id: id, ttl: 60s },"));
    const asked = (priority: object, id: string, hits: number) => ({
      entries: { tenant: "acme", id, ...priority },
      hits,
    });
    expect(rig.ask([asked({}, "a", 8)]).over).toBe(false);
    expect(rig.ask([asked({}, "b", 1)]).over).toBe(true);
    expect(rig.ask([asked({ class: "high" }, "c", 2)]).over).toBe(false);
    expect(rig.ask([asked({ settle: "1" }, "c", 1)]).over).toBe(false);
    expect(rig.ask([asked({ settle: "1" }, "a", 0)]).over).toBe(false);
    expect(rig.ask([{ ...high, hits: 0 }]).statuses[0]?.remaining).toBe(9);
  });

  // Promise(tiers): While the store is away, each process keeps its share of the part for high priority.
  test("without an answer of the store each process keeps its part of it", () => {
    const rig = new LimiterRig(TENANT.replace("key: tenant,", "key: tenant, on_store_failure: local,"));
    times(rig, 9, low);
    rig.store.failure = new StoreError("STORE_TIMEOUT", "no reply", { transient: true });
    expect(passed(rig, low)).toBe(0);
    expect(passed(rig, high)).toBe(2);
    const fresh = new LimiterRig(TENANT.replace("key: tenant,", "key: tenant, on_store_failure: local,"));
    fresh.store.failure = rig.store.failure;
    fresh.store.processes = 2;
    expect(passed(fresh, low)).toBe(4);
    expect(passed(fresh, high)).toBe(1);
  });
});

test("the limit of low priority is the whole one in all but its room, its name and where it is counted", () => {
  const rules = rulesFromYaml(`
domain: edge
descriptors:
  - key: tenant
    hold: { id: id, ttl: 60s }
    on_store_failure: local
    rate_limits:
      - { name: a, tokens_per_second: 7, burst: 90, debt_max: 200, retry_after_jitter: 0.2, ${PRIORITY} }
      - { name: b, requests_per_unit: 9, unit: week, algorithm: fixed_window, replaces: [{ name: a }], ${PRIORITY} }
      - { name: c, requests_per_unit: 9, window: { calendar: month, time_zone: Europe/Berlin }, ${PRIORITY} }
`);
  for (const limit of rules.domains.get("edge")?.root.rules[0]?.limits ?? []) {
    const low = limit.priority?.low as Limit;
    const differs = Object.keys(limit).filter((key) => limit[key as keyof Limit] !== low[key as keyof Limit]);
    const room = limit.algorithm === Algorithm.tokenBucket ? ["burst"] : ["amount", "burst", "shownAmount"];
    expect(differs.sort()).toEqual([...room, "names", "priority", "reserve", "stats"].sort());
    expect(Object.keys(low)).toEqual(Object.keys(limit));
    expect(low.burst + low.reserve).toBe(limit.burst);
  }
});
