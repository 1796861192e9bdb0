// Reads a RateLimitResponse. The field numbers are those of proto/envoy/service/ratelimit/v3/rls.proto.

import type { Answer, DescriptorStatus, ShownLimit } from "./decision.ts";
import { unitOf } from "./unit.ts";
import { bytesOf, numberOf, readFields, readWholeSeconds, textOf } from "./wire.ts";

/** The protocol's code for a refusal. Any other code is allowed, as in Envoy. */
export const OVER_LIMIT = 2;
/** Deepest nesting of maps and lists; the service writes at most 30 levels. */
const DEPTH_MAX = 100;

/** Reads an answer. Throws for bytes that are no such message. */
export function readAnswer(message: Buffer): Answer {
  let allowed = true;
  const statuses: DescriptorStatus[] = [];
  const headers: [key: string, value: string][] = [];
  let metadata: Readonly<Record<string, unknown>> = {};
  readFields(message, (field, value) => {
    if (field === 1) allowed = numberOf(value) !== OVER_LIMIT;
    else if (field === 2) statuses.push(readStatus(bytesOf(value)));
    else if (field === 3) headers.push(readHeader(bytesOf(value)));
    else if (field === 6) metadata = readStruct(bytesOf(value), 1);
  });
  return { allowed, statuses, headers: Object.fromEntries(headers), metadata };
}

function readStatus(message: Buffer): DescriptorStatus {
  let allowed = true;
  let limit: ShownLimit | undefined;
  let remaining = 0;
  let resetSeconds: number | undefined;
  readFields(message, (field, value) => {
    if (field === 1) allowed = numberOf(value) !== OVER_LIMIT;
    else if (field === 2) limit = readLimit(bytesOf(value));
    else if (field === 3) remaining = numberOf(value);
    else if (field === 4) resetSeconds = readWholeSeconds(bytesOf(value));
  });
  return {
    allowed,
    ...(limit === undefined ? {} : { limit, remaining }),
    ...(resetSeconds === undefined ? {} : { resetSeconds }),
  };
}

function readLimit(message: Buffer): ShownLimit {
  let requestsPerUnit = 0;
  let unit: ShownLimit["unit"];
  let name = "";
  readFields(message, (field, value) => {
    if (field === 1) requestsPerUnit = numberOf(value);
    else if (field === 2) unit = unitOf(numberOf(value));
    else if (field === 3) name = textOf(value);
  });
  return { requestsPerUnit, ...(unit === undefined ? {} : { unit }), ...(name === "" ? {} : { name }) };
}

function readHeader(message: Buffer): [key: string, value: string] {
  const header: [string, string] = ["", ""];
  readFields(message, (field, value) => {
    if (field === 1 || field === 2) header[field - 1] = textOf(value);
  });
  return header;
}

/** A google.protobuf.Struct as a plain object. */
function readStruct(message: Buffer, depth: number): Record<string, unknown> {
  if (depth > DEPTH_MAX) throw new Error(`the answer's metadata is nested deeper than ${DEPTH_MAX} levels`);
  const members: [key: string, value: unknown][] = [];
  readFields(message, (field, entry) => {
    if (field !== 1) return;
    let key = "";
    let member: unknown = null;
    readFields(bytesOf(entry), (part, value) => {
      if (part === 1) key = textOf(value);
      else if (part === 2) member = readValue(bytesOf(value), depth);
    });
    members.push([key, member]);
  });
  return Object.fromEntries(members);
}

/** A google.protobuf.Value; null also for a Value without any member. */
function readValue(message: Buffer, depth: number): unknown {
  let plain: unknown = null;
  readFields(message, (field, value) => {
    if (field === 1) plain = null;
    else if (field === 2) plain = numberOf(value);
    else if (field === 3) plain = textOf(value);
    else if (field === 4) plain = numberOf(value) !== 0;
    else if (field === 5) plain = readStruct(bytesOf(value), depth + 1);
    else if (field === 6) plain = readList(bytesOf(value), depth + 1);
  });
  return plain;
}

function readList(message: Buffer, depth: number): unknown[] {
  if (depth > DEPTH_MAX) throw new Error(`the answer's metadata is nested deeper than ${DEPTH_MAX} levels`);
  const values: unknown[] = [];
  readFields(message, (field, value) => {
    if (field === 1) values.push(readValue(bytesOf(value), depth));
  });
  return values;
}
