// What stands behind Envoy: an HTTP server that answers as it is told by the request, and a gRPC server that echoes.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { endWithTest } from "../../support/ends.ts";

export interface Upstream {
  readonly port: number;
  /** Paths that got through, in order. */
  readonly seen: readonly string[];
  stop(): Promise<void>;
}

/** Answers 200 `hello`; a request header `x-answer-NAME` comes back as the response header `x-NAME`. */
export async function startUpstream(): Promise<Upstream> {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.url ?? "");
    for (const [name, value] of Object.entries(request.headers)) {
      if (name.startsWith("x-answer-")) response.setHeader(`x-${name.slice("x-answer-".length)}`, String(value));
    }
    response.end("hello\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = endWithTest(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return { port: (server.address() as AddressInfo).port, seen, stop };
}

/** The path of the one method of the gRPC upstream; it answers with the bytes it got. */
export const ECHO_PATH = "/test.Echo/Say";

export async function startGrpcUpstream(): Promise<Pick<Upstream, "port">> {
  const same = (bytes: Buffer): Buffer => bytes;
  const method = {
    path: ECHO_PATH,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const server = new Server();
  server.addService(
    { say: method },
    { say: (call: { request: Buffer }, answer: (error: null, bytes: Buffer) => void) => answer(null, call.request) },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  endWithTest(() => server.forceShutdown());
  return { port };
}
