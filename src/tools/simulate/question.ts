// A recorded call: what was asked, and when. Recordings of the mirror hold the bytes of the message, all others domain and
// descriptors.

import { RequestError } from "../../engine/base/errors.ts";
import {
  DESCRIPTORS_MAX,
  DOMAIN_BYTES_MAX,
  ENTRIES_MAX,
  ENTRY_BYTES_MAX,
  type LimitRequest,
} from "../../engine/domain/request.ts";
import { decodeRequest } from "../../grpc/rls/codec.ts";

/** A descriptor of a question; text is one-byte (engine/domain/request.ts). */
export interface AskedDescriptor {
  readonly entries: readonly (readonly [key: string, value: string])[];
  /** Hits of this descriptor; undefined: the call's. */
  readonly hits?: number | undefined;
  readonly isRefund?: boolean | undefined;
  /** A limit that the caller brings along. */
  readonly override?: { readonly amount: number; readonly unit: number } | undefined;
}

/** What a call asks. */
export interface AskedCall {
  /** One-byte text. */
  readonly domain: string;
  readonly descriptors: readonly AskedDescriptor[];
  /** Hits of the call; 0 means 1, as on the wire. */
  readonly hitsAddend: number;
}

/** A call of a recording. */
export interface RecordedQuestion {
  /** When it came, in microseconds since the Unix epoch. */
  readonly atUs: number;
  /** The message of the request, or its contents. */
  readonly question: Buffer | AskedCall;
}

/** Writes the question into an empty request. Throws RequestError for a message that can't be read or is too large. */
export function fillRequest(question: RecordedQuestion["question"], request: LimitRequest): void {
  if (Buffer.isBuffer(question)) {
    decodeRequest(question, request);
    return;
  }
  checkBounds(question);
  request.domain = question.domain;
  request.hitsAddend = question.hitsAddend;
  for (const asked of question.descriptors) addDescriptor(request, asked);
}

/** Writes one more descriptor into a request. */
export function addDescriptor(request: LimitRequest, asked: AskedDescriptor): void {
  const descriptor = request.addDescriptor();
  for (const [key, value] of asked.entries) descriptor.addEntry(key, value);
  descriptor.isRefund = asked.isRefund ?? false;
  descriptor.hasHits = asked.hits !== undefined;
  descriptor.hits = asked.hits ?? 0;
  if (asked.override === undefined) return;
  descriptor.hasOverride = true;
  descriptor.overrideAmount = asked.override.amount;
  descriptor.overrideUnit = asked.override.unit;
}

/** Holds calls that were no message to the bounds of messages, with the same errors. */
function checkBounds({ domain, descriptors }: AskedCall): void {
  if (domain.length > DOMAIN_BYTES_MAX) {
    throw new RequestError("REQUEST_DOMAIN_TOO_LONG", `expected a domain of at most ${DOMAIN_BYTES_MAX} bytes`);
  }
  if (descriptors.length > DESCRIPTORS_MAX) {
    throw new RequestError("REQUEST_DESCRIPTORS_TOO_MANY", `expected at most ${DESCRIPTORS_MAX} descriptors`);
  }
  for (const { entries } of descriptors) {
    if (entries.length > ENTRIES_MAX) {
      throw new RequestError("REQUEST_ENTRIES_TOO_MANY", `expected at most ${ENTRIES_MAX} entries`);
    }
    if (entries.some(([key, value]) => Math.max(key.length, value.length) > ENTRY_BYTES_MAX)) {
      throw new RequestError("REQUEST_ENTRY_TOO_LONG", `expected keys and values of at most ${ENTRY_BYTES_MAX} bytes`);
    }
  }
}
