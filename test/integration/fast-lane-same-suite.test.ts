// What holds for gRPC by grpc-js holds for the fast lane: the same suites, run again on it.

import { afterAll } from "vitest";
import { getCurrentSuite } from "vitest/suite";

const before = process.env.GRPC_TRANSPORT;
process.env.GRPC_TRANSPORT = "fast-lane";
afterAll(() => {
  if (before === undefined) delete process.env.GRPC_TRANSPORT;
  else process.env.GRPC_TRANSPORT = before;
});

for (const suite of ["grpc-server", "grpc-server-services", "tls"]) {
  const { tasks } = getCurrentSuite();
  const known = tasks.length;
  // As a module of its own: files share a worker's modules, and one that has run there already would add no test.
  await import(/* @vite-ignore */ `./${suite}.test.ts?fast-lane`);
  if (tasks.length === known) throw new Error(`${suite}.test.ts adds no test here`);
}
