// A control plane that is away for a whole minute of real time: callers see nothing of it, it is tried again and again without
// haste, the log is told once, and what it says when it is back counts within the longest pause.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { startTestApp } from "../support/test-app.ts";
import { startXdsServer, xdsServerProgram } from "../support/xds-server.ts";

const program = xdsServerProgram();
const AWAY_MS = 60_000;
const MAX_PAUSE_S = 5;

const hourly = (requests_per_unit: number) => [
  { name: "edge", domain: "edge", descriptors: [{ key: "user", rate_limit: { unit: "HOUR", requests_per_unit } }] },
];

// Promise(xds): Callers don't notice a control plane that is away for a minute.
test.runIf(program !== undefined)("callers see nothing of a control plane that is away for a minute", async () => {
  const plane = await startXdsServer(program ?? "");
  await plane.serve({ version: "41", resources: hourly(1_000_000) });
  const app = await startTestApp(
    {},
    {
      CONFIG_TYPE: "GRPC_XDS_SOTW",
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${plane.port}`,
      CONFIG_GRPC_XDS_NODE_ID: "headgate-test",
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: "500ms",
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: `${MAX_PAUSE_S}s`,
      DEBUG_PORT: "0",
    },
  );
  const planeState = async () => {
    const { rules } = (await (await app.http("/config")).json()) as {
      rules: { control_plane: { state: string; version: string; streams: number } };
    };
    return rules.control_plane;
  };
  const back: { stop(): Promise<void> }[] = [];
  try {
    await plane.request(({ version }) => version === "41");
    await plane.stop();
    const startMs = performance.now();
    let calls = 0;
    while (performance.now() - startMs < AWAY_MS) {
      const { statuses } = await app.hit({ user: "a" });
      calls++;
      expect(statuses[0]).toMatchObject({ current_limit: { requests_per_unit: 1_000_000 } });
      // Counted on; at the end of an hour some are counted less.
      expect(statuses[0]?.limit_remaining).toBeGreaterThanOrEqual(1_000_000 - calls);
      if (calls % 20 === 0) expect((await app.http("/healthcheck")).status).toBe(200);
      await sleep(100);
    }
    const { state, version, streams } = await planeState();
    expect([state, version]).toEqual(["not connected", "41"]);
    // Pauses reach their bound, and are half of it in the mean; so many are certain whatever the dice say.
    expect(streams).toBeGreaterThan(AWAY_MS / 1_000 / MAX_PAUSE_S);
    expect(streams).toBeLessThan(200);
    const told = app.log.filter((line) => line.includes("the control plane is away"));
    expect(told.length).toBeGreaterThanOrEqual(1);
    expect(told.length).toBeLessThanOrEqual(4);
    const again = await startXdsServer(program ?? "", { port: plane.port });
    back.push(again);
    await again.serve({ version: "1", resources: hourly(5) });
    await again.request((request) => request.version === "1");
    expect(again.requests()[0]).toMatchObject({ version: "", nonce: "" });
    expect((await app.hit({ user: "b" })).statuses[0]?.current_limit?.requests_per_unit).toBe(5);
    expect(await planeState()).toMatchObject({ state: "connected", version: "1" });
  } finally {
    await app.stop();
    for (const each of back) await each.stop();
  }
});
