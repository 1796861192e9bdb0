// The test service of gRPC's interoperability cases, in the form of grpc-js.

import { resolve } from "node:path";
import type {
  ServerDuplexStream,
  ServerReadableStream,
  ServerUnaryCall,
  ServerWritableStream,
  ServiceDefinition,
  sendUnaryData,
  UntypedServiceImplementation,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const PROTO = resolve(import.meta.dirname, "../fixtures/interop/test_service.proto");

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
    const { responseSize, responseStatus } = call.request;
    if (responseStatus !== null) respond({ code: responseStatus.code, details: responseStatus.message });
    else respond(null, payloadOf(responseSize));
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
    call.on("data", (request: StreamingRequest) => answer(call, request));
    call.on("end", () => call.end());
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
