// Budgets under a real Envoy Gateway with deploy/envoy-gateway-llm/llm.yaml: what many streams at once may spend, and what is left when
// they end. What the model says it has used is the account that the budget is compared with.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { Stream } from "../envoy/support/llm-rig.ts";
import { type ModelAnswer, type ModelUpstream, startModel } from "../envoy/support/model-upstream.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { Bed } from "./support/bed.ts";
import { hasGateway } from "./support/require-gateway.ts";
import { backend, gateway, type Resource } from "./support/resources.ts";

const SHIPPED = resolve(import.meta.dirname, "../../deploy/envoy-gateway-llm/llm.yaml");
const NAMESPACE = "envoy-gateway-system";
const STREAMS = 200;
const BUDGET = 50;
/** What a call holds that says no number. */
const ESTIMATE = 5;
const TENANTS = ["load", "mixed", "forged", "left", "ends"];

/** The shipped file, where it has to be another one here. */
function shipped(): string {
  const keys = TENANTS.map((name) => `${name}: ${Buffer.from(`${name}-key`).toString("base64")}`);
  const changes: readonly (readonly [string, string])[] = [
    ["namespace: default", `namespace: ${NAMESPACE}`],
    ["domain: default/llm-budgets", `domain: ${NAMESPACE}/llm-budgets`],
    ["- { name: model, port: 80 }".slice(2), "{ group: gateway.envoyproxy.io, kind: Backend, name: model }"],
    ["{ acme: YWNtZS1rZXk= }", `{ ${keys.join(", ")} }`],
    ["DEFAULT, MOST = 4000, 32000", `DEFAULT, MOST = ${ESTIMATE}, 20`],
    ["default: 4000", `default: ${ESTIMATE}`],
    ["max: 32000", "max: 20"],
    ["requests: 60000, unit: Minute", `requests: ${BUDGET}, unit: Year`],
    ["ttl: 310s", "ttl: 1h"],
  ];
  let text = readFileSync(SHIPPED, "utf8");
  for (const [there, here] of changes) {
    if (!text.includes(there)) throw new Error(`${SHIPPED} has no ${there}`);
    text = text.replaceAll(there, here);
  }
  return text;
}

interface ConfigMap extends Resource {
  readonly data: Readonly<Record<string, string>>;
}

describe.runIf(hasGateway)("budgets under Envoy Gateway", () => {
  const rules = temporaryFolder("gateway-rules");
  let model: ModelUpstream;
  let bed: Bed;
  beforeAll(async () => {
    model = await startModel();
    const documents = parseAllDocuments(shipped()).map((document) => document.toJS() as Resource);
    const [files] = documents.filter(({ kind }) => kind === "ConfigMap") as ConfigMap[];
    for (const [name, text] of Object.entries(files?.data ?? {})) writeFileSync(join(rules, name), text);
    bed = await Bed.start(
      1,
      (ports) => ({
        // The listener's policy is the shipped one.
        gateway: gateway(ports).filter(({ kind }) => kind === "Gateway"),
        shipped: [...documents.filter(({ kind }) => kind !== "ConfigMap"), backend("model", model.port)],
      }),
      { rules },
    );
  });

  const open = (tenant: string, answer: ModelAnswer, used: number, more: Readonly<Record<string, string>> = {}) =>
    new Stream(
      { port: () => bed.ports[0] ?? 0 },
      {
        tenant,
        answer,
        used,
        headers: { host: "llm.example.com", ...more },
      },
    );

  /** How the tenant's first budget stands. */
  async function budgetOf(tenant: string) {
    const first = `${NAMESPACE}/llm-budgets/rule/0`;
    const entries = [
      { key: first, value: first },
      { key: "rule-0-match-0", value: tenant },
    ];
    const { buckets } = await bed.peek(`${NAMESPACE}/llm-budgets`, entries);
    return buckets[0];
  }
  const remaining = async (tenant: string) => (await budgetOf(tenant))?.remaining;
  const live = async (tenant: string) => (await budgetOf(tenant))?.live_holds;

  /** Begins many calls at once; each uses as much as its estimate at most. Resolves when all have their answer. */
  async function callMany(tenant: string, answer: (i: number) => ModelAnswer, round: number) {
    const all = Array.from({ length: STREAMS }, (_, i) => {
      const kind = answer(i);
      const used = kind === "error" ? 0 : 1 + ((i * 7 + round) % ESTIMATE);
      return { stream: open(tenant, kind, used), used };
    });
    const statuses = await Promise.all(all.map(({ stream }) => stream.status));
    expect([...new Set(statuses)].filter((status) => ![200, 429, 500].includes(status))).toEqual([]);
    return { all, passed: all.filter((_, i) => statuses[i] !== 429) };
  }

  // Promise(gateway): Concurrent streams never overspend a covered budget, and callers can't get around it by headers.
  test.each([
    { tenant: "load", kinds: ["wait"] },
    { tenant: "mixed", kinds: ["sse", "json", "wait", "error"] },
  ] as const)(
    "are never overspent by 200 streams at once, and pay what they have used: $tenant",
    async ({ tenant, kinds }) => {
      let used = 0;
      for (let round = 0; ((await remaining(tenant)) ?? 0) >= ESTIMATE; round++) {
        const left = (await remaining(tenant)) ?? 0;
        const { all, passed } = await callMany(tenant, (i) => kinds[i % kinds.length] ?? "wait", round);
        if (tenant === "load") expect(passed).toHaveLength(Math.floor(left / ESTIMATE));
        model.release();
        await Promise.all(all.map(({ stream }) => stream.ended));
        for (const stream of passed) used += stream.used;
        await expect.poll(() => remaining(tenant)).toBe(BUDGET - used);
      }
      expect(used).toBeLessThanOrEqual(BUDGET);
      expect(used).toBeGreaterThan(BUDGET - ESTIMATE);
    },
  );

  // Promise(gateway): Concurrent streams never overspend a covered budget, and callers can't get around it by headers.
  test("can't be got around by headers of callers", async () => {
    const more = { "x-hold": "settle", "x-hold-id": "mine", "x-tenant": "load" };
    const streams = Array.from({ length: STREAMS }, () => open("forged", "wait", ESTIMATE, more));
    const statuses = await Promise.all(streams.map(({ status }) => status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(BUDGET / ESTIMATE);
    model.release();
    await Promise.all(streams.map(({ ended }) => ended));
    await expect.poll(() => live("forged")).toBe(0);
    expect(await remaining("forged")).toBe(0);
  });

  test.each([
    { answer: "json", used: 3, costs: 3 },
    { answer: "sse", used: 9, costs: 9 },
    { answer: "forged", used: 2, costs: 2 },
    { answer: "no usage", used: 1, costs: ESTIMATE },
    { answer: "cut in the middle", used: 1, costs: ESTIMATE },
    { answer: "error", used: 1, costs: 0 },
    { answer: "cut before headers", used: 1, costs: 0 },
  ] as const)("are charged for what ends like this: $answer, $costs", async ({ answer, used, costs }) => {
    const before = (await remaining("ends")) ?? 0;
    await open("ends", answer, used).ended;
    await expect.poll(() => live("ends")).toBe(0);
    expect(await remaining("ends")).toBe(before - costs);
  });

  test("pay what was held for a caller that leaves", async () => {
    const stream = open("left", "wait", 1);
    expect(await stream.status).toBe(200);
    expect([await live("left"), await remaining("left")]).toEqual([1, BUDGET - ESTIMATE]);
    stream.leave();
    await expect.poll(() => live("left")).toBe(0);
    expect(await remaining("left")).toBe(BUDGET - ESTIMATE);
    model.release();
  });
});
