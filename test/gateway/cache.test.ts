// The rules that a real gateway has sent, kept in RULES_CACHE: the gateway goes, the service is started again, and still limits.

import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { startTestApp, type TestApp } from "../support/test-app.ts";
import { Bed } from "./support/bed.ts";
import { hasGateway } from "./support/require-gateway.ts";
import { gateway, limits, route } from "./support/resources.ts";

const DOMAIN = "envoy-gateway-system/eg/http-0";
const ROUTE = "httproute/envoy-gateway-system/kept/rule/0/match/0/kept_test";
const RULE = {
  clientSelectors: [{ headers: [{ name: "x-user-id", type: "Distinct" }] }],
  limit: { requests: 2, unit: "Hour" },
};

describe.runIf(hasGateway)("rules of a gateway that is gone", () => {
  const folder = temporaryFolder("gateway-cache");
  let bed: Bed;
  beforeAll(async () => {
    bed = await Bed.start(1, (ports) => ({ gateway: gateway(ports), routes: [route("kept"), limits("kept", [RULE])] }));
    // The test bed takes its own along.
    cpSync(bed.certificates, join(folder, "certs"), { recursive: true });
  });

  async function start(): Promise<TestApp> {
    return await startTestApp(
      {},
      {
        CONFIG_TYPE: "GRPC_XDS_SOTW",
        CONFIG_GRPC_XDS_SERVER_URL: "localhost:18001",
        CONFIG_GRPC_XDS_NODE_ID: "envoy-ratelimit",
        CONFIG_GRPC_XDS_SERVER_USE_TLS: "true",
        CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(folder, "certs/tls.crt"),
        CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(folder, "certs/tls.key"),
        CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(folder, "certs/ca.crt"),
        CONFIG_GRPC_XDS_SERVER_TLS_SAN: "envoy-gateway",
        FORCE_START_WITHOUT_INITIAL_CONFIG: "true",
        RULES_CACHE: join(folder, "rules"),
        DEBUG_PORT: "0",
      },
    );
  }

  /** Codes of as many calls as Envoy would make for requests of that user. */
  async function codes(app: TestApp, user: string, times: number): Promise<string[]> {
    const entries = [
      { key: ROUTE, value: ROUTE },
      { key: "rule-0-match-0", value: user },
    ];
    const found: string[] = [];
    for (let i = 0; i < times; i++) {
      found.push((await app.ask({ domain: DOMAIN, descriptors: [{ entries }] })).overall_code);
    }
    return found;
  }

  const planeOf = async (app: TestApp) => {
    const { rules } = (await (await app.http("/config")).json()) as { rules: { control_plane: object } };
    return rules.control_plane;
  };

  // Promise(gateway): The gateway's rules limit on when it is gone, also in a process that starts then (RULES_CACHE).
  test("limit on, in the process that has them and in one that starts without the gateway", async () => {
    const first = await start();
    expect(await codes(first, "ann", 3)).toEqual(["OK", "OK", "OVER_LIMIT"]);
    expect(await (await first.http("/rlconfig")).text()).toContain(
      "name: route envoy-gateway-system/kept kept.test, rule 0, each value of match 0",
    );
    await expect.poll(() => existsSync(join(folder, "rules"))).toBe(true);
    await bed.stop();
    await expect.poll(() => planeOf(first)).toMatchObject({ state: "not connected" });
    expect(await codes(first, "bob", 3)).toEqual(["OK", "OK", "OVER_LIMIT"]);
    await first.stop();
    const second = await start();
    expect(await codes(second, "cat", 3)).toEqual(["OK", "OK", "OVER_LIMIT"]);
    expect(await planeOf(second)).toMatchObject({ state: "not connected", from_cache: true });
    expect((await second.http("/healthcheck")).status).toBe(200);
  });
});
