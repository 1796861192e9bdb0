// Refuses requests that grpc-js would serve although they are wrong, as the fast lane refuses them. docs/architecture.md has what differs.

import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Metadata, ServerInterceptingCall, type ServerInterceptor, ServerListenerBuilder, status } from "@grpc/grpc-js";
import { GrpcStatus } from "../unary.ts";
import { COMPRESSED, INVALID_TIMEOUT, isGrpcContent, readTimeoutUs, TAKEN_ENCODING } from "./grpc-headers.ts";

/** Answers a request whose headers are wrong; returns whether they are. */
export function refuseHeaders(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): boolean {
  const { ":method": method, "content-type": content, "grpc-timeout": timeout } = headers;
  if (method !== "POST" || content === undefined || !isGrpcContent(content)) {
    stream.respond({ ":status": constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE }, { endStream: true });
    return true;
  }
  if (timeout === undefined || !Number.isNaN(readTimeoutUs(String(timeout)))) return false;
  const answer = { "content-type": "application/grpc", "grpc-status": GrpcStatus.internal };
  stream.respond({ ":status": 200, ...answer, "grpc-message": INVALID_TIMEOUT }, { endStream: true });
  return true;
}

// Private parts of grpc-js's call, which shows them nowhere else. If a later version renames them, test/integration/odd-requests.test.ts
// fails.
interface CallParts {
  readonly incomingEncoding: string;
  /** `readState` is 0 between messages, and `readCompressFlag` has the first byte of the last one. */
  readonly decoder: { readonly readState: number; readonly readCompressFlag: Buffer };
}

/** Refuses compressed calls before a byte is decompressed, and bodies that are no whole message. */
export const refuseBodies: ServerInterceptor = (_method, call) => {
  const { incomingEncoding, decoder } = call as unknown as CallParts;
  if (incomingEncoding === TAKEN_ENCODING)
    return new ServerInterceptingCall(call, { start: (next) => next(bodyCheck()) });
  const metadata = new Metadata();
  metadata.set("grpc-accept-encoding", TAKEN_ENCODING);
  return new ServerInterceptingCall(call, {
    start: (next) => {
      next(new ServerListenerBuilder().build());
      call.sendStatus({ code: status.UNIMPLEMENTED, details: COMPRESSED, metadata });
    },
  });

  function bodyCheck() {
    let hasMessage = false;
    return new ServerListenerBuilder()
      .withOnReceiveMessage((message, next) => {
        hasMessage = true;
        next(message);
      })
      .withOnReceiveHalfClose((next) => {
        if (decoder.readState === 0) {
          if (decoder.readCompressFlag[0] === 0) next();
          else call.sendStatus({ code: status.INTERNAL, details: "a message that does not begin with 0" });
        } else if (hasMessage) call.sendStatus({ code: status.UNIMPLEMENTED, details: "bytes after the message" });
        else call.sendStatus({ code: status.INTERNAL, details: "the message ends early" });
      })
      .build();
  }
};
