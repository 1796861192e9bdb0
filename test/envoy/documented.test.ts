// What docs/envoy.md and deploy/envoy show is what works: both run as they are, with the example rules.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { bootstrapText, type Config, cluster, fromHeader, listener, route } from "./support/bootstrap.ts";
import { Envoy } from "./support/envoy-process.ts";
import { Rig } from "./support/rig.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(resolve(ROOT, file), "utf8");

function yamlBlocks(file: string): string[] {
  return [...read(file).matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}

const blocksWith = (text: string) =>
  yamlBlocks("docs/envoy.md")
    .filter((block) => block.includes(text))
    .flatMap((block) => parse(block) as Config[]);
const shipped = parse(read("deploy/envoy/envoy.yaml")).static_resources.listeners[0].filter_chains[0].filters[0];
const [removesHeaders] = shipped.typed_config.http_filters as Config[];
const tenants = {
  name: "tenants",
  before: [removesHeaders as Config, ...blocksWith("api_key_auth.v3")],
  routes: [route({ prefix: "/", rateLimits: [{ actions: [fromHeader("x-tenant", "login")] }] })],
};

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.start({
    rules: read("deploy/rules/edge.yaml"),
    listeners: [listener({ name: "documented", routes: blocksWith("- match:") }), listener(tenants)],
  });
});

describe("docs/envoy.md", () => {
  test("prices requests by a header, and by the default where it is odd", async () => {
    const priced = rig.caller("documented");
    const headers = { "x-plan": "free", "x-api-key": "k1" };
    // The burst is 200, and 10 tokens come back in a second.
    expect(await priced.statuses(1, "/priced/", { ...headers, "x-weight": "5000" })).toEqual([200]);
    expect(await priced.statuses(1, "/priced/", { ...headers, "x-weight": "40" })).toEqual([200]);
    expect(await priced.statuses(1, "/priced/", { ...headers, "x-weight": "many" })).toEqual([200]);
    expect(await priced.statuses(1, "/priced/", { ...headers, "x-weight": "100" })).toEqual([429]);
  });

  test("charges LLM tokens after the answer, and refuses from then on", async () => {
    const headers = { "x-user": "u1", "x-answer-tokens": "60000" };
    expect(await rig.caller("documented").statuses(1, "/llm/", headers)).toEqual([200]);
    await expect.poll(async () => (await rig.caller("documented").get("/llm/", headers)).status).toBe(429);
    expect(await rig.caller("documented").statuses(1, "/llm/", { "x-user": "u2" })).toEqual([200]);
  });

  test("counts the logins that fail", async () => {
    const good = { "x-user": "u1", "x-answer-give-back": "1" };
    for (let i = 0; i < 8; i++) {
      expect(await rig.caller("documented").statuses(1, "/login", good)).toEqual([200]);
      await quiet();
    }
    const bad = await rig.caller("documented").statuses(6, "/login", { "x-user": "u1" });
    expect(bad).toEqual([200, 200, 200, 200, 200, 429]);
  });

  test("finds the tenant by the caller's key, whatever the caller says", async () => {
    const acme = { authorization: "Bearer acme-key", "x-tenant": "other" };
    expect(await rig.caller("tenants").statuses(6, "/", acme)).toEqual([200, 200, 200, 200, 200, 429]);
    expect(await rig.caller("tenants").statuses(1, "/", { authorization: "Bearer other-key" })).toEqual([200]);
    expect(await rig.caller("tenants").statuses(1, "/", { "x-tenant": "acme" })).toEqual([401]);
  });

  test("names every field of the metadata that a refusal has", async () => {
    await rig.caller("documented").statuses(6, "/login?six", { "x-user": "u3" });
    const line = (await rig.envoy.accessLines("/login?six", 6)).at(-1);
    const named = [...read("docs/envoy.md").matchAll(/^\| (`.*`) \|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`(\w+)`/g)].map((match) => match[1]),
    );
    expect(named).toEqual(expect.arrayContaining(Object.keys(line?.headgate as object)));
  });
});

describe("deploy/envoy/llm.yaml", () => {
  test("is what docs/llm.md shows, with its rules", () => {
    const squeeze = (text: string) => text.replace(/ *#.*/g, "").replace(/\s+/g, " ").trim();
    const whole = squeeze(read("deploy/envoy/llm.yaml")) + squeeze(read("deploy/llm-rules/llm.yaml"));
    // The others are variants of it, which prices.test.ts and test/unit/tools/cli/shipped-cases.test.ts run.
    const [rules = "", ...others] = yamlBlocks("docs/llm.md");
    const shown = others.filter((block) => block.startsWith("# deploy/envoy/llm.yaml"));
    expect(shown).toHaveLength(1);
    for (const block of [rules, ...shown]) expect(whole).toContain(squeeze(block));
  });
});

describe("deploy/envoy/envoy.yaml", () => {
  test("is what docs/envoy.md shows", () => {
    const squeeze = (text: string) => text.replace(/ *#.*/g, "").replace(/\s+/g, " ");
    const whole = squeeze(read("deploy/envoy/envoy.yaml"));
    const shown = yamlBlocks("docs/envoy.md").filter((block) => block.includes("http.ratelimit.v3.RateLimit\n"));
    expect(shown.length).toBeGreaterThan(0);
    for (const block of shown) for (const part of block.split(/^# .*$/m)) expect(whole).toContain(squeeze(part).trim());
  });
});

test("a bootstrap that is wrong is refused in Envoy's own words, so the above says something", async () => {
  const wrong = bootstrapText({
    listeners: [],
    clusters: [cluster({ name: "x", endpoints: [1], more: { tpye: "" } })],
  });
  await expect(Envoy.start(wrong)).rejects.toThrow(/tpye/);
});

/** Resolves when no call of Envoy to Headgate is under way. */
async function quiet(): Promise<void> {
  await expect.poll(async () => (await rig.envoy.counters("cluster.headgate.")).upstream_rq_active).toBe(0);
}
