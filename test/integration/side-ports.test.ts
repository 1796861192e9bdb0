// The debug port and the metrics' second address: what they show, when they are there, and what becomes of a port that is taken.

import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { listen } from "../support/listen.ts";
import { startTestApp } from "../support/test-app.ts";

const RULES = `
domain: edge
descriptors:
  - key: user
    quota_mode: true
    rate_limit: { requests_per_unit: 2, unit: hour, name: per-user }
    descriptors:
      - { key: op, value: "w*", shadow_mode: true, rate_limit: { requests_per_unit: 1, unit: day } }
  - { key: open, rate_limit: { unlimited: true, requests_per_unit: 7 } }
`;

const start = (env: Readonly<Record<string, string>>) => startTestApp(RULES, env);

async function get(port: number | undefined, path: string, method = "GET") {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return { status: response.status, type: response.headers.get("content-type"), body: await response.text() };
}

describe("the debug port", () => {
  // Promise(compatibility): The debug port shows the lines of envoyproxy/ratelimit's; in the normal mode it opens only if asked for.
  test("lists its pages, on unknown paths too, and shows rules by any method and memory, to no page of another site", async () => {
    const { debugPort } = (await start({ DEBUG_PORT: "0" })).app;
    const list = await get(debugPort, "/");
    expect(list.body).toBe(
      "/: this list\n/rlconfig: one line per limit in force\n/stats: how the process fares, as JSON\n",
    );
    expect(await get(debugPort, "/nowhere")).toEqual(list);
    expect((await get(debugPort, "/debug/pprof/")).body).toBe(list.body);
    const page = await get(debugPort, "/rlconfig");
    expect(page).toEqual({
      status: 200,
      type: "text/plain; charset=utf-8",
      // The reference's fields alone.
      body: [
        "edge.user: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: true\n",
        "edge.user.op_w*: unit=DAY requests_per_unit=1, shadow_mode: true, quota_mode: false\n",
        "edge.open: unit=UNKNOWN requests_per_unit=7, shadow_mode: false, quota_mode: false\n",
      ].join(""),
    });
    expect(await get(debugPort, "/rlconfig", "POST")).toEqual(page);
    const headers = { origin: "http://evil.example" };
    expect((await fetch(`http://127.0.0.1:${debugPort}/rlconfig`, { headers })).status).toBe(403);
    // Names of Go's runtime, and no arguments that may hold secrets.
    const { cmdline, memstats } = JSON.parse((await get(debugPort, "/stats")).body);
    expect(cmdline.length).toBeLessThanOrEqual(2);
    expect(memstats.Sys).toBeGreaterThan(memstats.HeapAlloc);
  });
});

test("metrics are served on PROMETHEUS_ADDR too, at PROMETHEUS_PATH, and nothing else is", async () => {
  const { app, hit } = await start({
    PROMETHEUS_ADDR: "127.0.0.1:0",
    PROMETHEUS_PATH: "/numbers",
    USE_PROMETHEUS: "true",
  });
  await hit({ user: "ann" });
  expect((await get(app.metricsPort, "/numbers")).body).toMatch(
    /^ratelimit_service_rate_limit_total_hits\{domain="edge",key1="user".*\} 1$/m,
  );
  expect((await get(app.metricsPort, "/config")).status).toBe(404);
});

test.each([
  { variable: "DEBUG_PORT", textOf: (port: number) => String(port) },
  { variable: "PROMETHEUS_ADDR", textOf: (port: number) => `127.0.0.1:${port}` },
])("a $variable that is taken is logged, and calls are answered all the same", async ({ variable, textOf }) => {
  const app = await start({ [variable]: textOf(await listen(createServer())) });
  expect([app.app.debugPort, app.app.metricsPort]).toEqual([undefined, undefined]);
  expect(app.log.find((line) => line.includes("can't open"))).toContain(variable);
  expect((await app.hit({ user: "ann" })).overall_code).toBe("OK");
});
