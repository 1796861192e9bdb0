// The test service of gRPC's interoperability cases, all of it on grpc-js: what the fast lane hands over.

import { resolve } from "node:path";
import {
  type Metadata,
  Metadata as NewMetadata,
  type ServerDuplexStream,
  type ServerReadableStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type sendUnaryData,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const PROTO = resolve(import.meta.dirname, "../fixtures/interop/test_service.proto");
const ECHO_INITIAL = "x-grpc-test-echo-initial";
const ECHO_TRAILING = "x-grpc-test-echo-trailing-bin";

interface Status {
  readonly code: number;
  readonly message: string;
}
interface SimpleRequest {
  readonly responseSize: number;
  readonly responseStatus: Status | null;
}
interface StreamingRequest {
  readonly responseParameters: readonly { readonly size: number }[];
  readonly responseStatus: Status | null;
}
interface Input {
  readonly payload: { readonly body: Buffer } | null;
}
interface Answers {
  write(answer: object): boolean;
  emit(event: "error", status: object): boolean;
}

/** How grpc-js registers it. */
export const interopService: ServiceDefinition = loadSync(PROTO, { defaults: true })[
  "grpc.testing.TestService"
] as ServiceDefinition;

export const interopImplementation: UntypedServiceImplementation = {
  EmptyCall: (_call: ServerUnaryCall<object, object>, respond: sendUnaryData<object>) => respond(null, {}),
  UnaryCall(call: ServerUnaryCall<SimpleRequest, object>, respond: sendUnaryData<object>) {
    call.sendMetadata(echoed(call.metadata, ECHO_INITIAL));
    const { responseSize, responseStatus } = call.request;
    if (responseStatus !== null) respond({ code: responseStatus.code, details: responseStatus.message });
    else respond(null, payloadOf(responseSize), echoed(call.metadata, ECHO_TRAILING));
  },
  StreamingOutputCall(call: ServerWritableStream<StreamingRequest, object>) {
    answer(call, call.request);
    call.end();
  },
  StreamingInputCall(call: ServerReadableStream<Input, object>, respond: sendUnaryData<object>) {
    let size = 0;
    call.on("data", ({ payload }: Input) => {
      size += payload?.body.length ?? 0;
    });
    call.on("end", () => respond(null, { aggregatedPayloadSize: size }));
  },
  FullDuplexCall(call: ServerDuplexStream<StreamingRequest, object>) {
    call.sendMetadata(echoed(call.metadata, ECHO_INITIAL));
    call.on("data", (request: StreamingRequest) => answer(call, request));
    call.on("end", () => call.end(echoed(call.metadata, ECHO_TRAILING)));
  },
};

function answer(call: Answers, { responseParameters, responseStatus }: StreamingRequest): void {
  if (responseStatus !== null) {
    call.emit("error", { code: responseStatus.code, details: responseStatus.message });
    return;
  }
  for (const { size } of responseParameters) call.write(payloadOf(size));
}

function payloadOf(size: number): object {
  return { payload: { body: Buffer.alloc(size) } };
}

function echoed(sent: Metadata, name: string): Metadata {
  const metadata = new NewMetadata();
  for (const value of sent.get(name)) metadata.add(name, value);
  return metadata;
}
