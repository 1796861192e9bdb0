// A collector for tests: takes spans by OTLP, over HTTP (protobuf) and gRPC, on free ports, and answers as it is told.

import { once } from "node:events";
import { createServer, type Server as HttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import {
  loadPackageDefinition,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { loadSync, type MethodDefinition } from "@grpc/proto-loader";
import { endWithTest } from "./ends.ts";

/** A span as the collector got it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** "" for the first of its trace. */
  readonly parentId: string;
  readonly name: string;
  /** 2 is SERVER. */
  readonly kind: number;
  readonly startUs: number;
  readonly endUs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** 2 is an error. */
  readonly status: { readonly code: number; readonly message: string };
  readonly resource: Readonly<Record<string, unknown>>;
  /** Headers of the request that brought it. */
  readonly headers: Readonly<Record<string, unknown>>;
}

/** What becomes of requests: taken, refused for now, left without an answer, or given one byte of it a second. */
export type Manner = "good" | "busy" | "silent" | "dripping";

/** PEM. */
interface ReceiverTls {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

interface WireValue {
  readonly value: string;
  readonly [kind: string]: unknown;
}
interface WirePair {
  readonly key: string;
  readonly value: WireValue;
}
interface WireSpan {
  readonly trace_id: Buffer;
  readonly span_id: Buffer;
  readonly parent_span_id: Buffer;
  readonly name: string;
  readonly kind: number;
  readonly start_time_unix_nano: string;
  readonly end_time_unix_nano: string;
  readonly attributes: readonly WirePair[];
  readonly status: { readonly code: number; readonly message: string } | null;
}
interface WireRequest {
  readonly resource_spans: readonly {
    readonly resource: { readonly attributes: readonly WirePair[] };
    readonly scope_spans: readonly { readonly spans: readonly WireSpan[] }[];
  }[];
}

const SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService";
const definition = loadSync(join(import.meta.dirname, "otlp/trace_service.proto"), {
  keepCase: true,
  longs: String,
  defaults: true,
  oneofs: true,
});
const { Export } = definition[SERVICE] as unknown as { Export: MethodDefinition<WireRequest, object> };

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** Requests so far, whatever became of them. */
  requests = 0;
  manner: Manner = "good";
  readonly httpUrl: string;
  readonly grpcUrl: string;
  readonly #http: HttpServer;
  readonly #grpc: Server;
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();

  private constructor(http: HttpServer, grpc: Server, grpcPort: number, scheme: string) {
    this.#http = http;
    this.#grpc = grpc;
    this.httpUrl = `${scheme}://127.0.0.1:${(http.address() as AddressInfo).port}`;
    this.grpcUrl = `${scheme}://127.0.0.1:${grpcPort}`;
    http.on("request", (request, response) => void this.#serve(request, response));
    http.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
  }

  /** With `tls` it speaks TLS, and to callers who show a certificate of its authority alone. */
  static async start(manner: Manner = "good", tls?: ReceiverTls): Promise<OtlpReceiver> {
    const http = tls === undefined ? createServer() : createTlsServer({ ...tls, requestCert: true });
    http.listen(0, "127.0.0.1");
    await once(http, "listening");
    const grpc = new Server();
    let receiver: OtlpReceiver | undefined;
    const { service } = loadPackageDefinition({ TraceService: definition[SERVICE] as ServiceDefinition })
      .TraceService as unknown as { service: ServiceDefinition };
    grpc.addService(service, {
      Export: (call: { request: WireRequest; metadata: { getMap(): object } }, answer: sendUnaryData<object>) =>
        receiver?.serveGrpc(call.request, { ...call.metadata.getMap() }, answer),
    });
    const port = await new Promise<number>((resolve, reject) => {
      grpc.bindAsync("127.0.0.1:0", credentialsOf(tls), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
    receiver = new OtlpReceiver(http, grpc, port, tls === undefined ? "http" : "https");
    receiver.manner = manner;
    const started = receiver;
    endWithTest(() => started.stop());
    return started;
  }

  /** Settings that send spans here. */
  env(protocol: "http" | "grpc"): Readonly<Record<string, string>> {
    return {
      TRACING_ENABLED: "true",
      TRACING_EXPORTER_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? this.grpcUrl : this.httpUrl,
    };
  }

  /** Ends everything, answers that are waited for too. */
  async stop(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    for (const socket of this.#sockets) socket.destroy();
    this.#grpc.forceShutdown();
    if (!this.#http.listening) return;
    this.#http.close();
    await once(this.#http, "close");
  }

  serveGrpc(request: WireRequest, headers: Readonly<Record<string, unknown>>, answer: sendUnaryData<object>): void {
    this.requests++;
    if (this.manner === "good") {
      this.#take(request, headers);
      answer(null, {});
    } else if (this.manner === "busy") answer({ code: status.UNAVAILABLE, details: "busy" });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests++;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.url !== "/v1/traces") response.writeHead(404).end();
    else if (this.manner === "busy") response.writeHead(503, { "retry-after": "600" }).end("busy");
    else if (this.manner === "dripping") {
      response.writeHead(200, { "content-type": "application/x-protobuf" });
      const timer = setInterval(() => response.write("."), 1_000);
      this.#timers.add(timer);
    } else if (this.manner === "good") {
      this.#take(Export.requestDeserialize(Buffer.concat(chunks)), request.headers);
      response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
    }
  }

  #take({ resource_spans }: WireRequest, headers: Readonly<Record<string, unknown>>): void {
    for (const { resource, scope_spans } of resource_spans) {
      for (const { spans } of scope_spans) {
        for (const span of spans) this.spans.push(received(span, valuesOf(resource.attributes), headers));
      }
    }
  }
}

function credentialsOf(tls: ReceiverTls | undefined): ServerCredentials {
  if (tls === undefined) return ServerCredentials.createInsecure();
  return ServerCredentials.createSsl(tls.ca, [{ cert_chain: tls.cert, private_key: tls.key }], true);
}

function received(span: WireSpan, resource: ReceivedSpan["resource"], headers: ReceivedSpan["headers"]): ReceivedSpan {
  return {
    traceId: span.trace_id.toString("hex"),
    spanId: span.span_id.toString("hex"),
    parentId: span.parent_span_id.toString("hex"),
    name: span.name,
    kind: span.kind,
    startUs: Number(BigInt(span.start_time_unix_nano) / 1_000n),
    endUs: Number(BigInt(span.end_time_unix_nano) / 1_000n),
    attributes: valuesOf(span.attributes),
    status: span.status ?? { code: 0, message: "" },
    resource,
    headers,
  };
}

function valuesOf(pairs: readonly WirePair[]): Readonly<Record<string, unknown>> {
  const read = ({ value: kind, ...all }: WireValue) => (kind === "int_value" ? Number(all[kind]) : all[kind]);
  return Object.fromEntries(pairs.map(({ key, value }) => [key, read(value)]));
}
