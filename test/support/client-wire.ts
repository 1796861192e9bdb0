// What the TypeScript client sends as proto-loader reads it, and what it makes of what proto-loader writes.

import type { Answer } from "../../packages/client/src/decision.ts";
import { readAnswer } from "../../packages/client/src/read-answer.ts";
import { shouldRateLimit } from "./load-proto.ts";

import { answerBytes } from "./mirror-rig.ts";

/** A RateLimitRequest in proto-loader's form; enums by name, numbers of 64 bits as text. */
interface ProtoRequest {
  readonly domain: string;
  readonly hits_addend: number;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly limit: { readonly requests_per_unit: number; readonly unit: string | number } | null;
    readonly hits_addend: { readonly value: string } | null;
    readonly is_negative_hits: boolean;
  }[];
}

/** What proto/ makes of a request's bytes. */
export function requestInProto(bytes: Buffer): ProtoRequest {
  return shouldRateLimit().requestDeserialize(bytes) as unknown as ProtoRequest;
}

/** What the client makes of a RateLimitResponse. */
export function readInClient(answer: object): Answer {
  return readAnswer(answerBytes(answer));
}
