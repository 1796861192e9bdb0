// The messages of the TypeScript client as proto/ has them, by proto-loader: what it sends, and what it is sent.

import type { MethodDefinition } from "@grpc/grpc-js";
import type { Answer } from "../../client/src/decision.ts";
import { readAnswer } from "../../client/src/read-answer.ts";
import { loadProto, RATE_LIMIT_SERVICE } from "../../src/grpc/transport/load-proto.ts";

/** A RateLimitRequest in proto-loader's form; enums by name, numbers of 64 bits as text. */
export interface ProtoRequest {
  readonly domain: string;
  readonly hits_addend: number;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly limit: { readonly requests_per_unit: number; readonly unit: string | number } | null;
    readonly hits_addend: { readonly value: string } | null;
    readonly is_negative_hits: boolean;
  }[];
}

const { ShouldRateLimit: method } = loadProto()[RATE_LIMIT_SERVICE] as unknown as {
  readonly ShouldRateLimit: MethodDefinition<object, object>;
};

/** What proto/ makes of a request's bytes. */
export function requestInProto(bytes: Buffer): ProtoRequest {
  return method.requestDeserialize(bytes) as ProtoRequest;
}

/** The bytes of a RateLimitResponse in proto-loader's form. */
export function answerBytes(answer: object): Buffer {
  return method.responseSerialize(answer);
}

/** What proto/ makes of an answer's bytes. */
export function answerInProto(bytes: Buffer): unknown {
  return method.responseDeserialize(bytes);
}

/** What the client makes of it. */
export function readInClient(answer: object): Answer {
  return readAnswer(answerBytes(answer));
}
