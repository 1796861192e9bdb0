// What passes through a relay: a unary call over HTTP/2, with headers, message bytes and trailers unchanged. Without messages and
// sockets.

import { type IncomingHttpHeaders, sensitiveHeaders } from "node:http2";
import { getOrInsert } from "../../../engine/base/get-or-insert.ts";

/**
 * The headers of a message with repeated lines kept apart, which Node joins into one value. `joined` is Node's form, `raw` the list of
 * names and values that Node gives to the same listener. Of headers that HTTP allows only once Node keeps the first line, and so does
 * this.
 */
export function headerLines(joined: IncomingHttpHeaders, raw: readonly string[]): IncomingHttpHeaders {
  const lines = new Map<string, string[]>();
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const [name, value] = [raw[i] as string, raw[i + 1] as string];
    getOrInsert(lines, name, () => []).push(value);
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
  /** As received, with pseudo-headers. */
  readonly headers: IncomingHttpHeaders;
  /** The message with its five bytes of gRPC framing, as received. */
  readonly body: Buffer;
}

/** Why the target has not answered. `refused`: it never processed the call. */
export type FailureReason = "unreachable" | "refused" | "broken" | "too_large" | "too_slow" | "cancelled";

/** The outcome of a call. An `answer` may carry an error status of gRPC. */
export type UnaryOutcome =
  | {
      readonly kind: "answer";
      readonly headers: IncomingHttpHeaders;
      readonly body: Buffer;
      /** Undefined if the headers were the whole answer, as is usual for errors. */
      readonly trailers: IncomingHttpHeaders | undefined;
    }
  | { readonly kind: "failure"; readonly reason: FailureReason; readonly message: string };

/** A call that was sent and can be cancelled. */
export interface SentCall {
  /** Ends the call if it is still under way; its outcome is then a failure with this reason. */
  cancel(reason: FailureReason): void;
}

export interface SendOptions {
  /** Asked before each piece of the answer is kept, with the bytes of memory that it takes; false ends the call as `too_large`. */
  readonly admits?: ((bytes: number) => boolean) | undefined;
}

/** Something that answers unary calls. */
export interface UnaryTarget {
  /** Sends the request; `done` is called once, later, with the outcome. Never throws. */
  send(request: RelayedRequest, options: SendOptions, done: (outcome: UnaryOutcome) => void): SentCall;
}

/** Bytes before a gRPC message: a byte for compression, and four for the length. */
export const FRAME_HEADER_BYTES = 5;

/** The gRPC status of an answer; undefined for a failure, and for an answer without a valid status. */
export function grpcCodeOf(outcome: UnaryOutcome): number | undefined {
  if (outcome.kind === "failure") return undefined;
  const fields = outcome.trailers?.["grpc-status"] === undefined ? outcome.headers : outcome.trailers;
  const text = fields["grpc-status"];
  return typeof text === "string" && /^\d{1,3}$/.test(text) ? Number(text) : undefined;
}
