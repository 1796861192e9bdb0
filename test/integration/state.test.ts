// GET /state of a whole service: what it says of calls, rules and troubles, and since when.

import { expect, test } from "vitest";
import { ManualClock } from "../support/manual-clock.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";

const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 3, unit: hour } }
  - { key: tenant, detailed_metric: true, rate_limit: { requests_per_unit: 100, unit: hour } }
`;

let app: TestApp;

const state = async () => JSON.parse(await (await app.http("/state")).text());

test("tells what was counted, also of rules whose metrics are by value, and is well", async () => {
  app = await startTestApp(RULES);
  for (let i = 0; i < 5; i++) await app.hit({ user: "ann" });
  for (const tenant of ["a", "b"]) await app.hit({ tenant });
  expect(await state()).toMatchObject({
    status: "well",
    store: "memory",
    conditions: [],
    calls: { allowed: 5, refused: 2, degraded: 0, errors: 0 },
    verdict: { severity: "well" },
    rules: { version: 1, domains: ["edge"] },
    certificate: null,
  });
  expect(JSON.parse(await (await app.http("/rules")).text())).toMatchObject({
    domains: [{ domain: "edge", calls: 7, refused: 2, limits: 2, unmet: 0 }],
    rows: [
      { id: "edge/user", where: "rules.yaml:3:5", count: { hits: 5, refused: 2, shadowed: 0 } },
      { id: "edge/tenant", count: { hits: 2, refused: 0, shadowed: 0 } },
    ],
  });
});

test("calls that pass without the store are reported for an hour, with the limits that were not applied", async () => {
  app = await startTestApp(RULES, { REDIS_URL: "127.0.0.1:1" });
  await app.hit({ user: "ann" });
  const { undecided } = await state();
  const [cause] = undecided.causes;
  expect(cause).toMatchObject({ cause: expect.stringMatching(/^STORE_\w+, on_store_failure: allow$/), last_hour: 1 });
  expect(undecided).toMatchObject({ causes: [{ last_day: 1 }], limits: ["edge/user"] });
  const [store] = (await state()).conditions;
  expect(store.details).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^Calls passed without a decision .*: 1 in the last hour, 1 in the last day\.$/),
      "limits not applied: edge/user",
    ]),
  );
  expect(store.calls).toEqual(undecided.causes);
});

test("a condition keeps the time when it began, and ends with its cause", async () => {
  app = await startTestApp(RULES);
  await app.writeRules({ "rules.yaml": RULES.replace("user", "user: x") });
  await app.app.reload();
  const first = await state();
  expect(first.conditions).toMatchObject([
    { id: "rules refused", severity: "critical", details: [expect.any(String)] },
  ]);
  const at = async () => (await state()).at as string;
  await expect.poll(at).not.toBe(first.at);
  expect((await state()).conditions[0].since).toBe(first.conditions[0].since);
  await app.writeRules({ "rules.yaml": RULES });
  await app.app.reload();
  expect((await state()).conditions).toEqual([]);
});

test("/history tells what was counted when, for pages that are opened later", async () => {
  const clock = new ManualClock();
  app = await startTestApp(RULES, {}, clock);
  const later = async () => {
    clock.advanceSeconds(5);
    return JSON.parse(await (await app.http("/history")).text());
  };
  expect(await later()).toBe(null);
  // The first look comes within a second.
  await expect.poll(later).not.toBe(null);
  for (let i = 0; i < 5; i++) await app.hit({ user: "ann" });
  const sums = async () => {
    const { calls, limits } = await later();
    const sumOf = (list: readonly number[] = []) => list.reduce((all, count) => all + count, 0);
    return [calls.allowed, calls.refused, limits["edge/user"]?.hits, limits["edge/user"]?.refused].map(sumOf);
  };
  await expect.poll(sums).toEqual([3, 2, 5, 2]);
});
