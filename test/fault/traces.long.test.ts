// Collectors that are away, busy, silent or slow on purpose, in front of real processes: calls are answered, memory is bounded, the
// end comes. And processes that are told to end, and no OpenTelemetry installed.

import { cpSync, mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { OtlpReceiver } from "../support/otlp-receiver.ts";
import { freePort } from "../support/redis-server.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { type AskedRequest, askOnce, openClient } from "../support/test-app.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const RULES = `domain: edge
descriptors:
  - { key: user, rate_limit: { requests_per_unit: 1000000, unit: hour } }
`;
const REQUEST: AskedRequest = { domain: "edge", descriptors: [{ entries: [{ key: "user", value: "ann" }] }] };
/** As long as no test waits: who waits for a collector without a bound of its own shows. */
const FOR_EVER = { OTEL_EXPORTER_OTLP_TIMEOUT: "3600000" };

const start = (env: Readonly<Record<string, string>>, how: { readonly command?: readonly string[] } = {}) =>
  startService(env, { rules: RULES, ...how });

/** Asks `count` times over a connection of its own, some at once; all must be answered with OK. */
async function hit({ grpcPort }: ServiceProcess, count: number): Promise<void> {
  const client = openClient(`127.0.0.1:${grpcPort}`, { "grpc.use_local_subchannel_pool": 1 });
  for (let left = count; left > 0; left -= 100) {
    const asked = Array.from({ length: Math.min(100, left) }, () => askOnce(client, REQUEST, 60_000));
    for (const { overall_code } of await Promise.all(asked)) expect(overall_code).toBe("OK");
  }
}

/** What became of spans, by the metrics page. */
async function spanCounts({ httpPort }: ServiceProcess): Promise<Record<string, number>> {
  const page = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  const lines = page.matchAll(/^headgate_spans_total\{result="(\w+)"(?:,[^}]*)?\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]));
}

// What drips is a body; the answer of a gRPC server comes whole or not at all.
const MANNERS = { http: ["busy", "silent", "dripping", "away"], grpc: ["busy", "silent", "away"] } as const;

describe.concurrent.each(["http", "grpc"] as const)("over %s", (protocol) => {
  // Promise(traces): A collector that is away, silent or slow loses spans, but no answers, no memory and no time at the end.
  test.each(MANNERS[protocol])(
    "a collector that is %s loses spans and no answer, fills no memory, and does not hold up the end",
    async (manner) => {
      const receiver = await OtlpReceiver.start(manner === "away" ? "good" : manner);
      if (manner === "away") await receiver.stop();
      const service = await start({ ...receiver.env(protocol), ...FOR_EVER });
      await hit(service, 3_000);
      const { sent = 0, failed = 0, dropped = 0 } = await spanCounts(service);
      expect(sent).toBe(0);
      // All but those that wait and those of the one batch that is under way.
      expect(failed + dropped).toBeGreaterThanOrEqual(3_000 - 2_048 - 64);
      expect(await service.stop()).toBe(0);
    },
  );

  // Beside others a test polls by an `expect` of its own.
  test("a collector that hung is sent spans again once it answers", async ({ expect }) => {
    const receiver = await OtlpReceiver.start(protocol === "http" ? "dripping" : "silent");
    const soon = { OTEL_EXPORTER_OTLP_TIMEOUT: protocol === "http" ? "3600000" : "1000" };
    const service = await start({ ...receiver.env(protocol), ...soon });
    // One batch after the other hangs: if their connections stayed, none would be left in the end.
    for (const failed of [10, 20, 30]) {
      await hit(service, 10);
      await expect.poll(async () => (await spanCounts(service)).failed, { timeout: 60_000 }).toBe(failed);
    }
    receiver.manner = "good";
    // On a busy machine an answer that is well may take longer than the bound, too.
    const sent = async () => {
      await hit(service, 1);
      return (await spanCounts(service)).sent;
    };
    await expect.poll(sent, { timeout: 60_000, interval: 200 }).toBeGreaterThan(0);
    expect(receiver.spans.length).toBeGreaterThan(0);
    expect(await service.stop()).toBe(0);
    expect(service.log.join("\n")).toContain("spans did not reach the collector");
  });

  // Promise(traces): SIGTERM sends the spans that wait.
  test("SIGTERM sends what still waits", async () => {
    const receiver = await OtlpReceiver.start();
    const service = await start(receiver.env(protocol));
    // More than one batch holds.
    await hit(service, 1_100);
    expect(await service.stop()).toBe(0);
    expect(receiver.spans).toHaveLength(1_100);
  });
});

describe("without OpenTelemetry's packages", () => {
  let elsewhere: { readonly command: readonly string[] };
  beforeAll(() => {
    // The program elsewhere, where it finds all other packages.
    const folder = temporaryFolder("headgate-without-otel");
    for (const name of ["dist", "lua", "packages", "page", "proto", "sql", "package.json"]) {
      cpSync(join(ROOT, name), join(folder, name), { recursive: true });
    }
    mkdirSync(join(folder, "node_modules"));
    for (const name of readdirSync(join(ROOT, "node_modules"))) {
      if (name !== "@opentelemetry") symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    }
    elsewhere = { command: [process.execPath, join(folder, "dist/main.js"), "serve"] };
  });

  // Promise(traces): Without traces no optional package of OpenTelemetry is loaded.
  test("the service works: nothing of them is loaded", async () => {
    const service = await start({}, elsewhere);
    await hit(service, 10);
    expect(await spanCounts(service)).toEqual({});
    expect(await service.stop()).toBe(0);
  });

  test.each([
    { protocol: "http", exporter: "@opentelemetry/exporter-trace-otlp-proto@" },
    { protocol: "grpc", exporter: "@opentelemetry/exporter-trace-otlp-grpc@" },
  ])(
    "asking for traces over $protocol ends the start, with the command that installs them",
    async ({ protocol, exporter }) => {
      const port = await freePort();
      const env = {
        TRACING_ENABLED: "true",
        TRACING_EXPORTER_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      };
      const why = await start(env, elsewhere).then(
        () => "it started",
        (error: Error) => error.message,
      );
      expect(why).toContain("ended with 1");
      expect(why).toContain("CONFIG_SETTINGS: traces are on");
      expect(why).toMatch(new RegExp(`npm install @opentelemetry/api@\\S+ .*${exporter}`));
      expect(why.split("exporter-trace-otlp")).toHaveLength(2);
    },
  );
});
