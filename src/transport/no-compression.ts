// Calls that say they are compressed are turned away by grpc-js, before a byte is unpacked: it unpacks each message by itself,
// as large as a message may be, and has no bound on all of them together. The fast lane unpacks those of its own methods
// (fast-lane/unpacking.ts); a call that asks for a decision is a hundred bytes, and gains nothing.

import { Metadata, ServerInterceptingCall, type ServerInterceptor, ServerListenerBuilder, status } from "@grpc/grpc-js";

/** Answers UNIMPLEMENTED, and says what is accepted, as the gRPC specification has it for an encoding that is not known. */
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

// grpc-js takes the field out of the metadata that it shows, and tells it nowhere else. If a later version calls it
// otherwise, every call is refused: test/integration/compression.test.ts notices.
function encodingOf(call: object): unknown {
  return "incomingEncoding" in call ? call.incomingEncoding : undefined;
}
