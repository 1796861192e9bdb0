// What kustomize and helm render from deploy/: the same objects, valid to Kubernetes, and fit for Headgate as it is.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { readPlan } from "../../packages/verify/src/read-plan.ts";
import { readSettings, type Settings } from "../../src/settings/settings.ts";
import { SETTINGS } from "../../src/settings/table.ts";
import { FETCH_MS } from "../support/deploy-tools.ts";
import {
  type KubeObject,
  type Labels,
  renderChart,
  renderNotes,
  renderOverlay,
  renderVerify,
  renderWithComponent,
  SETUPS,
  type Setup,
  schemaErrors,
  templateChart,
} from "../support/rendered-objects.ts";
import { compileYaml } from "../support/rules.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp } from "../support/test-app.ts";

interface Container {
  readonly name: string;
  readonly image: string;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly subPath?: string }[];
  readonly resources: { readonly requests?: Labels; readonly limits?: Labels };
  readonly securityContext: object;
  readonly [probe: `${string}Probe`]: { readonly httpGet?: { readonly path: string; readonly port: string } };
}
interface PodSpec {
  readonly containers: readonly Container[];
  readonly volumes: readonly Record<string, { readonly name?: string; readonly secretName?: string }>[];
  readonly terminationGracePeriodSeconds: number;
  readonly topologySpreadConstraints: readonly { readonly labelSelector: { readonly matchLabels: Labels } }[];
  readonly [field: string]: unknown;
}
interface Deployment extends KubeObject {
  readonly spec: {
    readonly replicas?: number;
    readonly selector: { readonly matchLabels: Labels };
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: PodSpec };
  };
}
interface StatefulSet extends Deployment {
  readonly spec: Deployment["spec"] & { readonly replicas: number; readonly serviceName: string };
}
interface Peer {
  readonly podSelector?: { readonly matchLabels: Labels };
}
interface Policy {
  readonly ingress: readonly {
    readonly from?: readonly Peer[];
    readonly ports: readonly { readonly port: string | number }[];
  }[];
  readonly egress: readonly {
    readonly to?: readonly Peer[];
    readonly ports: readonly { readonly port: string | number }[];
  }[];
}
interface NetworkPolicy extends KubeObject {
  readonly spec: { readonly egress: readonly { readonly ports: readonly Port[] }[] };
}
interface Monitor extends KubeObject {
  readonly spec: { readonly selector: { readonly matchLabels: Labels }; readonly endpoints: readonly object[] };
}
interface Port {
  readonly name: string;
  readonly port: number;
  readonly targetPort: string;
}

const ROOT = resolve(import.meta.dirname, "../..");
const CHART_LABELS = ["app.kubernetes.io/managed-by", "helm.sh/chart"];
/** Oldest version that Chart.yaml admits, and the newest that the schemas know. */
const KUBERNETES = ["1.27", "1.37"];
/** Kinds of objects that pick pods by their labels. */
const PICKING = ["Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "NetworkPolicy"];
/** Set-ups that Headgate shares its buckets in, and those that want Secrets of the reader's. */
const SHARED = SETUPS.filter((setup) => setup !== "memory");
const WITH_SECRETS = ["production", "mutual-tls", "postgres"] as const;
/** Stands in for the Secrets that the containers mount. */
const SECRET_FILES = temporaryFolder("headgate-secrets");

const SECRET_URLS: Readonly<Record<string, string>> = {
  REDIS_URL: "rediss://redis.example.com:6380",
  POSTGRES_URL: "postgres://headgate@db.example.com:5432/headgate?sslmode=verify-full",
};

const overlays = new Map<Setup, KubeObject[]>();
const charts = new Map<Setup, KubeObject[]>();

beforeAll(async () => {
  for (const setup of SETUPS) {
    overlays.set(setup, await renderOverlay(setup));
    charts.set(setup, await renderChart(setup));
  }
  for (const file of ["auth", "password", "ca.crt", "tls.crt", "tls.key"])
    writeFileSync(join(SECRET_FILES, file), "user:password");
}, FETCH_MS);

const objectsOf = (setup: Setup) => overlays.get(setup) ?? [];
const named = (objects: readonly KubeObject[], kind: string, name = "headgate") =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);
/** What runs pods: Deployments and StatefulSets are alike as far as this file looks at them. */
const workloads = (objects: readonly KubeObject[]) =>
  objects.filter(({ kind }) => kind === "Deployment" || kind === "StatefulSet") as Deployment[];
const headgateOf = (setup: Setup) => named(objectsOf(setup), "Deployment") as Deployment;
const containerOf = (deployment: Deployment) => deployment.spec.template.spec.containers[0] as Container;

/** Settings as the container's environment gives them, the Secret's values and files filled in. */
function settingsOf(setup: Setup): Settings {
  const env = (containerOf(headgateOf(setup)).env ?? []).map(({ name, value }): [string, string] => [
    name,
    value?.replace(/\/etc\/headgate\/(redis|postgres|tls)/, SECRET_FILES) ?? SECRET_URLS[name] ?? "",
  ]);
  return readSettings(Object.fromEntries(env));
}

/** The object as both tools would write it: without the chart's own labels, things with names in the order of those. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(comparable);
    const nameOf = (item: unknown) => (item as { name?: unknown } | null)?.name;
    if (!items.every((item) => typeof nameOf(item) === "string")) return items;
    return items.toSorted((a, b) => String(nameOf(a)).localeCompare(String(nameOf(b))));
  }
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => !CHART_LABELS.includes(key));
  return Object.fromEntries(kept.map(([key, inner]) => [key, comparable(inner)]));
}

/** The objects by name, apart from the namespace itself. */
function sortedForComparison(objects: readonly KubeObject[]): readonly (readonly [string, unknown])[] {
  return objects
    .filter(({ kind }) => kind !== "Namespace")
    .map((object) => [`${object.kind}/${object.metadata.name}`, comparable(object)] as const)
    .toSorted(([a], [b]) => a.localeCompare(b));
}

/** Values of the chart as arguments of helm. */
function asArguments(values: object): string[] {
  return Object.entries(values).flatMap(([name, value]) => ["--set-json", `${name}=${JSON.stringify(value)}`]);
}

function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

test.each(SETUPS)(
  "the set-up %s with the component traces sends spans to the collector, and may reach it",
  async (setup) => {
    const objects = await renderWithComponent(setup, "traces");
    const env = (all: readonly KubeObject[]) => containerOf(named(all, "Deployment") as Deployment).env ?? [];
    const added = env(objects).filter(({ name }) => !env(objectsOf(setup)).some((one) => one.name === name));
    const { traces } = readSettings(Object.fromEntries(added.map(({ name, value = "" }) => [name, value])));
    const url = new URL(traces?.url ?? "");
    expect(url.href).toBe("http://otel-collector.monitoring:4318/v1/traces");
    const { egress } = (named(objects, "NetworkPolicy") as NetworkPolicy).spec;
    expect(egress.at(-1)?.ports.map(({ port }) => String(port))).toContain(url.port);
    expect(await schemaErrors(objects, KUBERNETES.at(-1) ?? "")).toEqual([]);
  },
);

describe("what an overlay leaves out because not every cluster has it", () => {
  test.each([
    { component: "admin-tokens", values: { adminTokens: { existingSecret: "headgate-admin" } } },
    { component: "service-monitor", values: { serviceMonitor: { enabled: true } } },
    { component: "alerts", values: { prometheusRule: { enabled: true } } },
  ])("comes as the component $component, and is the same from the chart", async ({ component, values }) => {
    const objects = await renderWithComponent("production", component);
    expect(sortedForComparison(objects)).toEqual(
      sortedForComparison(await renderChart("production", ...asArguments(values))),
    );
    expect(sortedForComparison(objects)).not.toEqual(sortedForComparison(objectsOf("production")));
  });

  test("names in its instructions the Secret and the key that it mounts", async () => {
    const objects = await renderWithComponent("memory", "admin-tokens");
    const headgate = named(objects, "Deployment") as Deployment;
    const file = containerOf(headgate).env?.find(({ name }) => name === "ADMIN_TOKEN_FILE")?.value ?? "";
    expect(containerOf(headgate).volumeMounts).toContainEqual({
      name: "admin",
      mountPath: dirname(file),
      readOnly: true,
    });
    const said = readFileSync(join(ROOT, "deploy/kubernetes/components/admin-tokens/kustomization.yaml"), "utf8");
    expect(said).toContain(`create secret generic headgate-admin --from-literal=${basename(file)}=`);
    expect(await schemaErrors(objects, KUBERNETES.at(-1) ?? "")).toEqual([]);
  });

  test("is scraped where Headgate serves its metrics", async () => {
    const objects = await renderWithComponent("production", "service-monitor");
    const { spec } = named(objects, "ServiceMonitor") as Monitor;
    const { selector, endpoints } = spec;
    expect(selects(selector.matchLabels, named(objects, "Service")?.metadata.labels ?? {})).toBe(true);
    expect(endpoints).toMatchObject([{ port: "http", path: SETTINGS.prometheusPath.default }]);
  });
});

test("the job that verifies runs as restricted pods may, and its plan fits the rules and the Services of the base", async () => {
  const objects = await renderVerify();
  for (const version of KUBERNETES) expect(await schemaErrors(objects, version)).toEqual([]);
  const job = named(objects, "Job", "headgate-verify") as Deployment;
  const { spec: pod, metadata } = job.spec.template;
  const [container] = pod.containers;
  expect(pod).toMatchObject({ securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } } });
  expect(container?.image).toBe(containerOf(headgateOf("redis")).image);
  expect(container?.securityContext).toEqual(containerOf(headgateOf("redis")).securityContext);
  const { data } = named(objects, "ConfigMap", "headgate-verify") as unknown as { readonly data: Labels };
  const plan = readPlan(data["plan.yaml"] ?? "", 1);
  expect(plan).toMatchObject({ servers: ["headgate-headless:8081"], domain: "edge" });
  const service = named(objectsOf("redis"), "Service", "headgate-headless")?.spec as { readonly selector: Labels };
  expect(selects(service.selector, metadata.labels)).toBe(false);
});

describe.each(SETUPS)("the set-up %s", (setup) => {
  test("is the same from kustomize and from helm, apart from the namespace itself", () => {
    expect(sortedForComparison(charts.get(setup) ?? [])).toEqual(sortedForComparison(objectsOf(setup)));
  });

  test.each(KUBERNETES)("has only objects that Kubernetes %s knows, without unknown fields", async (version) => {
    expect(await schemaErrors(objectsOf(setup), version)).toEqual([]);
  });

  test("puts everything into the namespace headgate, which admits restricted pods only", () => {
    const others = objectsOf(setup).filter(({ kind }) => kind !== "Namespace");
    expect(new Set(others.map(({ metadata }) => metadata.namespace))).toEqual(new Set(["headgate"]));
    expect(named(objectsOf(setup), "Namespace")?.metadata.labels).toMatchObject({
      "pod-security.kubernetes.io/enforce": "restricted",
    });
  });

  test("runs no container as root, with rights it could gain, a root it could write, or a token", () => {
    for (const { metadata, spec } of workloads(objectsOf(setup))) {
      const { spec: pod } = spec.template;
      expect(pod, metadata.name).toMatchObject({
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
      });
      expect((pod.securityContext as { runAsUser: number }).runAsUser).toBeGreaterThan(0);
      expect(["hostNetwork", "hostPID", "hostIPC"].filter((field) => field in pod)).toEqual([]);
      for (const container of pod.containers) {
        expect(container.securityContext, container.name).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    }
  });

  test("gives every container three probes, resources, and an image with a version", () => {
    for (const container of workloads(objectsOf(setup)).flatMap(({ spec }) => spec.template.spec.containers)) {
      expect(Object.keys(container), container.name).toEqual(
        expect.arrayContaining(["startupProbe", "readinessProbe", "livenessProbe"]),
      );
      expect(container.resources).toMatchObject({
        requests: { cpu: expect.any(String), memory: expect.any(String) },
        limits: { memory: expect.any(String) },
      });
      expect(container.image).toMatch(/:\d[\w.-]*$/);
    }
  });

  test("selects with every selector exactly the pods that it means", () => {
    const pods = workloads(objectsOf(setup)).map(({ metadata, spec }) => ({
      name: metadata.name,
      labels: spec.template.metadata.labels,
    }));
    const hit = (selector: Labels) => pods.filter(({ labels }) => selects(selector, labels)).map(({ name }) => name);
    const meant = objectsOf(setup)
      .filter(({ kind }) => PICKING.includes(kind))
      .map((object) => ({ object, selector: selectorOf(object) }));
    expect(meant.length).toBeGreaterThanOrEqual(5);
    for (const { object, selector } of meant) {
      expect(hit(selector), `${object.kind} ${object.metadata.name}`).toEqual([baseName(object)]);
    }
    for (const { labelSelector } of headgateOf(setup).spec.template.spec.topologySpreadConstraints) {
      expect(hit(labelSelector.matchLabels)).toEqual(["headgate"]);
    }
  });

  test("uses the ports that Headgate has by default, by the same names everywhere", () => {
    const expected = { grpc: SETTINGS.grpcPort.default, http: SETTINGS.httpPort.default };
    const ports = Object.fromEntries(
      containerOf(headgateOf(setup)).ports.map(({ name, containerPort }) => [name, containerPort]),
    );
    expect(ports).toEqual(expected);
    const services = objectsOf(setup).filter(
      ({ kind, metadata }) => kind === "Service" && !/redis/.test(metadata.name),
    );
    for (const { spec } of services) {
      for (const { name, port, targetPort } of (spec as { ports: Port[] }).ports) {
        expect({ name, port, targetPort }).toEqual({ name, port: expected[name as "grpc" | "http"], targetPort: name });
      }
    }
    const policy = named(objectsOf(setup), "NetworkPolicy")?.spec as { ingress: { ports: { port: string }[] }[] };
    expect(policy.ingress.flatMap((rule) => rule.ports.map(({ port }) => port))).toEqual(["grpc", "http"]);
    expect(settingsOf(setup)).toMatchObject({ grpcPort: expected.grpc, httpPort: expected.http });
  });

  test("sets only variables that Headgate reads, and waits for its shutdown to end", () => {
    const settings = settingsOf(setup);
    expect(settings.warnings).toEqual([]);
    expect(settings.backendType).toBe(setup === "memory" || setup === "postgres" ? setup : "redis");
    const { terminationGracePeriodSeconds } = headgateOf(setup).spec.template.spec;
    const longestMs = settings.shutdownDelayMs + 3 * settings.shutdownGraceMs;
    expect(terminationGracePeriodSeconds * 1_000).toBeGreaterThan(longestMs);
  });

  test("mounts the rules as a directory where Headgate looks for them, and they compile without a warning", () => {
    const { volumes, containers } = headgateOf(setup).spec.template.spec;
    const mount = containers[0]?.volumeMounts.find(({ mountPath }) => mountPath === settingsOf(setup).rulesDir);
    expect(mount).toBeDefined();
    expect(mount?.subPath).toBeUndefined();
    const volume = volumes.find(({ name }) => (name as unknown as string) === mount?.name);
    const map = named(objectsOf(setup), "ConfigMap", volume?.configMap?.name);
    const { ruleSet, problems } = compileYaml(map?.data as Record<string, string>);
    expect(problems).toEqual([]);
    expect([...(ruleSet?.domains.keys() ?? [])]).toEqual(["edge"]);
  });

  test("names the version of package.json", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    const ours = objectsOf(setup).filter(
      ({ metadata }) => metadata.labels?.["app.kubernetes.io/component"] === "rate-limit",
    );
    expect(ours.length).toBeGreaterThan(5);
    expect(new Set(ours.map(({ metadata }) => metadata.labels?.["app.kubernetes.io/version"]))).toEqual(
      new Set([version]),
    );
    expect(containerOf(headgateOf(setup)).image).toBe(`headgate:${version}`);
  });
});

describe("the set-ups among each other", () => {
  test("memory is one process, the others are as many as the load asks for", () => {
    expect(headgateOf("memory").spec.replicas).toBe(1);
    expect(named(objectsOf("memory"), "HorizontalPodAutoscaler")).toBeUndefined();
    for (const setup of SHARED) {
      expect(headgateOf(setup).spec.replicas).toBeUndefined();
      expect(named(objectsOf(setup), "HorizontalPodAutoscaler")?.spec).toMatchObject({
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: "headgate" },
        // Of a core: the same as a share of what is requested would be a few percent of what a process can do.
        metrics: [{ resource: { name: "cpu", target: { type: "AverageValue", averageValue: "700m" } } }],
      });
    }
  });

  // Promise(restarts): The memory overlay for Kubernetes keeps its counts on a volume.
  test("memory keeps its counts on a volume that no two pods write to, the others keep none", () => {
    const { strategy, template } = headgateOf("memory").spec as unknown as {
      readonly strategy: object;
      readonly template: { readonly spec: { readonly volumes: readonly object[] } };
    };
    expect(strategy).toEqual({ type: "Recreate" });
    const mount = containerOf(headgateOf("memory")).volumeMounts.find(({ name }) => name === "buckets");
    expect(settingsOf("memory").memorySnapshot).toBe(`${mount?.mountPath}/buckets`);
    expect(template.spec.volumes).toContainEqual({
      name: "buckets",
      persistentVolumeClaim: { claimName: "headgate-buckets" },
    });
    expect(named(objectsOf("memory"), "PersistentVolumeClaim", "headgate-buckets")?.spec).toMatchObject({
      accessModes: ["ReadWriteOnce"],
    });
    for (const setup of SHARED) {
      expect(objectsOf(setup).filter(({ kind }) => kind === "PersistentVolumeClaim")).toEqual([]);
      expect(settingsOf(setup).memorySnapshot).toBeUndefined();
    }
  });

  test("redis reaches the Redis that it brings, production the one of the Secret over TLS", () => {
    const service = named(objectsOf("redis"), "Service", "headgate-redis")?.spec as { ports: Port[] };
    const address = { host: "headgate-redis", port: service.ports[0]?.port };
    expect(settingsOf("redis").redis).toMatchObject({ address });
    expect(settingsOf("production").redis).toMatchObject({ address: { host: "redis.example.com", port: 6380 } });
    expect(settingsOf("production").redis?.tls).toBeDefined();
  });

  test("redis-sentinel asks the sentinels of every pod that it brings, by the name that they watch", () => {
    const objects = objectsOf("redis-sentinel");
    const { spec } = named(objects, "StatefulSet", "headgate-redis") as StatefulSet;
    const hosts = hostsOf(spec);
    expect(hosts).toHaveLength(3);
    const port = portOf(objects, "sentinel");
    const sentinels = hosts.map((host) => ({ kind: "tcp", host, port }));
    expect(settingsOf("redis-sentinel").redis).toMatchObject({ kind: "sentinel", primaryName: "headgate", sentinels });
    for (const { name, env } of spec.template.spec.containers) {
      expect(env, name).toContainEqual({ name: "HOSTS", value: hosts.join(" ") });
      expect(env, name).toContainEqual({ name: "SELF", value: `$(POD_NAME).${spec.serviceName}` });
    }
  });

  test("redis-cluster asks every pod that it brings, and has each know the others", () => {
    const objects = objectsOf("redis-cluster");
    const { spec } = named(objects, "StatefulSet", "headgate-redis") as StatefulSet;
    const hosts = hostsOf(spec);
    expect(hosts).toHaveLength(6);
    const seeds = hosts.map((host) => ({ kind: "tcp", host, port: portOf(objects, "redis") }));
    expect(settingsOf("redis-cluster").redis).toMatchObject({ kind: "cluster", seeds });
    for (const { name, env } of spec.template.spec.containers) {
      expect(env, name).toContainEqual({ name: "HOSTS", value: hosts.join(" ") });
    }
    // Redis itself adds this to its port for the others.
    expect((portOf(objects, "bus") ?? 0) - (portOf(objects, "redis") ?? 0)).toBe(10_000);
  });

  test.each([
    { setup: "redis-sentinel", ports: ["redis", "sentinel"], headgates: [6379, 26379] },
    { setup: "redis-cluster", ports: ["redis", "bus"], headgates: [6379] },
  ] as const)(
    "the servers of $setup find each other before they are ready, and let each other in",
    ({ setup, ports, headgates }) => {
      const objects = objectsOf(setup);
      expect(named(objects, "Service", "headgate-redis")?.spec).toMatchObject({
        clusterIP: "None",
        publishNotReadyAddresses: true,
      });
      const { labels } = (named(objects, "StatefulSet", "headgate-redis") as StatefulSet).spec.template.metadata;
      const isMeant = ({ podSelector }: Peer) => podSelector !== undefined && selects(podSelector.matchLabels, labels);
      const policy = named(objects, "NetworkPolicy", "headgate-redis")?.spec as Policy;
      const admitted = policy.ingress.find(({ from }) => from?.some(isMeant));
      const sought = policy.egress.find(({ to }) => to?.some(isMeant));
      expect([admitted, sought].map((rule) => rule?.ports.map(({ port }) => port))).toEqual([ports, ports]);
      const own = named(objects, "NetworkPolicy")?.spec as Policy;
      expect(own.egress.find(({ to }) => to?.some(isMeant))?.ports.map(({ port }) => port)).toEqual(headgates);
    },
  );

  test("postgres reaches the one of the Secret over TLS, its password in a file", () => {
    expect(settingsOf("postgres").postgres).toMatchObject({
      host: "db.example.com",
      port: 5432,
      passwordFile: join(SECRET_FILES, "password"),
    });
    expect(settingsOf("postgres").postgres?.tls).toMatchObject({ skipsHostName: false });
    const policy = named(objectsOf("postgres"), "NetworkPolicy")?.spec as Policy;
    expect(policy.egress.flatMap(({ ports }) => ports.map(({ port }) => port))).toContain(5432);
  });

  test("mutual-tls admits only callers that hold a certificate, the others ask for none", () => {
    const tls = (setup: Setup) => {
      const { grpcUsesTls, grpcClientCaFile } = settingsOf(setup);
      return [grpcUsesTls, grpcClientCaFile !== undefined];
    };
    for (const setup of SETUPS) expect(tls(setup), setup).toEqual([setup === "mutual-tls", setup === "mutual-tls"]);
  });

  test("every file that a setting names is one that a Secret of its instructions holds", () => {
    for (const setup of WITH_SECRETS) {
      const said = readFileSync(join(ROOT, "deploy/kubernetes/overlays", setup, "kustomization.yaml"), "utf8");
      const inherited = readFileSync(join(ROOT, "deploy/kubernetes/overlays/production/kustomization.yaml"), "utf8");
      const files = (containerOf(headgateOf(setup)).env ?? []).flatMap(
        ({ value }) => /^\/etc\/headgate\/(?:redis|postgres|tls)\/(.+)$/.exec(value ?? "")?.[1] ?? [],
      );
      expect(files.length).toBeGreaterThan(1);
      for (const file of files) expect(said + inherited).toContain(file);
      const secrets = headgateOf(setup).spec.template.spec.volumes.flatMap(({ secret }) => secret?.secretName ?? []);
      for (const name of secrets) expect(said + inherited).toContain(`create secret generic ${name} `);
    }
  });

  test("one Service is headless, and both say that the port speaks gRPC", () => {
    const services = ["headgate", "headgate-headless"].map((name) => named(objectsOf("redis"), "Service", name)?.spec);
    expect(services).toMatchObject([
      { type: "ClusterIP", ports: [{ name: "grpc", appProtocol: "grpc" }, { name: "http" }] },
      { clusterIP: "None", ports: [{ name: "grpc", appProtocol: "grpc" }] },
    ]);
  });

  test("the probes ask for pages that a healthy service answers with 200", async () => {
    const app = await startTestApp("domain: edge\n");
    const { startupProbe, readinessProbe, livenessProbe } = containerOf(headgateOf("memory"));
    const paths = [startupProbe, readinessProbe, livenessProbe].map((probe) => probe?.httpGet?.path ?? "");
    expect(paths).toEqual(["/livez", "/readyz", "/livez"]);
    for (const path of paths) expect((await app.http(path)).status, path).toBe(200);
  });
});

describe("the chart", () => {
  test.each([
    { name: "a misspelt value", args: ["--set", "replica=2"], says: /'replica'/ },
    { name: "an unknown store", args: ["--set", "store=memcache"], says: /store/ },
    { name: "several processes without a shared store", args: ["--set", "replicas=3"], says: /once per process/ },
    { name: "Redis without an address", args: ["--set", "store=redis"], says: /redis\.url/ },
    { name: "PostgreSQL without an address", args: ["--set", "store=postgres"], says: /postgres\.url/ },
    {
      name: "a password in PostgreSQL's address",
      args: ["--set", "store=postgres,postgres.url=postgres://u:p@db/x"],
      says: /url/,
    },
    { name: "keys of no Secret of PostgreSQL", args: ["--set", "postgres.secretKeys.ca=true"], says: /existingSecret/ },
    { name: "an unknown set-up of Redis", args: ["--set", "redis.bundled.kind=ring"], says: /kind/ },
    { name: "keys of no Secret", args: ["--set", "redis.secretKeys.auth=true"], says: /existingSecret/ },
    {
      name: "certificates asked for without any of our own",
      args: ["--set", "grpcTls.verifyClients=true"],
      says: /grpcTls/,
    },
    { name: "a password in the address", args: ["--set", "redis.url=redis://u:p@r:6379"], says: /url/ },
    {
      name: "a port that probes and Services would not know",
      args: ["--set-string", "settings.PORT=80"],
      says: /PORT/,
    },
    {
      name: "a snapshot in a place that no volume is mounted to",
      args: ["--set-string", "settings.MEMORY_SNAPSHOT=/tmp/buckets"],
      says: /MEMORY_SNAPSHOT/,
    },
    {
      name: "a token in clear text",
      args: ["--set-string", "settings.ADMIN_TOKEN=abcdefghijklmnop"],
      says: /ADMIN_TOKEN/,
    },
    { name: "a server of names without ports", args: ["--set-json", 'networkPolicy.dns=[{"to":[{}]}]'], says: /ports/ },
    { name: "a setting that is no text", args: ["--set", "settings.BUCKETS_MAX=5"], says: /want string/ },
    { name: "a rule file that Headgate would not read", args: ["--set-string", "rules.edge=x"], says: /rules/ },
  ])("refuses $name", async ({ args, says }) => {
    await expect(templateChart("headgate", ...args)).rejects.toThrow(says);
  });

  test("holds no links, of which helm warns at each use", () => {
    const chart = resolve(import.meta.dirname, "../../deploy/helm");
    const links = readdirSync(chart, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isSymbolicLink(),
    );
    expect(links.map(({ name }) => name)).toEqual([]);
  });

  test("names objects after a release of another name, and their selectors too", async () => {
    const objects = await templateChart("edge", "--set", "store=redis,redis.bundled.enabled=true");
    expect(workloads(objects).map(({ metadata }) => metadata.name)).toEqual(["edge-headgate", "edge-headgate-redis"]);
    const [headgate, redis] = workloads(objects) as [Deployment, Deployment];
    expect(containerOf(headgate).env).toContainEqual({ name: "REDIS_URL", value: "edge-headgate-redis:6379" });
    for (const { metadata, spec } of [headgate, redis]) {
      expect(selects(spec.selector.matchLabels, spec.template.metadata.labels), metadata.name).toBe(true);
      const service = named(objects, "Service", metadata.name)?.spec as { selector: Labels };
      expect(service.selector).toEqual(spec.selector.matchLabels);
    }
  });

  test("brings the alerts, with runbooks where the reader has them, and lets traces out to their collector", async () => {
    const alerts = readFileSync(join(ROOT, "deploy/prometheus/alerts.yaml"), "utf8");
    const runbooks = "https://git.example.com/headgate/blob/main/";
    const traced = ["--set-string", "settings.TRACING_ENABLED=true"];
    const asked = ["--set", `prometheusRule.enabled=true,prometheusRule.runbooks=${runbooks}`];
    const objects = await templateChart("headgate", ...asked, ...traced);
    const expected = parse(alerts.replaceAll("runbook_url: ", `runbook_url: ${runbooks}`)) as object;
    expect(named(objects, "PrometheusRule")?.spec).toEqual(expected);
    const egress = (all: readonly KubeObject[]) =>
      (named(all, "NetworkPolicy") as NetworkPolicy).spec.egress.flatMap(({ ports }) => ports);
    const untraced = egress(await templateChart("headgate"));
    const more = egress(objects).slice(untraced.length);
    expect(more.map(({ port }) => port)).toEqual([4317, 4318]);
  });

  test("passes settings on as text, and rules and Secrets of the reader's own by name", async () => {
    const given = ["settings.BUCKETS_MAX=500000", "existingRules=my-rules", "redis.existingSecret=s"];
    const args = given.flatMap((pair) => ["--set-string", pair]);
    const objects = await templateChart("headgate", ...args, "--set", "store=redis,redis.secretKeys.url=true");
    const headgate = named(objects, "Deployment") as Deployment;
    expect(containerOf(headgate).env).toEqual(
      expect.arrayContaining([
        { name: "BUCKETS_MAX", value: "500000" },
        { name: "REDIS_URL", valueFrom: { secretKeyRef: { name: "s", key: "url" } } },
      ]),
    );
    expect(headgate.spec.template.spec.volumes).toEqual([{ name: "rules", configMap: { name: "my-rules" } }]);
    expect(named(objects, "ConfigMap", "headgate-rules")).toBeUndefined();
  });
});

describe("what the chart passes on as it is", () => {
  const EXTRAS = {
    extraEnv: [{ name: "NODE_OPTIONS", value: "--max-old-space-size=300" }],
    extraVolumes: [{ name: "more", emptyDir: {} }],
    extraVolumeMounts: [{ name: "more", mountPath: "/more" }],
    initContainers: [{ name: "first", image: "busybox:1", command: ["true"] }],
    podLabels: { team: "edge" },
    podAnnotations: { note: "a" },
    serviceAnnotations: { note: "b" },
    serviceAccountAnnotations: { note: "c" },
    topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "rack", whenUnsatisfiable: "DoNotSchedule" }],
  };

  test("lands where Kubernetes expects it", async () => {
    const objects = await templateChart("headgate", ...asArguments(EXTRAS));
    expect(await schemaErrors(objects, KUBERNETES.at(-1) ?? "")).toEqual([]);
    const { template } = (named(objects, "Deployment") as Deployment).spec;
    expect(template.metadata).toMatchObject({ labels: EXTRAS.podLabels, annotations: EXTRAS.podAnnotations });
    expect(template.spec).toMatchObject({
      initContainers: EXTRAS.initContainers,
      topologySpreadConstraints: EXTRAS.topologySpreadConstraints,
    });
    expect(template.spec.volumes).toEqual(expect.arrayContaining(EXTRAS.extraVolumes));
    const [container] = template.spec.containers;
    expect(container?.env?.at(-1)).toEqual(EXTRAS.extraEnv[0]);
    expect(container?.volumeMounts.at(-1)).toEqual(EXTRAS.extraVolumeMounts[0]);
    for (const name of ["headgate", "headgate-headless"])
      expect(named(objects, "Service", name)?.metadata).toMatchObject({ annotations: EXTRAS.serviceAnnotations });
    expect(named(objects, "ServiceAccount")?.metadata).toMatchObject({ annotations: EXTRAS.serviceAccountAnnotations });
  });

  test.each([
    { dns: [], ports: [] },
    { dns: [{ to: [{ ipBlock: { cidr: "169.254.20.10/32" } }], ports: [53] }], ports: [53, 53] },
    { dns: [{ to: [{ namespaceSelector: {} }], ports: [5353] }], ports: [5353, 5353] },
  ])("names are asked of $dns alone", async ({ dns, ports }) => {
    for (const kind of ["sentinel", "cluster"]) {
      const bundled = { bundled: { enabled: true, kind } };
      const objects = await templateChart(
        "headgate",
        ...asArguments({ store: "redis", redis: bundled, networkPolicy: { dns } }),
      );
      for (const name of ["headgate", "headgate-redis"]) {
        const policy = named(objects, "NetworkPolicy", name)?.spec as Policy;
        const toNames = policy.egress.filter(({ to }) => to?.every(({ podSelector }) => podSelector === undefined));
        expect(
          toNames.flatMap(({ ports }) => ports.map(({ port }) => port)),
          name,
        ).toEqual(ports);
        expect(toNames.map(({ to }) => to)).toEqual(dns.map(({ to }) => to));
      }
      expect(await schemaErrors(objects, KUBERNETES.at(-1) ?? "")).toEqual([]);
    }
  });

  test("decisions and pages are for those whom the values name", async () => {
    const grpcFrom = [{ namespaceSelector: { matchLabels: { gateways: "yes" } } }];
    const httpFrom = [{ ipBlock: { cidr: "10.0.0.0/8" } }];
    const objects = await templateChart("headgate", ...asArguments({ networkPolicy: { grpcFrom, httpFrom } }));
    const policy = named(objects, "NetworkPolicy")?.spec as Policy;
    expect(policy.ingress.map(({ from, ports }) => [from, ports[0]?.port]).slice(0, 2)).toEqual([
      [grpcFrom, "grpc"],
      [httpFrom, "http"],
    ]);
  });
});

describe("the notes after an installation", () => {
  test.each([
    { values: {}, say: ["no admin token", "every pod of the cluster", "Alerts are off"], don_t: ["bundled"] },
    {
      values: {
        adminTokens: { existingSecret: "ours" },
        prometheusRule: { enabled: true },
        networkPolicy: { grpcFrom: [{ podSelector: {} }] },
        store: "redis",
        redis: { bundled: { enabled: true } },
      },
      say: ["get secret ours", "bundled Redis has no password"],
      don_t: ["no admin token", "every pod", "Alerts are off"],
    },
  ])("say how to ask, where the page is, and what $values leave to do", async ({ values, say, don_t }) => {
    const notes = await renderNotes(...asArguments(values));
    for (const words of ["ask --domain edge", "port-forward", "http://localhost:8080", "doctor", ...say])
      expect(notes).toContain(words);
    for (const words of don_t) expect(notes).not.toContain(words);
  });
});

/** Names that the pods of a StatefulSet have for each other. */
function hostsOf({ replicas, serviceName }: StatefulSet["spec"]): string[] {
  return Array.from({ length: replicas }, (_, i) => `headgate-redis-${i}.${serviceName}`);
}

function portOf(objects: readonly KubeObject[], name: string): number | undefined {
  const spec = named(objects, "Service", "headgate-redis")?.spec as { ports: Port[] } | undefined;
  return spec?.ports.find((port) => port.name === name)?.port;
}

/** The labels by which an object picks pods, wherever its kind has them. */
function selectorOf({ kind, spec }: KubeObject): Labels {
  const { selector, podSelector } = spec as Record<string, Labels & { matchLabels?: Labels }>;
  const picked = podSelector ?? selector;
  if (picked === undefined) throw new Error(`${kind} without a selector`);
  return picked.matchLabels ?? picked;
}

/** The Deployment that an object belongs to, by its name. */
function baseName({ metadata }: KubeObject): string {
  return metadata.name.replace(/-headless$/, "");
}

test(
  "the service for Envoy AI Gateway is valid to the oldest and the newest Kubernetes",
  async () => {
    const file = join(ROOT, "deploy/envoy-ai-gateway/ratelimit.yaml");
    const objects = parseAllDocuments(readFileSync(file, "utf8")).map((document) => document.toJS() as KubeObject);
    for (const version of KUBERNETES) expect(await schemaErrors(objects, version), version).toEqual([]);
  },
  FETCH_MS,
);
