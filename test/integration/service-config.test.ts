// The service config of docs/clients.md, in grpc-js: calls without a deadline of their own get the one that it says.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Client, credentials, Server, ServerCredentials, status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { closedWithTest } from "../support/ends.ts";

const DOCS = readFileSync(resolve(import.meta.dirname, "../../docs/clients.md"), "utf8");
const CONFIG = /## The service config for other languages\n\n```json\n(.*?)```/s.exec(DOCS)?.[1] ?? "";
const PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const asItIs = (bytes: Buffer) => bytes;

/** Answers each call after as many milliseconds as it has bytes. */
let port: number;
beforeAll(async () => {
  const server = new Server();
  const way = { requestStream: false, responseStream: false, requestSerialize: asItIs, requestDeserialize: asItIs };
  const definition = { ask: { ...way, path: PATH, responseSerialize: asItIs, responseDeserialize: asItIs } };
  server.addService(definition, {
    ask: (call: { request: Buffer }, answer: (error: null, bytes: Buffer) => void) =>
      setTimeout(() => answer(null, Buffer.alloc(0)), call.request.length),
  });
  port = await new Promise((done, failed) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? done(bound) : failed(error),
    );
  });
  return () => server.forceShutdown();
});

test("a call is given the tenth of a second that the config says", async () => {
  const client = closedWithTest(
    new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { "grpc.service_config": CONFIG }),
  );
  await new Promise((done) => client.waitForReady(Date.now() + 20_000, done));
  const ask = (delayMs: number) => {
    const startMs = performance.now();
    return new Promise<{ code: number; afterMs: number }>((done) => {
      client.makeUnaryRequest(PATH, asItIs, asItIs, Buffer.alloc(delayMs), (error) =>
        done({ code: error === null ? status.OK : error.code, afterMs: performance.now() - startMs }),
      );
    });
  };
  const late = await ask(60_000);
  expect(late.code).toBe(status.DEADLINE_EXCEEDED);
  expect(late.afterMs).toBeGreaterThan(95);
  expect(late.afterMs).toBeLessThan(1_000);
});
