// What holds for gRPC by grpc-js holds for the fast lane: the same suites, run again on it.

import { afterAll } from "vitest";

const before = process.env.GRPC_TRANSPORT;
process.env.GRPC_TRANSPORT = "fast-lane";
afterAll(() => {
  if (before === undefined) delete process.env.GRPC_TRANSPORT;
  else process.env.GRPC_TRANSPORT = before;
});

await import("./grpc-server.test.ts");
await import("./grpc-server-services.test.ts");
await import("./tls.test.ts");
