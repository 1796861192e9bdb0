// Reads the caller's `traceparent` header (W3C Trace Context, level 1 and 2).

import { copyOf } from "../engine/domain/request.ts";

/** The ids that identify a span. */
export interface SpanIds {
  /** 32 digits of hex in lower case, not all zero. */
  readonly traceId: string;
  /** 16 digits of hex in lower case, not all zero. */
  readonly spanId: string;
}

/** The caller's span, and whether its trace is recorded. */
interface TraceContext extends SpanIds {
  readonly isSampled: boolean;
}

/** Version, trace id, span id, flags. Later versions may append more after a dash. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;
const LENGTH_OF_VERSION_0 = 55;
const ONLY_ZEROS = /^0+$/;
const FLAG_SAMPLED = 1;

/**
 * Reads a `traceparent`. Undefined for values that the standard says to ignore: another form, version ff, ids of zeros
 * only, or version 00 with more than its 55 characters. Looks at no more than the first 56 characters, so long values
 * cost no more.
 */
export function readTraceparent(text: string | undefined): TraceContext | undefined {
  if (text === undefined) return undefined;
  const [, version, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || version === "ff" || ONLY_ZEROS.test(traceId) || ONLY_ZEROS.test(spanId))
    return undefined;
  const isSampled = (Number.parseInt(flags, 16) & FLAG_SAMPLED) !== 0;
  if (text.length === LENGTH_OF_VERSION_0) return { traceId, spanId, isSampled };
  // Spans may wait long for their collector; a part of a long header must not keep all of it in memory.
  return version === "00" ? undefined : { traceId: copyOf(traceId), spanId: copyOf(spanId), isSampled };
}
