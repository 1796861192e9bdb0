// A control plane, or what stands between it and Headgate, that answers with resources of another type. The peer is a server
// of the test's own, because a real one never does it.

import { Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import { afterEach, expect, test } from "vitest";
import { RATE_LIMIT_TYPE } from "../../src/rule-sources/xds/discovery.ts";
import { resourceBytes } from "../support/resources.ts";
import { startTestApp } from "../support/test-app.ts";
import { bytesField } from "../support/wire.ts";

const bytes = (message: Buffer) => message;
const METHOD = {
  path: "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
  requestStream: true,
  responseStream: true,
  requestSerialize: bytes,
  requestDeserialize: bytes,
  responseSerialize: bytes,
  responseDeserialize: bytes,
} as const;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

function answer(version: string, typeUrl: string, resources: readonly Buffer[] = []): Buffer {
  const anys = resources.map((value) => bytesField(2, Buffer.concat([bytesField(1, typeUrl), bytesField(2, value)])));
  return Buffer.concat([bytesField(1, version), ...anys, bytesField(4, typeUrl), bytesField(5, version)]);
}

test("an empty answer of another type is refused, and takes no rules away", async () => {
  const resource = resourceBytes({
    name: "edge",
    domain: "edge",
    descriptors: [{ key: "user", rate_limit: { unit: "HOUR", requests_per_unit: 1 } }],
  });
  const answers = [
    answer("1", RATE_LIMIT_TYPE, [resource]),
    answer("2", "type.googleapis.com/envoy.config.cluster.v3.Cluster"),
  ];
  const asked: string[] = [];
  const server = new Server();
  server.addService(
    { stream: METHOD },
    {
      stream: (call: ServerDuplexStream<Buffer, Buffer>) => {
        call.on("data", (request: Buffer) => {
          asked.push(request.toString("latin1"));
          const next = answers.shift();
          if (next !== undefined) call.write(next);
        });
        call.on("end", () => call.end());
        call.on("error", () => undefined);
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  ends.push(() => server.forceShutdown());
  const app = await startTestApp("", {
    CONFIG_TYPE: "GRPC_XDS_SOTW",
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${port}`,
  });
  ends.push(() => app.stop());
  await expect.poll(() => asked.length).toBe(3);
  expect(asked[2]).toContain(
    `expected resources of type ${RATE_LIMIT_TYPE}, got type.googleapis.com/envoy.config.cluster.v3.Cluster`,
  );
  const codes = [await app.hit({ user: "a" }), await app.hit({ user: "a" })].map(({ overall_code }) => overall_code);
  expect(codes).toEqual(["OK", "OVER_LIMIT"]);
});
