// Reads a RateLimitResponse. The field numbers are those of proto/envoy/service/ratelimit/v3/rls.proto.

import type { Answer, DescriptorStatus, ShownLimit } from "./decision.ts";
import { UNITS } from "./unit.ts";
import { Fields } from "./wire.ts";

/** The protocol's code for a refusal. Any other code is allowed, as in Envoy. */
export const OVER_LIMIT = 2;
/** Deepest nesting of maps and lists; the service writes at most 30 levels. */
const DEPTH_MAX = 100;
const NOTHING = Buffer.alloc(0);

/** Reads an answer. Throws for bytes that are no such message. */
export function readAnswer(message: Buffer): Answer {
  const answer = new Fields(message);
  const metadata = answer.bytes(6);
  return {
    allowed: answer.number(1) !== OVER_LIMIT,
    statuses: answer.all(2).map(readStatus),
    headers: Object.fromEntries(answer.all(3).map(readHeader)),
    metadata: metadata === undefined ? {} : readStruct(metadata, 1),
  };
}

function readStatus(message: Buffer): DescriptorStatus {
  const status = new Fields(message);
  const limit = status.bytes(2);
  const resetSeconds = status.wholeSeconds(4);
  return {
    allowed: status.number(1) !== OVER_LIMIT,
    ...(limit === undefined ? {} : { limit: readLimit(limit), remaining: status.number(3) }),
    ...(resetSeconds === undefined ? {} : { resetSeconds }),
  };
}

function readLimit(message: Buffer): ShownLimit {
  const limit = new Fields(message);
  const unit = UNITS[limit.number(2) - 1];
  const name = limit.text(3);
  return {
    requestsPerUnit: limit.number(1),
    ...(unit === undefined ? {} : { unit }),
    ...(name === "" ? {} : { name }),
  };
}

function readHeader(message: Buffer): [key: string, value: string] {
  const header = new Fields(message);
  return [header.text(1), header.text(2)];
}

/** A google.protobuf.Struct as a plain object. */
function readStruct(message: Buffer, depth: number): Record<string, unknown> {
  checkDepth(depth);
  const members = new Fields(message).all(1).map((entry): [key: string, value: unknown] => {
    const member = new Fields(entry);
    const value = member.bytes(2);
    return [member.text(1), value === undefined ? null : readValue(value, depth)];
  });
  return Object.fromEntries(members);
}

/** A google.protobuf.Value; null also for a Value without any member. */
function readValue(message: Buffer, depth: number): unknown {
  const value = new Fields(message);
  switch (value.lastOf([1, 2, 3, 4, 5, 6])) {
    case 2:
      return value.number(2);
    case 3:
      return value.text(3);
    case 4:
      return value.number(4) !== 0;
    case 5:
      return readStruct(value.bytes(5) ?? NOTHING, depth + 1);
    case 6:
      return readList(value.bytes(6) ?? NOTHING, depth + 1);
    default:
      return null;
  }
}

function readList(message: Buffer, depth: number): unknown[] {
  checkDepth(depth);
  return new Fields(message).all(1).map((value) => readValue(value, depth));
}

function checkDepth(depth: number): void {
  if (depth > DEPTH_MAX) throw new Error(`the answer's metadata is nested deeper than ${DEPTH_MAX} levels`);
}
