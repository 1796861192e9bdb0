// A control plane that sends any bytes as answers, as fast as it is told, whatever the client says. xds-server.ts is a real one.

import { resolve } from "node:path";
import { Server, ServerCredentials, type ServerDuplexStream } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { endWithTest } from "./ends.ts";

/** What the client said, as proto-loader reads it. */
export interface RawRequest {
  readonly version_info: string;
  readonly response_nonce: string;
  readonly error_detail: { readonly message: string } | null;
}

export interface RawPlane {
  readonly port: number;
  readonly requests: readonly RawRequest[];
  /** Sends a DiscoveryResponse on the last stream, by gzip. */
  send(bytes: Buffer): void;
}

const PROTO_ROOT = resolve(import.meta.dirname, "../../proto");

/** Starts it; `first` is its answer to the first request of each stream. */
export async function startRawPlane(first: Buffer): Promise<RawPlane> {
  const loaded = loadSync(["envoy/service/discovery/v3/ads.proto"], { includeDirs: [PROTO_ROOT], keepCase: true });
  const service = loaded["envoy.service.discovery.v3.AggregatedDiscoveryService"] as unknown as Readonly<
    Record<string, { readonly path: string; readonly requestDeserialize: (bytes: Buffer) => RawRequest }>
  >;
  const method = service.StreamAggregatedResources;
  if (method === undefined) throw new Error("no StreamAggregatedResources");
  const requests: RawRequest[] = [];
  let stream: ServerDuplexStream<RawRequest, Buffer> | undefined;
  const server = new Server({ "grpc.default_compression_algorithm": 2, "grpc.max_send_message_length": -1 });
  server.register(
    method.path,
    (call: ServerDuplexStream<RawRequest, Buffer>) => {
      stream = call;
      call.write(first);
      call.on("data", (request: RawRequest) => requests.push(request));
      call.on("error", () => undefined);
    },
    (bytes: Buffer) => bytes,
    method.requestDeserialize,
    "bidi",
  );
  const port = await new Promise<number>((done, failed) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? done(bound) : failed(error),
    );
  });
  endWithTest(() => server.forceShutdown());
  return { port, requests, send: (bytes) => stream?.write(bytes) };
}
