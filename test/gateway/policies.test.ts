// Rate limits of the gateway's own API, from its resources through its Envoy to Headgate's answers: what each selects, whom it
// counts together, and that it bites.

import { beforeAll, describe, expect, test, vi } from "vitest";
import { type Answer, Caller, headerOf } from "../envoy/support/caller.ts";
import { Bed } from "./support/bed.ts";
import { hasGateway } from "./support/require-gateway.ts";
import { gateway, limits, lua, type Resource, route } from "./support/resources.ts";

const selected = (selector: object, requests: number, more: object = {}) => ({
  clientSelectors: [selector],
  limit: { requests, unit: "Hour" },
  ...more,
});

/** What a language model's gateway leaves in the metadata: what the request may, and what the answer has cost. */
const METADATA = `
function envoy_on_request(handle)
  local set = function(key, value) handle:streamInfo():dynamicMetadata():set("test", key, value) end
  local headers = handle:headers()
  if headers:get("x-asks") then set("asks", tonumber(headers:get("x-asks"))) end
  if headers:get("x-limit") then
    set("limit", { requests_per_unit = tonumber(headers:get("x-limit")), unit = "HOUR" })
  end
  if headers:get("x-tokens") then set("tokens", tonumber(headers:get("x-tokens"))) end
end
function envoy_on_response(handle) end
`;
const from = (key: string) => ({ from: "Metadata", metadata: { namespace: "test", key } });

/** Routes with their rules; `<name>.test` is the host of each. */
const RULES: Readonly<Record<string, readonly object[]>> = {
  exact: [selected({ headers: [{ name: "x-org", value: "acme" }] }, 2)],
  distinct: [selected({ headers: [{ name: "x-user-id", type: "Distinct" }] }, 2)],
  cidr: [selected({ sourceCIDR: { value: "10.1.0.0/16" } }, 2)],
  "cidr-distinct": [selected({ sourceCIDR: { value: "10.0.0.0/8", type: "Distinct" } }, 2)],
  methods: [selected({ methods: [{ value: "POST" }, { value: "PUT" }] }, 2)],
  path: [selected({ path: { type: "PathPrefix", value: "/costly" } }, 2)],
  query: [selected({ queryParams: [{ name: "plan", value: "free" }] }, 2)],
  "query-distinct": [selected({ queryParams: [{ name: "key", type: "Distinct" }] }, 2)],
  both: [selected({ headers: [{ name: "x-user-id", type: "Distinct" }], methods: [{ value: "POST" }] }, 2)],
  several: [
    selected({ headers: [{ name: "x-user-id", type: "Distinct" }] }, 2),
    { limit: { requests: 5, unit: "Hour" } },
  ],
  shadow: [{ limit: { requests: 1, unit: "Hour" }, shadowMode: true }],
  nothing: [{ limit: { requests: 0, unit: "Hour" } }],
  week: [{ limit: { requests: 2, unit: "Week" } }],
  listeners: [{ limit: { requests: 2, unit: "Hour" } }],
  asked: [{ limit: { requests: 7, unit: "Hour" }, cost: { request: from("asks") } }],
  reported: [{ limit: { requests: 12, unit: "Hour" }, cost: { response: from("tokens") } }],
  tenants: [
    selected({ headers: [{ name: "x-user-id", type: "Distinct" }] }, 1, {
      limit: { requests: 1, unit: "Hour", fromMetadata: { namespace: "test", key: "limit" } },
    }),
  ],
};
const WITH_METADATA = ["asked", "reported", "tenants"];

function resources(ports: readonly number[]): Readonly<Record<string, readonly Resource[]>> {
  const own = Object.entries(RULES).flatMap(([name, rules]) => [route(name), limits(name, rules)]);
  const shared = limits(
    "shared",
    [selected({ headers: [{ name: "x-org", value: "acme" }] }, 3, { shared: true })],
    ["shared-a", "shared-b"],
  );
  return {
    gateway: gateway(ports),
    routes: [...own, route("shared-a"), route("shared-b"), shared, ...WITH_METADATA.map((name) => lua(name, METADATA))],
  };
}

describe.runIf(hasGateway)("limits of Envoy Gateway", () => {
  let bed: Bed;
  let callers: readonly Caller[];
  beforeAll(async () => {
    bed = await Bed.start(2, resources);
    callers = bed.ports.map((port) => new Caller(port));
    // Each listener gets its routes by itself, one maybe later. Without the header that their rules select, no request counts.
    for (const caller of callers) {
      for (const name of ["exact", "shared-a", "shared-b"]) {
        const status = async () => (await caller.get("/", { host: `${name}.test` })).status;
        await vi.waitFor(async () => expect(await status()).toBe(200), { timeout: 30_000 });
      }
    }
  });

  interface Sent {
    readonly method?: string;
    readonly path?: string;
    readonly listener?: number;
    readonly headers?: Readonly<Record<string, string>>;
  }
  const send = (name: string, { method, path = "/", listener = 0, headers = {} }: Sent = {}): Promise<Answer> =>
    (callers[listener] as Caller).get(path, { ...headers, host: `${name}.test` }, method);
  const statuses = async (name: string, times: number, sent: Sent = {}) => {
    const found: number[] = [];
    for (let each = 0; each < times; each++) found.push((await send(name, sent)).status);
    return found;
  };
  const header = (name: string, value: string): Sent => ({ headers: { [name]: value } });

  test("by a header's value count those who have it, and nobody else", async () => {
    expect(await statuses("exact", 3, header("x-org", "acme"))).toEqual([200, 200, 429]);
    expect(await statuses("exact", 4, header("x-org", "other"))).toEqual([200, 200, 200, 200]);
    expect(await statuses("exact", 4)).toEqual([200, 200, 200, 200]);
  });

  test("by distinct values of a header count each by itself, and tell what is left", async () => {
    const first = await send("distinct", header("x-user-id", "ann"));
    expect(headerOf(first, "x-ratelimit-limit")).toMatch(/^2, 2;w=3600/);
    expect(headerOf(first, "x-ratelimit-remaining")).toBe("1");
    expect(await statuses("distinct", 2, header("x-user-id", "ann"))).toEqual([200, 429]);
    expect(await statuses("distinct", 3, header("x-user-id", "bob"))).toEqual([200, 200, 429]);
    expect(await statuses("distinct", 3)).toEqual([200, 200, 200]);
  });

  test("by a range of addresses count all in it together", async () => {
    const by = (address: string) => header("x-forwarded-for", address);
    expect(await statuses("cidr", 2, by("10.1.0.1"))).toEqual([200, 200]);
    expect(await statuses("cidr", 1, by("10.1.255.9"))).toEqual([429]);
    expect(await statuses("cidr", 3, by("10.2.0.1"))).toEqual([200, 200, 200]);
  });

  test("by distinct addresses of a range count each by itself", async () => {
    const by = (address: string) => header("x-forwarded-for", address);
    expect(await statuses("cidr-distinct", 3, by("10.1.0.1"))).toEqual([200, 200, 429]);
    expect(await statuses("cidr-distinct", 3, by("10.1.0.2"))).toEqual([200, 200, 429]);
    expect(await statuses("cidr-distinct", 3, by("11.0.0.1"))).toEqual([200, 200, 200]);
  });

  test("by methods count any of them together", async () => {
    expect(await statuses("methods", 1, { method: "POST" })).toEqual([200]);
    expect(await statuses("methods", 2, { method: "PUT" })).toEqual([200, 429]);
    expect(await statuses("methods", 3, { method: "GET" })).toEqual([200, 200, 200]);
  });

  test("by path count what lies below it", async () => {
    expect(await statuses("path", 3, { path: "/costly/a" })).toEqual([200, 200, 429]);
    expect(await statuses("path", 3, { path: "/cheap" })).toEqual([200, 200, 200]);
  });

  test("by query count a value, or each value by itself", async () => {
    expect(await statuses("query", 3, { path: "/?plan=free" })).toEqual([200, 200, 429]);
    expect(await statuses("query", 3, { path: "/?plan=paid" })).toEqual([200, 200, 200]);
    expect(await statuses("query-distinct", 3, { path: "/?key=a" })).toEqual([200, 200, 429]);
    expect(await statuses("query-distinct", 3, { path: "/?key=b" })).toEqual([200, 200, 429]);
  });

  test("by several selectors count who meets all", async () => {
    const ann = header("x-user-id", "ann");
    expect(await statuses("both", 3, { ...ann, method: "POST" })).toEqual([200, 200, 429]);
    expect(await statuses("both", 3, ann)).toEqual([200, 200, 200]);
  });

  test("of several rules refuse when one of them is over, and a refused call pays none", async () => {
    expect(await statuses("several", 4, header("x-user-id", "ann"))).toEqual([200, 200, 429, 429]);
    expect(await statuses("several", 4, header("x-user-id", "bob"))).toEqual([200, 200, 429, 429]);
    expect(await statuses("several", 2)).toEqual([200, 429]);
  });

  // Promise(gateway): The gateway's rules limit through its own Envoy: headers, addresses, methods, paths, queries, shared, shadow.
  test("that are shared count over routes and listeners; all others for each route and listener", async () => {
    const acme = header("x-org", "acme");
    expect(await statuses("shared-a", 1, acme)).toEqual([200]);
    expect(await statuses("shared-b", 1, { ...acme, listener: 1 })).toEqual([200]);
    expect(await statuses("shared-b", 2, acme)).toEqual([200, 429]);
    expect(await statuses("shared-a", 1, acme)).toEqual([429]);
    expect(await statuses("listeners", 3)).toEqual([200, 200, 429]);
    expect(await statuses("listeners", 3, { listener: 1 })).toEqual([200, 200, 429]);
  });

  test("in shadow mode refuse nobody, and are counted", async () => {
    expect(await statuses("shadow", 3)).toEqual([200, 200, 200]);
    expect(await bed.metric("ratelimit_service_rate_limit_shadow_mode", "shadow")).toBe(2);
  });

  test("of no requests at all block, and those of a week count", async () => {
    expect(await statuses("nothing", 2)).toEqual([429, 429]);
    expect(await statuses("week", 3)).toEqual([200, 200, 429]);
  });

  // The protocol does not tell a request's cost from a report of what was spent: both are charged in any case.
  test("take what metadata says that a request costs, of a refused one, too", async () => {
    expect(await statuses("asked", 3, header("x-asks", "3"))).toEqual([200, 200, 429]);
    expect(await statuses("asked", 1, header("x-asks", "1"))).toEqual([429]);
  });

  // Promise(gateway): What an answer cost is charged, even if it is more than what is left.
  test("are charged what the answer has cost, though it is more than what is left", async () => {
    const calls = () => bed.metric("ratelimit_service_total_requests");
    const answers: number[] = [];
    // One hit for the request and five tokens: 6 of 12, then 7 and, of five that are left, all: over.
    for (const tokens of ["5", "6"]) {
      const before = await calls();
      answers.push(...(await statuses("reported", 1, header("x-tokens", tokens))));
      // The report comes when the stream is done.
      await expect.poll(calls).toBe(before + 2);
    }
    expect([...answers, ...(await statuses("reported", 2))]).toEqual([200, 200, 429, 429]);
  });

  // Promise(gateway): A limit that comes with a call replaces the rule's.
  test("come from metadata for each tenant, or else from the rule", async () => {
    const tenant = (id: string, limit: string): Sent => ({ headers: { "x-user-id": id, "x-limit": limit } });
    expect(await statuses("tenants", 2, header("x-user-id", "ann"))).toEqual([200, 429]);
    expect(await statuses("tenants", 4, tenant("bob", "3"))).toEqual([200, 200, 200, 429]);
    expect(await statuses("tenants", 3, tenant("eve", "2"))).toEqual([200, 200, 429]);
  });

  test("are on the pages that tell what is in force", async () => {
    const config = JSON.parse(await bed.page("/config")) as { rules: { control_plane: object } };
    expect(config.rules.control_plane).toMatchObject({ state: "connected", refusals: 0 });
    expect(await bed.page("/rlconfig")).toContain("httproute/envoy-gateway-system/distinct/rule/0");
  });
});
