// Refuses compressed calls that grpc-js would answer, before a byte is decompressed: grpc-js bounds each decompressed message, but not
// all of them together. The fast lane decompresses messages of its own methods (fast-lane/unpacking.ts). A call for a decision has some
// hundred bytes and gains nothing from compression.

import { Metadata, ServerInterceptingCall, type ServerInterceptor, ServerListenerBuilder, status } from "@grpc/grpc-js";

/** Answers UNIMPLEMENTED with the accepted encodings, as the gRPC specification asks for an unknown encoding. */
export const refuseCompressed: ServerInterceptor = (_method, call) => {
  if (encodingOf(call) === "identity") return new ServerInterceptingCall(call);
  const metadata = new Metadata();
  metadata.set("grpc-accept-encoding", "identity");
  const details = "compressed messages are not taken here; expected grpc-encoding: identity";
  return new ServerInterceptingCall(call, {
    start: (next) => {
      next(new ServerListenerBuilder().build());
      call.sendStatus({ code: status.UNIMPLEMENTED, details, metadata });
    },
  });
};

// grpc-js removes the field from the metadata that it shows, and tells it nowhere else. If a later version renames this property, every
// call is refused, and test/integration/compression.test.ts fails.
function encodingOf(call: object): unknown {
  return "incomingEncoding" in call ? call.incomingEncoding : undefined;
}
