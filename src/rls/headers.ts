// From a decision to rate limit headers, one function per dialect. Every name and value that leaves here is safe to put
// into an HTTP/1.1 response: Envoy writes what it gets, line feeds included.

import type { Decision } from "../core/decision.ts";
import type { HeaderDialect } from "../core/header-dialects.ts";
import { ALGORITHM_NAMES, type Limit, quotaOf } from "../core/limit.ts";
import { GLOBAL_DESCRIPTOR, type Take } from "../core/take.ts";
import { divideUp, MICROS_PER_SECOND } from "../core/units.ts";
import type { LimitCall } from "../limiter/call.ts";
import { canPassLater, resetSecondsOf, retryAfterSeconds } from "../limiter/retry-after.ts";

export interface HeaderOptions {
  readonly dialects: readonly HeaderDialect[];
  /** Names of the `ratelimit` dialect's headers. */
  readonly limitHeader: string;
  readonly remainingHeader: string;
  readonly resetHeader: string;
  /** False: no Retry-After and X-RateLimit-Reason on refusal. Default: true. */
  readonly explainsRefusals?: boolean;
}

/** Parameter letters of the structured dialect; an open proposal renames them, so they stand in one place. */
const STRUCTURED = { quota: "q", window: "w", left: "r", seconds: "t" } as const;

/** What the headers of one answer say; `limit` governs the reply. */
interface Shown {
  readonly limit: Limit;
  readonly remaining: number;
  /** Undefined if no wait helps. */
  readonly resetSeconds: number | undefined;
}

/** Adds the headers of each dialect, and on refusal Retry-After and X-RateLimit-Reason. Nothing if no limit was found. */
export function addHeaders(call: LimitCall, options: HeaderOptions): void {
  const take = call.governing;
  if (take === undefined || options.dialects.length === 0) return;
  const { decision } = call;
  const shown: Shown = {
    limit: take.limit,
    remaining: take.remaining,
    resetSeconds: canPassLater(take) ? resetSecondsOf(take) : undefined,
  };
  for (const dialect of options.dialects) ADD[dialect](decision, shown, options);
  if (!decision.overLimit || options.explainsRefusals === false) return;
  if (shown.resetSeconds !== undefined) decision.addHeader("Retry-After", String(retryAfterSeconds(take)));
  decision.addHeader("X-RateLimit-Reason", reasonOf(take));
}

const X_RATELIMIT = {
  limitHeader: "X-RateLimit-Limit",
  remainingHeader: "X-RateLimit-Remaining",
  resetHeader: "X-RateLimit-Reset",
} as const;

/** The reference's triple, the structured fields of draft-ietf-httpapi-ratelimit-headers-11, X-RateLimit. */
const ADD: Readonly<Record<HeaderDialect, (decision: Decision, shown: Shown, options: HeaderOptions) => void>> = {
  ratelimit: (decision, shown, options) => addTriple(decision, options, shown),
  structured: addStructured,
  "x-ratelimit": (decision, shown) => addTriple(decision, X_RATELIMIT, shown),
};

/** Why a call was refused, as one word: the algorithm of the limit that governs, or the global limit, or `concurrent`. */
export function reasonOf(take: Take): string {
  if (take.descriptor === GLOBAL_DESCRIPTOR) return "global_limit_exceeded";
  if (take.limit.isConcurrent) return "concurrent_exceeded";
  return `${ALGORITHM_NAMES[take.limit.algorithm]}_exceeded`;
}

function addTriple(
  decision: Decision,
  names: { readonly limitHeader: string; readonly remainingHeader: string; readonly resetHeader: string },
  shown: Shown,
): void {
  decision.addHeader(names.limitHeader, String(quotaOf(shown.limit)));
  decision.addHeader(names.remainingHeader, String(shown.remaining));
  if (shown.resetSeconds !== undefined) decision.addHeader(names.resetHeader, String(shown.resetSeconds));
}

// A token bucket's quota is its burst, and its window the time in which an empty bucket fills: so `r` never exceeds `q`. A calendar
// tells the length of the window of which this process has asked last.
function addStructured(decision: Decision, shown: Shown): void {
  const { limit } = shown;
  const name = policyName(limit);
  const { calendar } = limit;
  const ownSeconds =
    calendar === undefined ? limit.windowSeconds : (calendar.endUs - calendar.startUs) / MICROS_PER_SECOND;
  const windowSeconds = limit.amount === 0 ? ownSeconds : divideUp(limit.burst * ownSeconds, limit.amount);
  decision.addHeader(
    "RateLimit-Policy",
    `${name};${STRUCTURED.quota}=${limit.burst};${STRUCTURED.window}=${Math.max(1, windowSeconds)}`,
  );
  const seconds = shown.resetSeconds === undefined ? "" : `;${STRUCTURED.seconds}=${shown.resetSeconds}`;
  decision.addHeader("RateLimit", `${name};${STRUCTURED.left}=${shown.remaining}${seconds}`);
}

/** The limit's name, or words for a gateway's, else its rule's path, as a quoted string of RFC 9651 with nothing left to escape. */
function policyName(limit: Limit): string {
  const text = limit.readableName !== "" ? limit.readableName : limit.path !== "" ? limit.path : "global";
  return `"${text.replace(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, "_")}"`;
}
