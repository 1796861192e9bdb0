// What passes through a relay: one unary call as it travels over HTTP/2, headers, message bytes and trailers untouched.
// Knows no messages and no sockets.

import { type IncomingHttpHeaders, type OutgoingHttpHeaders, sensitiveHeaders } from "node:http2";

/**
 * The headers of a message as they came: Node joins lines of one name into one value, here they stay lines of their own.
 * `joined` is Node's form, `raw` the list of names and values that Node hands to the same listener. Of a header that may
 * stand once only (HTTP names some) Node has kept the first line, and so does this.
 */
export function headerLines(joined: IncomingHttpHeaders, raw: readonly string[]): IncomingHttpHeaders {
  const lines = new Map<string, string[]>();
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [raw[i] as string, raw[i + 1] as string];
    const values = lines.get(name);
    if (values === undefined) lines.set(name, [value]);
    else values.push(value);
  }
  const headers: IncomingHttpHeaders = {};
  for (const [name, values] of lines) {
    const [first] = values;
    headers[name] = values.length === 1 || joined[name] === first ? first : values;
  }
  const sensitive = (joined as { [sensitiveHeaders]?: string[] })[sensitiveHeaders];
  return sensitive === undefined ? headers : Object.assign(headers, { [sensitiveHeaders]: sensitive });
}

/** A caller's whole request. */
export interface RelayedRequest {
  /** As received, pseudo-headers included. */
  readonly headers: IncomingHttpHeaders;
  /** Message with its five bytes of gRPC framing, as received. */
  readonly body: Buffer;
}

/** Why there is no answer of the target. `refused` means that it never saw the call. */
export type FailureReason = "unreachable" | "refused" | "broken" | "too_large" | "too_slow" | "cancelled";

/** What a target made of a call. An `answer` may be a gRPC error: that is an answer too. */
export type UnaryOutcome =
  | {
      readonly kind: "answer";
      readonly headers: IncomingHttpHeaders;
      readonly body: Buffer;
      /** Undefined if the headers were all there was, as errors are often sent. */
      readonly trailers: IncomingHttpHeaders | undefined;
    }
  | { readonly kind: "failure"; readonly reason: FailureReason; readonly message: string };

/** A call that was sent and can be given up. */
export interface SentCall {
  /** Ends the call if it is still under way; its outcome is a failure of this reason then. */
  cancel(reason: FailureReason): void;
}

export interface SendOptions {
  /** Asked before each piece of the answer is kept, with its bytes; false ends the call as `too_large`. */
  readonly admits?: ((bytes: number) => boolean) | undefined;
}

/** Somebody who answers unary calls. */
export interface UnaryTarget {
  /** Sends the request; `done` is called once, later, with what came of it. Never throws. */
  send(request: RelayedRequest, options: SendOptions, done: (outcome: UnaryOutcome) => void): SentCall;
}

/** Bytes of framing before a gRPC message: a compression flag and the length. */
export const FRAME_HEADER_BYTES = 5;

/** The gRPC status of an answer, or undefined if it has none. */
export function grpcCodeOf(outcome: UnaryOutcome): number | undefined {
  if (outcome.kind === "failure") return undefined;
  const fields = outcome.trailers?.["grpc-status"] === undefined ? outcome.headers : outcome.trailers;
  const text = fields["grpc-status"];
  return typeof text === "string" && /^\d{1,3}$/.test(text) ? Number(text) : undefined;
}

/** The request's headers for another host. */
export function headersFor(authority: string, headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return { ...headers, ":authority": authority, ":scheme": "http" };
}
