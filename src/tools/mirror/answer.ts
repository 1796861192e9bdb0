// Decodes requests and answers that passed the mirror, to compare and show them. Used only after the caller has its answer.

import { jsonMessages } from "../../grpc/transport/load-proto.ts";
import { FRAME_HEADER_BYTES, grpcCodeOf, type UnaryOutcome } from "../../grpc/transport/relay/unary-exchange.ts";

/** A RateLimitResponse in the form of `jsonMessages`. */
export interface RateLimitAnswer {
  readonly overall_code: string;
  readonly statuses: readonly AnswerStatus[];
  readonly response_headers_to_add: readonly AnswerHeader[];
  readonly request_headers_to_add: readonly AnswerHeader[];
  /** In base64. */
  readonly raw_body: string;
  readonly dynamic_metadata?: Readonly<Record<string, unknown>>;
}

/** The status of one descriptor. */
export interface AnswerStatus {
  readonly code: string;
  readonly current_limit?: AnswerLimit;
  readonly limit_remaining: number;
  /** Seconds, such as `1.5s`. */
  readonly duration_until_reset?: string;
}

/** A limit as an answer shows it. */
export interface AnswerLimit {
  readonly name: string;
  readonly requests_per_unit: number;
  readonly unit: string;
}

export interface AnswerHeader {
  readonly key: string;
  readonly value: string;
}

/** What a target answered: a message, or a gRPC error in its place. */
export interface TargetAnswer extends RateLimitAnswer {
  /** 0 for an answer. Any other gRPC status is an error; all other fields are then empty. */
  readonly grpcCode: number;
}

/** A RateLimitRequest in the same form. */
export interface AskedRequest {
  readonly domain: string;
  readonly descriptors: readonly { readonly entries: readonly AnswerHeader[] }[];
  readonly hits_addend: number;
}

/** The bytes are not the expected message. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

const requests = jsonMessages<AskedRequest>("envoy.service.ratelimit.v3.RateLimitRequest");
const answers = jsonMessages<RateLimitAnswer>("envoy.service.ratelimit.v3.RateLimitResponse");

/** How ShouldRateLimit's messages become bytes, and back. */
export const writeRequest = requests.toBytes;
export const readMessage = answers.fromBytes;

/** The seconds of a duration; undefined if there is none. */
export function secondsOf(duration: AnswerStatus["duration_until_reset"]): number | undefined {
  return duration === undefined ? undefined : Number.parseFloat(duration);
}

/** Decodes the message of a request. Throws UnreadableError. */
export function readRequest(message: Buffer): AskedRequest {
  return decoded(() => requests.fromBytes(message));
}

/** Decodes an answer or a gRPC error. Throws UnreadableError if it is neither. */
export function readAnswer(outcome: UnaryOutcome & { kind: "answer" }): TargetAnswer {
  const grpcCode = grpcCodeOf(outcome);
  if (grpcCode === undefined) throw new UnreadableError("expected an answer with a grpc-status");
  const message = grpcCode === 0 ? messageOf(outcome.body) : Buffer.alloc(0);
  return { ...decoded(() => answers.fromBytes(message)), grpcCode };
}

/** The message of a body with gRPC framing. Throws UnreadableError, also for one that is compressed: rate limiters' are too short for that. */
export function messageOf(body: Buffer): Buffer {
  const length = body.length < FRAME_HEADER_BYTES ? -1 : body.readUInt32BE(1);
  if (length !== body.length - FRAME_HEADER_BYTES || body[0] !== 0) {
    throw new UnreadableError("expected one whole gRPC message, not compressed");
  }
  return body.subarray(FRAME_HEADER_BYTES);
}

/** Adds gRPC framing to a message. */
export function framed(message: Buffer): Buffer {
  const body = Buffer.allocUnsafe(FRAME_HEADER_BYTES + message.length);
  body[0] = 0;
  body.writeUInt32BE(message.length, 1);
  message.copy(body, FRAME_HEADER_BYTES);
  return body;
}

function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw new UnreadableError("expected a message of ShouldRateLimit", { cause });
  }
}
