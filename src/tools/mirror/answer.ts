// Decodes requests and answers that passed the mirror into plain values, to compare and show them. Used only after the caller has its
// answer.

import type { IncomingHttpHeaders } from "node:http2";
import { gunzipSync, inflateSync } from "node:zlib";
import { loadProto, RATE_LIMIT_SERVICE } from "../../grpc/transport/load-proto.ts";
import { plainStruct, type WireStruct } from "../../grpc/transport/plain-struct.ts";
import { FRAME_HEADER_BYTES, grpcCodeOf, type UnaryOutcome } from "../../grpc/transport/relay/unary-exchange.ts";

/** A limit as an answer shows it. */
export interface ShownLimit {
  readonly name: string;
  readonly requestsPerUnit: number;
  readonly unit: string;
}

/** The status of one descriptor in an answer. */
export interface ShownStatus {
  readonly code: string;
  readonly limit: ShownLimit | undefined;
  readonly remaining: number;
  readonly resetSeconds: number | undefined;
}

export interface ShownHeader {
  readonly key: string;
  readonly value: string;
}

/** An answer, or a gRPC error in its place. */
export interface ShownAnswer {
  /** 0 for an answer. Any other gRPC status is an error; all other fields are then empty. */
  readonly grpcCode: number;
  readonly code: string;
  readonly statuses: readonly ShownStatus[];
  readonly responseHeaders: readonly ShownHeader[];
  readonly requestHeaders: readonly ShownHeader[];
  /** `raw_body` in base64. */
  readonly rawBody: string;
  /** A JSON-like object; undefined if there is none. */
  readonly metadata: unknown;
}

export interface ShownDescriptor {
  readonly entries: readonly { readonly key: string; readonly value: string }[];
}

/** The request of a caller. */
export interface ShownRequest {
  readonly domain: string;
  readonly descriptors: readonly ShownDescriptor[];
  readonly hitsAddend: number;
}

/** The bytes are not the expected message. */
export class UnreadableError extends Error {
  override readonly name = "UnreadableError";
}

/** Longest decompressed message, in bytes. */
const PLAIN_BYTES_MAX = 8_388_608;

/** Decodes the message of a request. Throws UnreadableError. */
export function readRequest(message: Buffer): ShownRequest {
  const read = decode<WireRequest>("requestDeserialize", message);
  return { domain: read.domain, descriptors: read.descriptors, hitsAddend: read.hits_addend };
}

/** Decodes an answer or a gRPC error. Throws UnreadableError if it is neither. */
export function readAnswer(outcome: UnaryOutcome & { kind: "answer" }): ShownAnswer {
  const grpcCode = grpcCodeOf(outcome);
  if (grpcCode === undefined) throw new UnreadableError("expected an answer with a grpc-status");
  if (grpcCode !== 0) return { ...EMPTY_ANSWER, grpcCode };
  const read = decode<WireAnswer>("responseDeserialize", messageOf(outcome.body, outcome.headers));
  return {
    ...EMPTY_ANSWER,
    code: read.overall_code,
    statuses: read.statuses.map(shownStatus),
    responseHeaders: read.response_headers_to_add,
    requestHeaders: read.request_headers_to_add,
    rawBody: read.raw_body.toString("base64"),
    metadata: read.dynamic_metadata === null ? undefined : plainStruct(read.dynamic_metadata),
  };
}

/** The decompressed message of a body with gRPC framing. Throws UnreadableError. */
export function messageOf(body: Buffer, headers: IncomingHttpHeaders): Buffer {
  const length = body.length < FRAME_HEADER_BYTES ? -1 : body.readUInt32BE(1);
  if (length !== body.length - FRAME_HEADER_BYTES) throw new UnreadableError("expected one whole gRPC message");
  const message = body.subarray(FRAME_HEADER_BYTES);
  return body[0] === 0 ? message : decompress(message, headers["grpc-encoding"]);
}

/** Adds gRPC framing to a message. */
export function framed(message: Buffer): Buffer {
  const body = Buffer.allocUnsafe(FRAME_HEADER_BYTES + message.length);
  body[0] = 0;
  body.writeUInt32BE(message.length, 1);
  message.copy(body, FRAME_HEADER_BYTES);
  return body;
}

const EMPTY_ANSWER: ShownAnswer = {
  grpcCode: 0,
  code: "",
  statuses: [],
  responseHeaders: [],
  requestHeaders: [],
  rawBody: "",
  metadata: undefined,
};

interface WireRequest {
  readonly domain: string;
  readonly descriptors: readonly ShownDescriptor[];
  readonly hits_addend: number;
}

interface WireAnswer {
  readonly overall_code: string;
  readonly statuses: readonly WireStatus[];
  readonly response_headers_to_add: readonly ShownHeader[];
  readonly request_headers_to_add: readonly ShownHeader[];
  readonly raw_body: Buffer;
  readonly dynamic_metadata: WireStruct | null;
}

interface WireStatus {
  readonly code: string;
  readonly current_limit: { readonly requests_per_unit: number; readonly unit: string; readonly name: string } | null;
  readonly limit_remaining: number;
  readonly duration_until_reset: { readonly seconds: string; readonly nanos: number } | null;
}

type Deserializer = "requestDeserialize" | "responseDeserialize";

function decode<T>(side: Deserializer, message: Buffer): T {
  const service = loadProto()[RATE_LIMIT_SERVICE] as unknown as {
    readonly ShouldRateLimit: Readonly<Record<Deserializer, (message: Buffer) => unknown>>;
  };
  try {
    return service.ShouldRateLimit[side](message) as T;
  } catch (cause) {
    throw new UnreadableError("expected a message of ShouldRateLimit", { cause });
  }
}

function decompress(message: Buffer, encoding: unknown): Buffer {
  const options = { maxOutputLength: PLAIN_BYTES_MAX };
  try {
    if (encoding === "gzip") return gunzipSync(message, options);
    if (encoding === "deflate") return inflateSync(message, options);
  } catch (cause) {
    throw new UnreadableError(`expected a message in ${encoding}`, { cause });
  }
  throw new UnreadableError("expected a compression of gzip or deflate");
}

function shownStatus(status: WireStatus): ShownStatus {
  const { current_limit: limit, duration_until_reset: reset } = status;
  return {
    code: status.code,
    limit:
      limit === null
        ? undefined
        : { name: limit.name, requestsPerUnit: limit.requests_per_unit, unit: String(limit.unit) },
    remaining: status.limit_remaining,
    resetSeconds: reset === null ? undefined : Number(reset.seconds) + reset.nanos / 1e9,
  };
}
