// Refuses requests that grpc-js would serve although they are wrong, as the fast lane refuses them.
// docs/architecture.md has what differs.

import { constants, type IncomingHttpHeaders, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { ServerInterceptingCall, type ServerInterceptor, ServerListenerBuilder, status } from "@grpc/grpc-js";
import { GrpcStatus, type TransportObserver, whyUnknown } from "../unary.ts";
import { detailsOf } from "./grpc-js-calls.ts";

const GRPC_CONTENT = /^application\/grpc(?:$|[+;])/;
const TIMEOUT = /^\d{1,8}[HMSmun]$/;
// Calls get the words of the fast lane; test/integration/odd-requests.test.ts compares them.
const INVALID_TIMEOUT = "Invalid grpc-timeout; expected at most 8 digits and one of H, M, S, m, u, n";
const TAKEN_ENCODING = "identity";
const COMPRESSED = `compressed messages are not accepted; expected grpc-encoding: ${TAKEN_ENCODING}`;

/** What is served, and who hears of calls that are not. */
export interface ServedMethods {
  readonly paths: ReadonlySet<string>;
  readonly observer: TransportObserver;
}

/**
 * Answers a request whose headers are wrong, or whose client is not served for the reason in `refusal`; returns whether
 * it did.
 */
export function refuseHeaders(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  { paths, observer }: ServedMethods,
  refusal?: string,
): boolean {
  const path = headers[":path"] ?? "";
  const { ":method": method, "content-type": content, "grpc-timeout": timeout, "grpc-encoding": encoding } = headers;
  const isGrpc = method === "POST" && content !== undefined && GRPC_CONTENT.test(content);
  if (!isGrpc) stream.respond({ ":status": constants.HTTP_STATUS_UNSUPPORTED_MEDIA_TYPE }, { endStream: true });
  else if (refusal !== undefined) fail(stream, failureHeaders(GrpcStatus.unauthenticated, refusal));
  else if (timeout !== undefined && !TIMEOUT.test(String(timeout))) {
    fail(stream, failureHeaders(GrpcStatus.internal, INVALID_TIMEOUT));
  } else if (!paths.has(path)) {
    observer.unserved(whyUnknown(path), path);
    fail(stream, failureHeaders(GrpcStatus.unimplemented, `The server does not implement the method ${path}`));
  } else if (encoding !== undefined && encoding !== TAKEN_ENCODING) {
    observer.unserved("compressed", path);
    const headersOf = failureHeaders(GrpcStatus.unimplemented, COMPRESSED);
    fail(stream, { ...headersOf, "grpc-accept-encoding": TAKEN_ENCODING });
  } else return false;
  return true;
}

function failureHeaders(status: GrpcStatus, message: string): OutgoingHttpHeaders {
  const fields = { "grpc-status": String(status), "grpc-message": encodeURI(detailsOf(message)) };
  return { ":status": 200, "content-type": "application/grpc", ...fields };
}

function fail(stream: ServerHttp2Stream, headers: OutgoingHttpHeaders): void {
  stream.respond(headers, { endStream: true });
}

// Private parts of grpc-js's call, which shows them nowhere else. If a later version renames them,
// test/integration/odd-requests.test.ts fails.
interface CallParts {
  /** `readState` is 0 between messages, and `readCompressFlag` has the first byte of the last one. */
  readonly decoder: { readonly readState: number; readonly readCompressFlag: Buffer };
}

/** Refuses bodies that are no whole message. */
export const refuseBodies: ServerInterceptor = (_method, call) => {
  const { decoder } = call as unknown as CallParts;
  let hasMessage = false;
  const listener = new ServerListenerBuilder()
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
  return new ServerInterceptingCall(call, { start: (next) => next(listener) });
};
