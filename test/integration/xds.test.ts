// Rules from a real control plane (go-control-plane's snapshot cache), from its stream to the answers of the service.

import { spawnSync } from "node:child_process";
import { createReadStream, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";
import { startXdsServer, type XdsServer, type XdsServerOptions, xdsServerProgram } from "../support/xds-server.ts";

const program = xdsServerProgram();
const NODE = "headgate-test";

/** A resource whose one rule lets `requests` calls of a user pass. */
function resource(domain: string, requests: number, unit = "HOUR"): object {
  const rate_limit = { unit, requests_per_unit: requests };
  return { name: domain, domain, descriptors: [{ key: "user", rate_limit }] };
}

describe.runIf(program !== undefined)("rules from a control plane", () => {
  const startPlane = (options: XdsServerOptions = {}): Promise<XdsServer> => startXdsServer(program ?? "", options);

  function startApp(port: number, env: Readonly<Record<string, string>> = {}): Promise<TestApp> {
    return startTestApp(
      {},
      {
        CONFIG_TYPE: "GRPC_XDS_SOTW",
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
        CONFIG_GRPC_XDS_NODE_ID: NODE,
        CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: "50ms",
        DEBUG_PORT: "0",
        FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
        ...env,
      },
    );
  }

  const limitOf = async (app: TestApp, domain = "edge") => {
    const { statuses } = await app.ask({ domain, descriptors: [{ entries: [{ key: "user", value: "a" }] }] });
    return statuses[0]?.current_limit?.requests_per_unit;
  };
  const rulesOf = async (app: TestApp) => {
    const { rules } = (await (await app.http("/config")).json()) as {
      rules: { control_plane: Readonly<Record<string, unknown>>; last_error: { message: string } | null };
    };
    return rules;
  };
  const stateOf = async (app: TestApp) => (await rulesOf(app)).control_plane;
  const lastError = async (app: TestApp) => (await rulesOf(app)).last_error;

  test("limit what callers ask, say who asks, and are taken in by version and nonce", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("edge", 2), resource("other", 5)] });
    const app = await startApp(plane.port, {
      CONFIG_GRPC_XDS_NODE_METADATA: "zone=a,tier=b=c",
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: "x-team:blue, x-time:10:30",
    });
    expect((await app.hit({ user: "a" })).overall_code).toBe("OK");
    expect((await app.hit({ user: "a" })).overall_code).toBe("OK");
    expect((await app.hit({ user: "a" })).overall_code).toBe("OVER_LIMIT");
    expect(await limitOf(app, "other")).toBe(5);
    const [first] = plane.requests();
    expect(first).toMatchObject({
      node: NODE,
      version: "",
      nonce: "",
      error: "",
      names: 0,
      metadata: { zone: "a", tier: "b=c" },
    });
    const acked = await plane.request(({ version }) => version === "1");
    expect(acked).toMatchObject({ nonce: "1", error: "" });
    const opened = plane.seen.find((event) => event.event === "open");
    expect(opened?.headers).toMatchObject({ "x-team": ["blue"], "x-time": ["10:30"] });
    expect(await stateOf(app)).toMatchObject({ state: "connected", version: "1", refusals: 0, from_cache: false });
    const metrics = await (await app.http("/metrics")).text();
    expect(metrics).toContain('headgate_control_plane_state{state="connected"} 1');
    expect(metrics).toContain("headgate_control_plane_answers_total 1");
    expect(metrics).toMatch(/headgate_control_plane_set_age_seconds [0-9.]+/);
    const lines = await (await fetch(`http://127.0.0.1:${app.app.debugPort}/rlconfig`)).text();
    expect(lines).toContain("edge.user: unit=HOUR requests_per_unit=2, shadow_mode: false");
  });

  // Promise(xds): A rejected set's answer names the path of the mistake.
  test("change with each set; a bad one between good ones is refused with its place, and the last good one stays", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("edge", 2)] });
    const app = await startApp(plane.port);
    expect(await limitOf(app)).toBe(2);
    await plane.serve({ version: "2", resources: [resource("edge", 3, "UNKNOWN")] });
    const refused = await plane.request(({ error }) => error !== "");
    expect(refused).toMatchObject({
      version: "1",
      error: expect.stringContaining("resource edge: descriptors[0].rate_limit.unit: error: unit: expected one of"),
    });
    expect(await limitOf(app)).toBe(2);
    expect(await stateOf(app)).toMatchObject({ version: "1", last_refusal: { version: "2" } });
    await plane.serve({ version: "3", resources: [resource("edge", 4)] });
    await plane.request(({ version }) => version === "3");
    expect(await limitOf(app)).toBe(4);
    // The bad set stood for a moment only, but a client that answers it at once would have refused it a hundred times.
    expect(plane.requests().filter(({ error }) => error !== "").length).toBeLessThanOrEqual(2);
  });

  test("that are all gone but one domain's are taken as they are, with a warning, whatever files there are", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("a", 1), resource("b", 2), resource("c", 3)] });
    const folder = temporaryFolder("headgate-beside");
    writeFileSync(join(folder, "own.yaml"), "domain: own\ndescriptors: []\n");
    writeFileSync(join(folder, "b.yaml"), "domain: b\nglobal_limit: { requests_per_unit: 100, unit: hour }\n");
    const app = await startApp(plane.port, { RULES_DIR: folder });
    await plane.serve({ version: "2", resources: [resource("b", 4)] });
    await plane.request(({ version }) => version === "2");
    expect([await limitOf(app, "a"), await limitOf(app, "b")]).toEqual([undefined, 4]);
    const warning = app.log.find((line) => line.includes("all domains but one are gone"));
    expect(warning).toContain('"lost":["a","c"]');
  });

  test("may exceed four million bytes, the bound that gRPC has by default", async () => {
    const plane = await startPlane();
    const descriptors = Array.from({ length: 10_000 }, (_, i) => {
      const route = `httproute/default/${"long".repeat(50)}-${i}/rule/0/match/0/www_example_com`;
      const rate_limit = { unit: "HOUR", requests_per_unit: i + 1 };
      return { key: route, value: route, descriptors: [{ key: "user", rate_limit }] };
    });
    await plane.serve({ version: "1", resources: [{ name: "edge", domain: "edge", descriptors }] });
    const app = await startApp(plane.port);
    await plane.request(({ version }) => version === "1");
    const { key } = descriptors[4_321] ?? { key: "" };
    const { statuses } = await app.hit({ [key]: key, user: "a" });
    expect(statuses[0]?.current_limit?.requests_per_unit).toBe(4_322);
  });

  test("can be an empty set, and bytes that are no message are refused", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("edge", 2)] });
    const app = await startApp(plane.port);
    await plane.serve({ version: "2", raw: [Buffer.from([0x0a, 0x05, 0x61]).toString("base64")] });
    expect((await plane.request(({ error }) => error !== "")).error).toContain("the message can't be read");
    expect(await limitOf(app)).toBe(2);
    await plane.serve({ version: "3", resources: [] });
    await plane.request(({ version }) => version === "3");
    expect(await limitOf(app)).toBeUndefined();
  });

  // Promise(xds): Callers don't notice a control plane that is away.
  // Promise(xds): A restarted control plane is heard, whatever its version says.
  test("stay while the control plane is away, and a restarted one with a lower version is heard", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "7", resources: [resource("edge", 2)] });
    const app = await startApp(plane.port);
    await plane.request(({ version }) => version === "7");
    await plane.stop();
    await expect.poll(async () => (await stateOf(app)).state).toBe("not connected");
    expect(await limitOf(app)).toBe(2);
    expect((await app.http("/healthcheck")).status).toBe(200);
    const again = await startPlane({ port: plane.port });
    await again.serve({ version: "1", resources: [resource("edge", 9)] });
    await again.request(({ version }) => version === "1");
    expect(again.requests()[0]).toMatchObject({ version: "", nonce: "" });
    const away = app.log.filter((line) => line.includes("the control plane can't be reached"));
    // For each reason once: the stream that broke off, and then that nobody listens.
    expect(away.length).toBeGreaterThanOrEqual(1);
    expect(away.length).toBeLessThanOrEqual(4);
    expect(await limitOf(app)).toBe(9);
  });

  test("that never come leave the process healthy and its calls failed, so that the caller's own failure mode decides", async () => {
    const plane = await startPlane({ node: "another" });
    const app = await startApp(plane.port);
    expect((await app.http("/healthcheck")).status).toBe(200);
    expect((await stateOf(app)).state).toBe("connected, nothing sent yet");
    await expect(app.hit({ user: "a" })).rejects.toThrow(/no rule/);
  });

  // Promise(xds): A process that starts while the control plane is away has the last good rules.
  test("are kept in RULES_CACHE: a process that starts while the control plane is away has them and says how old they are", async () => {
    const file = join(temporaryFolder("headgate-cache"), "rules");
    const plane = await startPlane();
    await plane.serve({ version: "4", resources: [resource("edge", 2), resource("b", 3)] });
    const first = await startApp(plane.port, { RULES_CACHE: file });
    expect(await limitOf(first)).toBe(2);
    await expect.poll(() => existsSync(file)).toBe(true);
    await plane.stop();
    const second = await startApp(plane.port, { RULES_CACHE: file, FORCE_START_WITHOUT_INITIAL_CONFIG: "false" });
    expect(await limitOf(second)).toBe(2);
    expect(await limitOf(second, "b")).toBe(3);
    expect(await stateOf(second)).toMatchObject({
      from_cache: true,
      version: "4",
      heard_at: expect.stringMatching(/^20/),
    });
    expect((await second.http("/healthcheck")).status).toBe(200);
    expect(await (await second.http("/readyz")).text()).toContain("RULES_CACHE, of 20");
  });

  // Promise(xds): A hanging disk under RULES_CACHE delays no set.
  test("are in force and taken in while the disk of RULES_CACHE hangs, and kept when it goes on", async () => {
    const file = join(temporaryFolder("headgate-cache"), "rules");
    // Who opens a pipe waits for its other end.
    expect(spawnSync("mkfifo", [`${file}.new`]).status).toBe(0);
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("edge", 2)] });
    const app = await startApp(plane.port, { RULES_CACHE: file });
    try {
      await plane.request(({ version }) => version === "1");
      await plane.serve({ version: "2", resources: [resource("edge", 3)] });
      await plane.request(({ version }) => version === "2");
      expect(await limitOf(app)).toBe(3);
      expect(existsSync(file)).toBe(false);
    } finally {
      createReadStream(`${file}.new`).resume();
    }
    await expect.poll(() => existsSync(file)).toBe(true);
    expect(readFileSync(file, "utf8")).toContain('"version":"2"');
  });

  // Promise(xds): The last good set, and the last good files with it, end up in force, whatever the order of events.
  test("with files that change while sets are judged end as the last good ones of each", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "0", resources: [resource("edge", 1)] });
    const folder = temporaryFolder("headgate-beside");
    const app = await startApp(plane.port, { RULES_DIR: folder });
    const TIMES = 20;
    for (let i = 1; i <= TIMES; i++) {
      // Every eighth set and every third file is bad, the last of each is good.
      const isBadSet = i % 8 === 0;
      await plane.serve({ version: String(i), resources: [resource("edge", i, isBadSet ? "UNKNOWN" : "HOUR")] });
      const unit = i % 3 === 0 && i < TIMES ? "fortnight" : "hour";
      writeFileSync(
        join(folder, "edge.yaml"),
        `domain: edge\nglobal_limit: { requests_per_unit: ${1_000 + i}, unit: ${unit} }\n`,
      );
      void app.app.reload();
      await sleep((i * 7) % 20);
    }
    await plane.serve({ version: "last", resources: [resource("edge", 77)] });
    await plane.request(({ version }) => version === "last");
    await app.app.reload();
    const lines = await (await app.http("/rlconfig")).text();
    expect(lines).toContain("edge.user: unit=HOUR requests_per_unit=77,");
    expect(lines).toContain(`edge: unit=HOUR requests_per_unit=${1_000 + TIMES},`);
    expect(await lastError(app)).toBeNull();
  });

  test("of mistakes in files and in the set the later one is shown, each until its own part is fixed", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "0", resources: [resource("edge", 5)] });
    const folder = temporaryFolder("headgate-beside");
    const app = await startApp(plane.port, { RULES_DIR: folder });
    const blamed = async () => {
      const error = await lastError(app);
      if (error === null) return "nothing";
      return error.message.startsWith("the control plane's set") ? "set" : "files";
    };
    const steps = [
      ["files", "bad", "files"],
      ["set", "bad", "set"],
      ["set", "good", "files"],
      ["set", "bad", "set"],
      ["files", "good", "set"],
      ["files", "bad", "files"],
      ["files", "good", "set"],
      ["set", "good", "nothing"],
    ] as const;
    for (const [i, [part, kind, expected]] of steps.entries()) {
      if (part === "set") {
        await plane.serve({
          version: String(i),
          resources: [resource("edge", i, kind === "bad" ? "UNKNOWN" : "HOUR")],
        });
      } else {
        writeFileSync(join(folder, "other.yaml"), kind === "bad" ? "domain: other\nkye: 1\n" : "domain: other\n");
        await app.app.reload();
      }
      await expect.poll(blamed, { message: `step ${i}: ${part} ${kind}` }).toBe(expected);
    }
  });

  test("mistakes in files are forgotten once they are fixed, though the control plane has sent nothing yet", async () => {
    const plane = await startPlane();
    const folder = temporaryFolder("headgate-beside");
    writeFileSync(join(folder, "edge.yaml"), "domain: edge\nkye: 1\n");
    const app = await startApp(plane.port, { RULES_DIR: folder });
    expect(await lastError(app)).not.toBeNull();
    writeFileSync(join(folder, "edge.yaml"), "domain: edge\n");
    await app.app.reload();
    expect(await lastError(app)).toBeNull();
  });

  test("are joined by the files of RULES_DIR; a file's rule that the control plane also has is left out", async () => {
    const plane = await startPlane();
    await plane.serve({ version: "1", resources: [resource("edge", 2)] });
    const folder = temporaryFolder("headgate-beside");
    const file = (text: string) => writeFileSync(join(folder, "beside.yaml"), text);
    file(
      "domain: edge\nglobal_limit: { requests_per_unit: 3, unit: hour }\ndescriptors:\n" +
        "  - { key: user, rate_limit: { requests_per_unit: 99, unit: hour } }\n" +
        "  - { key: tenant, rate_limit: { requests_per_unit: 7, unit: hour } }\n",
    );
    const app = await startApp(plane.port, { RULES_DIR: folder });
    expect(await limitOf(app)).toBe(2);
    expect((await app.hit({ tenant: "t" })).statuses[0]?.current_limit?.requests_per_unit).toBe(7);
    await app.hit({ tenant: "t" });
    expect((await app.hit({ tenant: "t" })).overall_code).toBe("OVER_LIMIT");
    expect(await (await app.http("/config")).text()).toContain("is already defined at resource edge: descriptors[0]");
    // Whatever stands in a file, the control plane's sets are judged without it.
    file("domain: edge\ndescriptors: [{ kye: x }]\n");
    await expect.poll(async () => (await app.http("/config")).text()).toContain("unknown key 'kye'");
    await plane.serve({ version: "2", resources: [resource("edge", 5)] });
    await plane.request(({ version }) => version === "2");
    expect(await (await app.http("/config")).text()).toContain("unknown key 'kye'");
    // The file as it was good last still bites.
    expect((await app.hit({ tenant: "t" })).statuses[0]?.current_limit?.requests_per_unit).toBe(3);
    expect(plane.requests().filter(({ error }) => error !== "")).toEqual([]);
  });

  // Promise(xds): A file rejected only because of a set is used once the set no longer conflicts.
  test("that conflict with a file let it in once they change, without another edit", async () => {
    const plane = await startPlane();
    const rate_limit = { unit: "HOUR", requests_per_unit: 9 };
    const edge = (key: string) => [{ name: "edge", domain: "edge", descriptors: [{ key, rate_limit }] }];
    await plane.serve({ version: "1", resources: edge("tokens") });
    const folder = temporaryFolder("headgate-beside");
    const app = await startApp(plane.port, { RULES_DIR: folder });
    // No other rule of the domain may have the key of the entry that says what a call costs.
    writeFileSync(
      join(folder, "edge.yaml"),
      "domain: edge\ndescriptors: [{ key: model, cost: { entry: tokens }, rate_limit: { unit: hour, requests_per_unit: 7 } }]\n",
    );
    await expect.poll(() => lastError(app), { timeout: 20_000 }).not.toBeNull();
    const rules = async () => (await app.http("/rlconfig")).text();
    expect(await rules()).not.toContain("edge.model");
    await plane.serve({ version: "2", resources: edge("user") });
    await expect.poll(rules, { timeout: 20_000 }).toContain("edge.model");
    expect(await rules()).toContain("edge.user");
    expect(await lastError(app)).toBeNull();
  });
});
