// What requests cost: hits and cost entries taken from request headers, and refunds. Reports after the response are in
// documented.test.ts and stream-done.test.ts.

import { beforeAll, describe, expect, test } from "vitest";
import { type Config, fromHeader, listener, route } from "./support/bootstrap.ts";
import { Rig } from "./support/rig.ts";

const RULES = `
domain: edge
descriptors:
  - key: hits
    rate_limit: { requests_per_unit: 10, unit: hour }
  - key: weighed
    cost: { entry: weight, default: 2, max: 6 }
    rate_limit: { requests_per_unit: 10, unit: hour }
  - key: returned
    rate_limit: { requests_per_unit: 10, unit: hour }
`;

/** Envoy takes no larger number of hits from a header. */
const ENVOY_HITS_MAX = "1000000000";

/** One descriptor of the case under test, which x-case names, with these hits. */
const limitedBy = (key: string, more: Config = {}) => ({ actions: [fromHeader("x-case", key)], ...more });
const HITS_FROM_HEADER = { hits_addend: { format: "%REQ(x-cost)%" } };

const ROUTES = [
  route({ prefix: "/four-hits", rateLimits: [limitedBy("hits", { hits_addend: { number: 4 } })] }),
  route({ prefix: "/header-hits", rateLimits: [limitedBy("hits", HITS_FROM_HEADER)] }),
  route({
    prefix: "/weighed",
    rateLimits: [{ actions: [fromHeader("x-case", "weighed"), fromHeader("x-weight", "weight", true)] }],
  }),
  route({ prefix: "/returned/take", rateLimits: [limitedBy("returned", { hits_addend: { number: 5 } })] }),
  route({
    prefix: "/returned/refund",
    rateLimits: [limitedBy("returned", { hits_addend: { number: 5, is_negative_hits: true } })],
  }),
];

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.start({
    rules: RULES,
    listeners: [listener({ name: "edge", routes: ROUTES, filter: { enable_x_ratelimit_headers: "DRAFT_VERSION_03" } })],
  });
});

/** What is left for the case after one more request, as Envoy's header says; undefined if Envoy did not ask. */
async function remainingAfter(path: string, headers: Record<string, string>): Promise<string | undefined> {
  return (await rig.caller("edge").get(path, headers)).headers["x-ratelimit-remaining"]?.[0];
}

describe("hits_addend", () => {
  test("charges the route's number, and refuses a request that costs more than is left", async () => {
    const headers = { "x-case": "h1" };
    expect(await rig.caller("edge").statuses(3, "/four-hits", headers)).toEqual([200, 200, 429]);
  });

  test("charges the number in the header; one that can never fit is refused and costs nothing", async () => {
    const headers = { "x-case": "priced" };
    expect(await remainingAfter("/header-hits", { ...headers, "x-cost": "3" })).toBe("7");
    const most = { ...headers, "x-cost": ENVOY_HITS_MAX };
    expect(await rig.caller("edge").statuses(1, "/header-hits", most)).toEqual([429]);
    expect(await remainingAfter("/header-hits", { ...headers, "x-cost": "0" })).toBe("7");
  });

  // Envoy drops the descriptor. README.md says so, and to use a cost entry where callers choose the cost.
  test.each([undefined, "many", "1000000001"])(
    "from a header that is %s makes Envoy ask nothing, so nothing limits",
    async (cost) => {
      const headers = { "x-case": "unasked", ...(cost === undefined ? {} : { "x-cost": cost }) };
      expect(await rig.caller("edge").statuses(12, "/header-hits", headers)).toEqual(Array(12).fill(200));
      expect(await remainingAfter("/header-hits", headers)).toBeUndefined();
    },
  );
});

describe("a cost entry", () => {
  test.each([
    { weight: "3", left: "7", why: "its number" },
    { weight: undefined, left: "8", why: "the default when the header is absent" },
    { weight: "many", left: "8", why: "the default when it is not a number" },
    { weight: "99999999999999999999999", left: "4", why: "its bound when it is huge" },
  ])("costs $why", async ({ weight, left, why }) => {
    const headers = { "x-case": why, ...(weight === undefined ? {} : { "x-weight": weight }) };
    expect(await remainingAfter("/weighed", headers)).toBe(left);
  });
});

describe("hits given back", () => {
  test("make room again, also after a refusal, and never more than there was", async () => {
    const edge = rig.caller("edge");
    const headers = { "x-case": "r1" };
    expect(await edge.statuses(3, "/returned/take", headers)).toEqual([200, 200, 429]);
    expect(await edge.statuses(4, "/returned/refund", headers)).toEqual([200, 200, 200, 200]);
    expect(await edge.statuses(3, "/returned/take", headers)).toEqual([200, 200, 429]);
  });
});
