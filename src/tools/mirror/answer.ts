// Decodes requests and answers that passed the mirror, to compare and show them. Used only after the caller has its
// answer.

import { jsonReader } from "../../grpc/transport/load-proto.ts";
import type { TargetOutcome } from "./target.ts";

/** A RateLimitResponse in the form of `jsonReader`. */
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

const readRequestMessage = jsonReader<AskedRequest>("envoy.service.ratelimit.v3.RateLimitRequest");

/** Reads an answer. Throws if the bytes are none. */
export const readMessage = jsonReader<RateLimitAnswer>("envoy.service.ratelimit.v3.RateLimitResponse");

/** The seconds of a duration; undefined if there isn't one. */
export function secondsOf(duration: AnswerStatus["duration_until_reset"]): number | undefined {
  return duration === undefined ? undefined : Number.parseFloat(duration);
}

/** Decodes the message of a request. Throws UnreadableError. */
export function readRequest(message: Buffer): AskedRequest {
  return decoded(() => readRequestMessage(message));
}

/** Decodes an answer or a gRPC error. Throws UnreadableError. */
export function readAnswer({ code, message }: TargetOutcome & { kind: "answer" }): TargetAnswer {
  return { ...decoded(() => readMessage(message)), grpcCode: code };
}

function decoded<T>(decode: () => T): T {
  try {
    return decode();
  } catch (cause) {
    throw new UnreadableError("expected a message of ShouldRateLimit", { cause });
  }
}
