// grpcurl, on grpc-go's own descriptors, describes and calls every service of both transports by reflection alone.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { goTool } from "../support/go-tool.ts";
import { startTestApp } from "../support/test-app.ts";

const grpcurl = goTool("github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3");
const RULES =
  "domain: edge\ndescriptors: [{ key: tenant, rate_limit: { name: all, requests_per_unit: 3, unit: year } }]\n";
const REQUEST = { domain: "edge", descriptors: [{ entries: [{ key: "tenant", value: "acme" }] }] };

describe.skipIf(grpcurl === undefined).each(["fast-lane", "grpc-js"])("grpcurl on %s", (transport) => {
  test("lists, describes and calls what is served", async () => {
    const { grpcPort } = await startTestApp(RULES, { GRPC_TRANSPORT: transport, RESPONSE_DYNAMIC_METADATA: "true" });
    const run = async (before: readonly string[], ...after: readonly string[]) => {
      const { stdout } = await promisify(execFile)(grpcurl ?? "", [
        "-plaintext",
        ...before,
        `127.0.0.1:${grpcPort}`,
        ...after,
      ]);
      return stdout;
    };
    const services = (await run([], "list")).trim().split("\n");
    expect(services).toEqual(
      expect.arrayContaining([
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
        "headgate.v1.Budgets",
      ]),
    );
    for (const service of services)
      expect(await run([], "describe", service)).toContain(`service ${service.split(".").at(-1)}`);
    const answer = await run(
      ["-d", JSON.stringify(REQUEST)],
      "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    );
    expect(JSON.parse(answer)).toMatchObject({ overallCode: "OK", dynamicMetadata: { rule: "edge/tenant#all" } });
    expect(JSON.parse(await run([], "grpc.health.v1.Health/Check"))).toEqual({ status: "SERVING" });
  });
});
