// The service that Envoy AI Gateway's QuotaPolicy needs: as deploy/envoy-ai-gateway starts it, with rules and calls of the shape
// that the gateway's controller and its Envoys send.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type AskedRequest, startTestApp, type TestApp } from "../support/test-app.ts";
import { startXdsServer, xdsServerProgram } from "../support/xds-server.ts";

const FILE = join(resolve(import.meta.dirname, "../.."), "deploy/envoy-ai-gateway/ratelimit.yaml");
const controlPlane = xdsServerProgram();

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: { readonly containers: readonly [{ readonly env: readonly { name: string; value: string }[] }] };
    };
    readonly selector: object;
    readonly ports: readonly object[];
  };
}

const manifests = parseAllDocuments(readFileSync(FILE, "utf8")).map((document) => document.toJS() as Manifest);
const [deployment, service] = manifests as [Manifest, Manifest];
const variables = Object.fromEntries(
  deployment.spec.template.spec.containers[0].env.map(({ name, value }) => [name, value]),
);

const DOMAIN = "ai-gateway-quota";
const BACKEND = "default/openai";
const entry = (key: string, value: string) => ({ key, value });
const model = (name: string) => [entry("backend_name", BACKEND), entry("model_name_override", name)];
const limit = (requests_per_unit: number) => ({ quota_mode: true, rate_limit: { unit: "HOUR", requests_per_unit } });

/** A model with one quota for all, and one with a quota for each of two classes of callers, who may use the other's rest. */
const QUOTAS = {
  name: DOMAIN,
  domain: DOMAIN,
  descriptors: [
    {
      key: "backend_name",
      value: BACKEND,
      descriptors: [
        {
          key: "model_name_override",
          value: "small",
          descriptors: [{ key: "rule-0-match--1", value: "rule-0-match--1", ...limit(10) }],
        },
        {
          key: "model_name_override",
          value: "large",
          descriptors: [
            { key: "rule-0-x-team|red-match-0", value: "rule-0-x-team|red-match-0", ...limit(5) },
            { key: "rule-1-match--1", value: "rule-1-match--1", ...limit(5) },
          ],
        },
      ],
    },
  ],
};

describe.runIf(controlPlane !== undefined)("quotas of Envoy AI Gateway", () => {
  let app: TestApp;

  async function start(): Promise<void> {
    const plane = await startXdsServer(controlPlane ?? "", { node: "envoy-ai-gateway-ratelimit" });
    plane.serve({ version: "1", resources: [QUOTAS] });
    const { REDIS_URL: _, ...env } = variables;
    app = await startTestApp(
      {},
      {
        ...env,
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${plane.port}`,
        DEBUG_PORT: "0",
        SHUTDOWN_DELAY: "0s",
      },
    );
    await plane.request(({ version }) => version === "1");
  }

  const call = (rules: readonly string[], name: string, tokens?: number): AskedRequest => ({
    domain: DOMAIN,
    descriptors: rules.map((rule) => ({
      entries: [...model(name), entry(rule, rule)],
      ...(tokens === undefined ? {} : { hits_addend: { value: tokens } }),
    })),
  });
  const codes = async (asked: AskedRequest, times = 1) => {
    const found: string[] = [];
    for (let each = 0; each < times; each++) found.push((await app.ask(asked)).overall_code);
    return found;
  };

  // Promise(gateway): Quotas of Envoy AI Gateway are spent by what answers report.
  test("are spent by what answers report when they are done, more than what is left, too", async () => {
    await start();
    const small = ["rule-0-match--1"];
    expect(await codes(call(small, "small"))).toEqual(["OK"]);
    await app.ask(call(small, "small", 6));
    expect(await codes(call(small, "small"))).toEqual(["OK"]);
    // 8 of 10 are spent, and this answer has cost 50.
    await app.ask(call(small, "small", 50));
    expect(await codes(call(small, "small"), 2)).toEqual(["OVER_LIMIT", "OVER_LIMIT"]);
    expect(await codes(call(["rule-1-match--1"], "large"))).toEqual(["OK"]);
  });

  test("of several classes refuse only when all of them are spent", async () => {
    await start();
    const both = ["rule-0-x-team|red-match-0", "rule-1-match--1"];
    await app.ask(call(["rule-0-x-team|red-match-0"], "large", 9));
    expect(await codes(call(both, "large"))).toEqual(["OK"]);
    await app.ask(call(["rule-1-match--1"], "large", 9));
    expect(await codes(call(both, "large"))).toEqual(["OVER_LIMIT"]);
  });

  test("are asked for and found under the names that the gateway has", () => {
    expect(variables).toMatchObject({ CONFIG_TYPE: "GRPC_XDS_SOTW", CONFIG_GRPC_XDS_NODE_ID: service.metadata.name });
    for (const { metadata } of manifests) {
      expect(metadata).toMatchObject({ name: "envoy-ai-gateway-ratelimit", namespace: "envoy-gateway-system" });
    }
    expect(service.spec.ports).toMatchObject([{ port: 8081, targetPort: "grpc" }]);
    expect(deployment.spec.template.metadata.labels).toEqual(service.spec.selector);
  });
});
