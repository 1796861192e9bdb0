// The service as Envoy Gateway deploys it: its command, its variables, its files, its probes; and the configuration in
// deploy/envoy-gateway that has it deployed. test/gateway has the gateway itself.

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { compileRules } from "../../src/engine/rules/compile.ts";
import { parseFile } from "../../src/rule-sources/files/parse-file.ts";
import { readSettings, type Settings } from "../../src/settings/settings.ts";
import { COMMAND, PORTS, PROBE, STRAY_FLAG, VARIABLES } from "../gateway/deployment.ts";
import { Authority } from "../support/certificates.ts";
import { RedisServer } from "../support/redis-server.ts";
import { resourceFile, type WireDescriptor } from "../support/resources.ts";
import { PlainStatsBook } from "../support/rules.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { startXdsServer, xdsServerProgram } from "../support/xds-server.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const CONFIGURATIONS = join(ROOT, "deploy/envoy-gateway");
const controlPlane = xdsServerProgram();

/** A folder like the image's, with /bin/ratelimit and the built service. */
function imageFolder(): string {
  const folder = temporaryFolder("headgate-image");
  mkdirSync(join(folder, "bin"));
  copyFileSync(join(ROOT, "deploy/image/ratelimit"), join(folder, "bin/ratelimit"));
  chmodSync(join(folder, "bin/ratelimit"), 0o755);
  symlinkSync(join(ROOT, "dist"), join(folder, "dist"));
  return folder;
}

/** Files of the Secret that the gateway mounts, for the service (`envoy-rate-limit`) or for Envoy (`envoy`). */
function secretFolder(authority: Authority, ...names: readonly string[]): string {
  const folder = temporaryFolder("headgate-certs");
  const { cert, key } = authority.issue(...names);
  writeFileSync(join(folder, "tls.crt"), cert);
  writeFileSync(join(folder, "tls.key"), key);
  writeFileSync(join(folder, "ca.crt"), authority.cert);
  return folder;
}

/** The environment with all files in one folder, where the container has them in mounted ones. */
function mounted(env: Readonly<Record<string, string>>, folder: string): Readonly<Record<string, string>> {
  const mounts = /^(?:\/certs|\/redis-certs|\/etc\/headgate\/postgres)\//;
  return Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value.replace(mounts, `${folder}/`)]));
}

/** What the service makes of an environment, wherever the files in it have anything to say. */
function settingsOf(env: Readonly<Record<string, string>>): Settings {
  const folder = temporaryFolder("headgate-mounts");
  for (const name of ["tls.crt", "tls.key", "ca.crt", "password"]) writeFileSync(join(folder, name), "x");
  return readSettings(mounted(env, folder));
}

/** What the service has said in JSON. */
const saidBy = ({ log }: ServiceProcess) =>
  log.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);

describe("/bin/ratelimit", () => {
  const run = (...args: readonly string[]) =>
    spawnSync(join(imageFolder(), COMMAND), args, { encoding: "utf8", env: { PATH: process.env.PATH, PORT: "x" } });

  test("starts the service whatever flags it is given, and says that they mean nothing, without their values", () => {
    for (const args of [[STRAY_FLAG], ["-a", "--b=secret=c"]]) {
      const { stderr, status } = run(...args);
      // PORT=x ends the service: it was this that was started.
      expect(`${status} ${stderr}`).toMatch(/^1 [\s\S]*CONFIG_SETTINGS: .*\nPORT: /);
      for (const flag of args) expect(stderr).toContain(`ratelimit: ${flag.split("=")[0]} is ignored`);
      expect(stderr).not.toContain("secret");
    }
  });

  test("still is the command line program where a command, help or the version is asked for", () => {
    expect(run("--help").stdout).toContain("headgate");
    expect(run("--version").stdout).toMatch(/^\d+\.\d+\.\d+/);
    expect(run("check", "--nonsense")).toMatchObject({ status: 2, stderr: expect.stringContaining("--nonsense") });
  });
});

describe.runIf(controlPlane !== undefined)("what Envoy Gateway deploys", () => {
  // Only what a test on one machine can't have: the ports, the host names, where the files lie, and time to spare.
  const here = (env: Readonly<Record<string, string>>, plane: number, redis: string) => ({
    ...env,
    CONFIG_GRPC_XDS_SERVER_URL: `localhost:${plane}`,
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: "envoy-gateway",
    PROMETHEUS_ADDR: ":0",
    REDIS_URL: redis,
    PORT: "0",
    GRPC_PORT: "0",
    DEBUG_PORT: "0",
    // A machine that is busy answers late; what then is decided without Redis is not what this is about.
    STORE_PATIENCE: "5s",
  });

  // Promise(gateway): Every variable, file, port, probe and flag of the gateway's deployment works.
  test.each([
    { name: "with metrics", more: VARIABLES.metrics, store: "redis", warned: ["PROMETHEUS_MAPPER_YAML"] },
    {
      name: "with traces, and counts in memory",
      more: { ...VARIABLES.metrics, ...VARIABLES.tracing, BACKEND_TYPE: "memory" },
      store: "memory",
      warned: ["PROMETHEUS_MAPPER_YAML", "REDIS_URL"],
    },
  ])("runs $name: its probes, its limits over mutual TLS, its metrics, and what egctl asks", async (each) => {
    const authority = new Authority("gateway");
    const certs = secretFolder(authority, "envoy-rate-limit");
    const served = secretFolder(authority, "envoy-gateway");
    const tls = { cert: join(served, "tls.crt"), key: join(served, "tls.key"), ca: join(served, "ca.crt") };
    const plane = await startXdsServer(controlPlane ?? "", { node: "envoy-ratelimit", tls });
    let redis = "nobody.invalid:6379";
    if (each.store === "redis") {
      const server = await RedisServer.start();
      redis = `127.0.0.1:${server.port}`;
    }
    const env = mounted(here({ ...VARIABLES.always, ...each.more }, plane.port, redis), certs);
    const service = await startService(env, { command: [join(imageFolder(), COMMAND), STRAY_FLAG] });
    const page = (port: number, path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    // All three probes ask this, from the first second on; with no policy there is never a set.
    await expect.poll(async () => (await page(service.httpPort, PROBE)).status).toBe(200);
    // What the machine was busy with meanwhile says nothing of the settings.
    const warnings = saidBy(service)
      .flatMap(({ level, msg }) => (level === "warn" || level === "error" ? [String(msg)] : []))
      .filter((line) => !/^(this process was too busy|Redis )/.test(line));
    expect(warnings.map((line) => /^[A-Z_]+/.exec(line)?.[0] ?? line).toSorted()).toEqual(each.warned.toSorted());

    const rate_limit = { unit: "HOUR", requests_per_unit: 1 };
    const rule = { key: "rule-0-match-0", rate_limit };
    const route = { key: "httproute/default/a/rule/0", value: "httproute/default/a/rule/0", descriptors: [rule] };
    plane.serve({
      version: "1",
      resources: [{ name: "default/eg/http", domain: "default/eg/http", descriptors: [route] }],
    });
    await plane.request(({ version }) => version === "1");
    expect(plane.requests()[0]).toMatchObject({ node: "envoy-ratelimit" });

    const envoy = secretFolder(authority, "envoy");
    const read = (name: string) => readFileSync(join(envoy, name));
    const target = `127.0.0.1:${service.grpcPort}`;
    const name = { "grpc.ssl_target_name_override": "envoy-rate-limit" };
    const shown = credentials.createSsl(read("ca.crt"), read("tls.key"), read("tls.crt"));
    const withCertificate = openClient(target, name, shown);
    const ask = (client: typeof withCertificate) =>
      askOnce(client, {
        domain: "default/eg/http",
        descriptors: [
          {
            entries: [
              { key: route.key, value: route.value },
              { key: "rule-0-match-0", value: "ann" },
            ],
          },
        ],
      });
    expect((await ask(withCertificate)).overall_code).toBe("OK");
    expect((await ask(withCertificate)).overall_code).toBe("OVER_LIMIT");
    const without = openClient(target, name, credentials.createSsl(read("ca.crt")));
    await expect(ask(without)).rejects.toThrow(/UNAVAILABLE/);

    expect(await (await page(service.debugPort, "/rlconfig")).text()).toContain("rule-0-match-0");
    const { metrics } = saidBy(service).find(({ msg }) => msg === "listening") ?? {};
    const metricsPort = Number(String(metrics).split(":").at(-1));
    expect(await (await page(metricsPort, "/metrics")).text()).toContain("ratelimit_service_total_requests");
  });

  test("listens where the gateway's Service, probes and egctl look", () => {
    const settings = settingsOf({ ...VARIABLES.always, ...VARIABLES.metrics, ...VARIABLES.redisTls });
    expect([settings.grpcPort, settings.httpPort, settings.debugPort]).toEqual(Object.values(PORTS));
    expect([settings.grpcHost, settings.httpHost]).toEqual(["0.0.0.0", "0.0.0.0"]);
    expect(settings.prometheusAddress).toMatchObject({ port: 19_001 });
  });
});

interface Configuration {
  readonly provider: {
    readonly kubernetes: {
      readonly rateLimitDeployment: {
        readonly replicas?: number;
        readonly container: { readonly image: string; readonly env?: readonly { name: string; value?: string }[] };
        readonly patch: object;
      };
      readonly rateLimitHpa?: object;
    };
  };
  readonly rateLimit: { readonly backend: { readonly type: string; readonly redis: { readonly url: string } } };
}

describe("deploy/envoy-gateway", () => {
  const read = (name: string) => parse(readFileSync(join(CONFIGURATIONS, `${name}.yaml`), "utf8")) as Configuration;

  test("differs for each store in the store alone", () => {
    const bare = (name: string) => {
      const { provider, rateLimit, ...rest } = read(name);
      const { container, replicas, pod, ...deployment } = provider.kubernetes.rateLimitDeployment as never as Record<
        string,
        object
      >;
      const { env, volumeMounts, ...image } = container as Record<string, object>;
      return { ...rest, deployment, image, type: rateLimit.backend.type };
    };
    expect(bare("memory")).toEqual(bare("redis"));
    expect(bare("postgres")).toEqual(bare("redis"));
    expect(read("memory").provider.kubernetes).toMatchObject({ rateLimitDeployment: { replicas: 1 } });
    expect(read("memory").provider.kubernetes.rateLimitHpa).toBeUndefined();
    for (const name of ["redis", "postgres"]) {
      const { rateLimitDeployment, rateLimitHpa } = read(name).provider.kubernetes;
      expect(rateLimitDeployment.replicas, "the autoscaler says how many").toBeUndefined();
      expect(rateLimitHpa).toBeDefined();
    }
  });

  test.each(readdirSync(CONFIGURATIONS))(
    "%s sets what the service reads, in addition to what the gateway sets",
    (file) => {
      const { provider, rateLimit } = read(file.replace(".yaml", ""));
      const own = provider.kubernetes.rateLimitDeployment.container.env ?? [];
      const values = Object.fromEntries(
        own.map(({ name, value }) => [name, value ?? "postgres://headgate@db/headgate?sslmode=verify-full"]),
      );
      const settings = settingsOf({ ...VARIABLES.always, REDIS_URL: rateLimit.backend.redis.url, ...values });
      const store = file.replace(".yaml", "");
      const unused = `REDIS_URL: no effect, because BACKEND_TYPE is ${store}`;
      expect(settings.warnings).toEqual(store === "redis" ? [] : [unused]);
      expect(settings.backendType).toBe(store);
    },
  );
});

// The script is read by whatever /bin/sh is there.
test("/bin/ratelimit is a plain shell script", () => {
  execFileSync("sh", ["-n", join(ROOT, "deploy/image/ratelimit")]);
});

describe("budgets of language models", () => {
  interface Shipped {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly namespace: string };
    readonly data: Readonly<Record<string, string>>;
    readonly spec: {
      readonly rules: readonly { readonly timeouts: { readonly request: string } }[];
      readonly rateLimit: {
        readonly global: {
          readonly rules: readonly {
            readonly clientSelectors: readonly Selector[];
            readonly limit: { readonly requests: number; readonly unit: string };
          }[];
        };
      };
      readonly lua: readonly { readonly inline: string }[];
    };
  }
  interface Selector {
    readonly headers: readonly { readonly name: string }[];
  }
  const text = readFileSync(join(ROOT, "deploy/envoy-gateway-llm/llm.yaml"), "utf8");
  const documents = parseAllDocuments(text).map((document) => document.toJS() as Shipped);
  const only = (kind: string) => documents.find((document) => document.kind === kind) as Shipped;
  const { metadata: policy, spec } = only("BackendTrafficPolicy");
  const [[file, rules] = ["", ""]] = Object.entries(only("ConfigMap").data);

  /** The limits that the gateway makes of the policy, as it sends them. */
  function sent() {
    const descriptors = spec.rateLimit.global.rules.map(({ clientSelectors, limit }, rule) => {
      const keys = clientSelectors.flatMap(({ headers }) => headers.map((_, match) => `rule-${rule}-match-${match}`));
      const end: WireDescriptor = { rate_limit: { unit: limit.unit.toUpperCase(), requests_per_unit: limit.requests } };
      const chain = keys.reduceRight<WireDescriptor>(
        (below, key) => ({ key, ...(below.key === undefined ? below : { descriptors: [below] }) }),
        end,
      );
      const key = `${policy.namespace}/${policy.name}/rule/${rule}`;
      return { key, value: key, descriptors: [chain] };
    });
    const domain = `${policy.namespace}/${policy.name}`;
    return resourceFile({ name: domain, domain, descriptors });
  }

  test("have a file for Headgate that fits the policy, and holds for longer than the route waits", () => {
    const beside = parseFile({ name: file, bytes: Buffer.from(rules) });
    const { ruleSet, problems } = compileRules([sent(), beside], { statsBook: new PlainStatsBook() });
    expect(problems).toEqual([]);
    const [domain] = ruleSet?.domains.values() ?? [];
    const held = domain?.root.rules.map((rule) => rule.children?.rules[0]?.hold) ?? [];
    expect(held).toHaveLength(spec.rateLimit.global.rules.length);
    const timeout = Number.parseInt(only("HTTPRoute").spec.rules[0]?.timeouts.request ?? "", 10);
    for (const hold of held) {
      expect(hold?.seconds).toBeGreaterThan(timeout);
      const { default: byDefault, max } = hold?.estimate ?? {};
      // The filter holds by the same numbers.
      expect(only("EnvoyExtensionPolicy").spec.lua[0]?.inline).toContain(`DEFAULT, MOST = ${byDefault}, ${max}\n`);
    }
  });
});
