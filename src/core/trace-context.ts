// The caller's place in a trace, as its `traceparent` header says it (W3C Trace Context, level 1 and 2).

import { copyOf } from "./request.ts";

/** What a span is found by. */
export interface SpanIds {
  /** 32 digits of hex in lower case, not all zero. */
  readonly traceId: string;
  /** 16 of them. */
  readonly spanId: string;
}

/** A span of the caller, and whether its trace is recorded. */
interface TraceContext extends SpanIds {
  readonly isSampled: boolean;
}

/** Version, trace id, span id, flags; later versions may go on behind a dash. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;
const LENGTH_OF_VERSION_0 = 55;
const ONLY_ZEROS = /^0+$/;
const FLAG_SAMPLED = 1;

/**
 * Reads a `traceparent`. Undefined for what the standard says to ignore: another form, version ff, ids of zeros, more than
 * version 00 has. Takes no longer for a long value: it looks at the first 56 characters.
 */
export function readTraceparent(text: string | undefined): TraceContext | undefined {
  if (text === undefined) return undefined;
  const [, version, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || version === "ff" || ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(spanId))
    return undefined;
  const isSampled = (Number.parseInt(flags, 16) & FLAG_SAMPLED) !== 0;
  if (text.length === LENGTH_OF_VERSION_0) return { traceId, spanId, isSampled };
  // A span may wait for its collector for long.
  return version === "00" ? undefined : { traceId: copyOf(traceId), spanId: copyOf(spanId), isSampled };
}
