// Budgets in money under a real Envoy: deploy/envoy/llm.yaml with what docs/llm.md adds to it, and the rules that stand there.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { RedisServer } from "../support/redis-server.ts";
import type { ServiceProcess } from "../support/service-process.ts";
import { valuesOf } from "./support/bootstrap.ts";
import type { Envoy } from "./support/envoy-process.ts";
import { type ModelCall, Stream, startLlmEnvoy } from "./support/llm-rig.ts";
import { type ModelUpstream, startModel } from "./support/model-upstream.ts";
import { startHeadgate } from "./support/rig.ts";

const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/llm.md"), "utf8");
/** Thousandths of a dollar a month. */
const BUDGET = 500_000;

/** What a call costs, in thousandths of a dollar, rounded up. */
const PRICED: readonly { readonly name: string; readonly call: ModelCall; readonly costs: number }[] = [
  // The model says that it has read one token of all.
  { name: "large-json", call: { answer: "json", body: '{"model":"large"}', used: 100_001 }, costs: 1_001 },
  { name: "small-json", call: { answer: "json", body: '{"model":"small"}', used: 100_001 }, costs: 61 },
  { name: "large-stream", call: { answer: "sse", body: '{"model":"large"}', used: 2_000 }, costs: 20 },
  { name: "large-pieces", call: { answer: "pieces", body: '{"model":"large"}', used: 2_000 }, costs: 20 },
  { name: "other-model", call: { answer: "json", body: '{"model":"new"}', used: 2_000 }, costs: 20 },
  { name: "no-model", call: { answer: "json", body: "{}", used: 2_000 }, costs: 20 },
  { name: "a-part", call: { answer: "json", body: '{"model":"small"}', used: 2 }, costs: 1 },
  {
    name: "most-is-read",
    call: { answer: "sse", body: '{"model":"large"}', used: 100_000, headers: { "x-read": "90000" } },
    costs: 325,
  },
  // 25 read and 12 written.
  { name: "read-more", call: { answer: "message", body: '{"model":"large"}' }, costs: 1 },
  { name: "error", call: { answer: "error", body: '{"model":"large"}' }, costs: 0 },
  { name: "no-number", call: { answer: "no usage", body: '{"model":"large"}' }, costs: 400 },
  // 1,033 tokens at ten dollars a million.
  { name: "stated", call: { answer: "no usage", body: '{"model":"large","max_tokens":1000}' }, costs: 11 },
];

let headgate: ServiceProcess;
let model: ModelUpstream;
let envoy: Envoy;
beforeAll(async () => {
  const redis = await RedisServer.start();
  headgate = await startHeadgate(redis, block("domain: llm\ndescriptors:\n  - key: tenant\n    descriptors:"), {
    STORE_DEADLINE: "5s",
  });
  model = await startModel();
  const tenants = [...PRICED.map(({ name }) => name), "spent", "held"];
  envoy = await startLlmEnvoy({ model: model.port, headgate: headgate.grpcPort, tenants, edit: withAdditions });
});

// Promise(llm): A budget in money pays for tokens at the prices of their model.
test.each(PRICED)("a call costs what its tokens do: $name", async ({ name, call, costs }) => {
  const asked = /"model":"(small|large)"/.exec(call.body ?? "")?.[1] ?? "other";
  await new Stream(envoy, { ...call, tenant: name }).ended;
  await expect.poll(() => left({ payer: name, model: asked })).toBe(BUDGET - costs);
  expect(await left({ payer: name, model: "elsewhere" })).toBe(BUDGET);
});

test("a call holds its price while it runs", async () => {
  const body = '{"model":"large","max_tokens":1000}';
  const stream = new Stream(envoy, { tenant: "held", answer: "wait", body, used: 500 });
  expect(await stream.status).toBe(200);
  expect(await left({ payer: "held", model: "large" })).toBe(BUDGET - Math.ceil(((1_000 + body.length) * 10) / 1_000));
  model.release();
  await stream.ended;
  await expect.poll(() => left({ payer: "held", model: "large" })).toBe(BUDGET - 5);
});

// Promise(llm): A call without money is refused, and holds no tokens.
test("a call without money is refused, and holds no tokens", async () => {
  const caller = { payer: "spent", model: "large" };
  await ask([{ ...caller, request_id: "all", settle: "used" }], BUDGET * 1_000 - 1_000);
  const tokens = await left({ tenant: "spent", model: "large" });
  const call = { tenant: "spent", answer: "json", body: '{"model":"large","max_tokens":1000}', used: 1 } as const;
  expect(await new Stream(envoy, call).status).toBe(429);
  expect(await new Stream(envoy, { ...call, body: '{"model":"small","max_tokens":1000}' }).status).toBe(200);
  expect(await left({ tenant: "spent", model: "large" })).toBe(tokens);
  expect(await left(caller)).toBe(1);
});

/** The configuration with what the page adds to it. */
function withAdditions(config: string): string {
  const bootstrap = parse(config) as { static_resources: { listeners: { name: string }[] } };
  const listener = bootstrap.static_resources.listeners.find(({ name }) => name === "llm");
  const [filters] = valuesOf("http_filters", listener) as [{ name: string; typed_config: object }[]];
  const json = filters.find(({ name }) => name === "envoy.filters.http.json_to_metadata");
  const [rules] = valuesOf("rules", json) as [object[]];
  rules.push(...(parse(block("# into its rules")) as object[]));
  const limiter = filters.findIndex(({ name }) => name === "envoy.filters.http.ratelimit");
  filters.splice(limiter, 0, ...(parse(block("# into http_filters")) as typeof filters));
  const [lines] = valuesOf("rate_limits", listener) as [{ actions: object[] }[]];
  const [modelEntry] = parse(block("# into the actions of each line")) as [object];
  for (const { actions } of lines) actions.splice(1, 0, modelEntry);
  lines.push(...(parse(block("# into rate_limits")) as typeof lines));
  return JSON.stringify(bootstrap);
}

/** The block of the page that begins so. */
function block(begin: string): string {
  const from = PAGE.indexOf(`\`\`\`yaml\n${begin}`);
  if (from < 0) throw new Error(`docs/llm.md has no block that begins with ${begin}`);
  return PAGE.slice(from + "```yaml\n".length, PAGE.indexOf("\n```", from + 3) + 1);
}

interface Asked {
  readonly statuses: readonly { readonly limitRemaining?: number }[];
}

/** What is left of the limit nearest to its end; asks and pays nothing. */
async function left(entries: Readonly<Record<string, string>>): Promise<number> {
  const { statuses } = await ask([entries], 0);
  return statuses[0]?.limitRemaining ?? 0;
}

async function ask(descriptors: readonly Readonly<Record<string, string>>[], hits: number): Promise<Asked> {
  const asked = descriptors.map((entries) => ({
    entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
    hitsAddend: String(hits),
  }));
  const answer = await fetch(`http://127.0.0.1:${headgate.httpPort}/json`, {
    method: "POST",
    body: JSON.stringify({ domain: "llm", descriptors: asked }),
  });
  return (await answer.json()) as Asked;
}
