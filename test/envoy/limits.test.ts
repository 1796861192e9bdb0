// Refusals, shadow mode and overrides behind Envoy. Several descriptors and headers: answers.test.ts; without a rule: test/vectors.

import { beforeAll, describe, expect, test } from "vitest";
import { fromHeader, httpFilter, listener, route } from "./support/bootstrap.ts";
import { Rig } from "./support/rig.ts";

const RULES = `
domain: edge
descriptors:
  - key: api_key
    rate_limit: { requests_per_unit: 3, unit: hour }
  - key: watched
    shadow_mode: true
    rate_limit: { requests_per_unit: 1, unit: hour }
  - key: overridden
    rate_limit: { requests_per_unit: 1, unit: hour }
`;

const overridden = [fromHeader("x-case", "overridden")];
const overrideMetadata = (key: string) => ({
  dynamic_metadata: { metadata_key: { key: "test.override", path: [{ key }] } },
});

const ROUTES = [
  route({ prefix: "/per-key", rateLimits: [{ actions: [fromHeader("x-api-key", "api_key")] }] }),
  route({ prefix: "/watched", rateLimits: [{ actions: [fromHeader("x-case", "watched")] }] }),
  route({ prefix: "/override/two", rateLimits: [{ actions: overridden, limit: overrideMetadata("two_an_hour") }] }),
  route({
    prefix: "/override/fixed",
    rateLimits: [{ actions: overridden, limit: { rate_limit: { requests_per_unit: 3, unit: "DAY" } } }],
  }),
  route({ prefix: "/override/none", rateLimits: [{ actions: overridden, limit: overrideMetadata("missing") }] }),
];

/** Gives routes something to take overrides from, as a filter that knows the caller's contract would. */
const contract = httpFilter(
  "set_metadata",
  {
    metadata: [{ metadata_namespace: "test.override", value: { two_an_hour: { requests_per_unit: 2, unit: "HOUR" } } }],
  },
  "set_metadata.v3.Config",
);

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.start({
    rules: RULES,
    listeners: [listener({ name: "edge", routes: ROUTES, before: [contract] })],
  });
});

describe("behind Envoy", () => {
  test("a refusal does not reach the upstream, has no body, and says that it is one of rate limits", async () => {
    const edge = rig.caller("edge");
    expect(await edge.statuses(3, "/per-key", { "x-api-key": "one" })).toEqual([200, 200, 200]);
    const refused = await edge.get("/per-key", { "x-api-key": "one" });
    expect(rig.upstream.seen.filter((path) => path === "/per-key")).toHaveLength(3);
    expect(refused).toMatchObject({ status: 429, body: "", headers: { "x-envoy-ratelimited": ["true"] } });
  });

  test("a rule in shadow mode lets everything pass, and the access log tells what it would have refused", async () => {
    expect(await rig.caller("edge").statuses(3, "/watched", { "x-case": "s1" })).toEqual([200, 200, 200]);
    await rig.caller("edge").get("/watched/logged", { "x-case": "s1" });
    const line = await rig.envoy.accessLine("/watched/logged");
    expect(line).toMatchObject({ status: 200, code: "OK", headgate: { shadowed: true, remaining: 0 } });
    expect(line.rule).toContain("watched");
  });

  test("an override from the route or its metadata is in force instead of the rule's number", async () => {
    const edge = rig.caller("edge");
    expect(await edge.statuses(3, "/override/two", { "x-case": "o1" })).toEqual([200, 200, 429]);
    expect(await edge.statuses(4, "/override/fixed", { "x-case": "o1" })).toEqual([200, 200, 200, 429]);
    expect(await edge.statuses(2, "/override/none", { "x-case": "o2" })).toEqual([200, 429]);
  });
});
