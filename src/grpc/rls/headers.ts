// Adds rate limit headers to a decision, one function per dialect. All names and values must be safe in an HTTP/1.1
// response, because Envoy writes them as they are, even with line feeds.

import { divideUp, MICROS_PER_SECOND } from "../../base/units.ts";
import { ALGORITHM_NAMES, type Limit, quotaOf } from "../../engine/domain/limit.ts";
import { GLOBAL_DESCRIPTOR, isOver, Mode, type Take } from "../../engine/domain/take.ts";
import type { Decision, LimitCall } from "../../engine/limiter/call.ts";
import { canPassLater, resetSecondsOf, retryAfterSeconds } from "../../engine/limiter/decision.ts";
import type { HeaderDialect } from "../../settings/header-dialects.ts";

export interface HeaderOptions {
  readonly dialects: readonly HeaderDialect[];
  /** Names of the `ratelimit` dialect's headers. */
  readonly limitHeader: string;
  readonly remainingHeader: string;
  readonly resetHeader: string;
  /** False: no Retry-After and X-RateLimit-Reason on refusal. Default: true. */
  readonly explainsRefusals?: boolean;
}

/** Parameters of the structured dialect's draft; an open proposal renames them. */
const STRUCTURED = { quota: "q", window: "w", left: "r", seconds: "t" } as const;

/**
 * Adds the headers of each dialect, and on refusal Retry-After and X-RateLimit-Reason. Without a limit a refusal has
 * only its reason.
 */
export function addHeaders(call: LimitCall, options: HeaderOptions): void {
  const take = call.governing;
  if (options.dialects.length === 0) return;
  const { decision } = call;
  if (take === undefined) {
    const reason = decision.overLimit && options.explainsRefusals !== false ? reasonOf(call) : "";
    if (reason !== "") decision.addHeader("X-RateLimit-Reason", reason);
    return;
  }
  const resetSeconds = canPassLater(take) ? resetSecondsOf(take) : undefined;
  for (const dialect of options.dialects) ADD[dialect](decision, take, resetSeconds, options);
  if (!decision.overLimit || options.explainsRefusals === false) return;
  if (resetSeconds !== undefined) decision.addHeader("Retry-After", String(retryAfterSeconds(take)));
  decision.addHeader("X-RateLimit-Reason", reasonOf(call));
}

/** Adds headers about a take. `resetSeconds` is undefined if waiting does not help. */
type AddHeaders = (decision: Decision, take: Take, resetSeconds: number | undefined, options: HeaderOptions) => void;

const X_RATELIMIT = {
  dialects: [],
  limitHeader: "X-RateLimit-Limit",
  remainingHeader: "X-RateLimit-Remaining",
  resetHeader: "X-RateLimit-Reset",
} as const;

/** The reference's triple, the structured fields of draft-ietf-httpapi-ratelimit-headers-11, X-RateLimit. */
const ADD: Readonly<Record<HeaderDialect, AddHeaders>> = {
  ratelimit: addTriple,
  structured: addStructured,
  "x-ratelimit": (decision, take, resetSeconds) => addTriple(decision, take, resetSeconds, X_RATELIMIT),
};

/** Why the call is refused, the value of X-RateLimit-Reason; empty if no limit refused it and no entry is missing. */
export function reasonOf(call: LimitCall): string {
  const { governing } = call;
  if (call.refusal === "incomplete" && !(governing !== undefined && isOver(governing))) return "required_entry_missing";
  return governing === undefined ? "" : reasonOfTake(governing);
}

/** Names the algorithm of the limit, or the global limit, `concurrent`, or a block. */
export function reasonOfTake(take: Take): string {
  if (take.descriptor === GLOBAL_DESCRIPTOR) return "global_limit_exceeded";
  if (take.mode === Mode.blocked) return "blocked";
  if (take.limit.isConcurrent) return "concurrent_exceeded";
  return `${ALGORITHM_NAMES[take.limit.algorithm]}_exceeded`;
}

function addTriple(decision: Decision, take: Take, resetSeconds: number | undefined, names: HeaderOptions): void {
  decision.addHeader(names.limitHeader, String(quotaOf(take.limit)));
  decision.addHeader(names.remainingHeader, String(take.remaining));
  if (resetSeconds !== undefined) decision.addHeader(names.resetHeader, String(resetSeconds));
}

// For a token bucket, `q` is the burst and `w` the time in which an empty bucket fills, so that `r` never exceeds `q`.
// For a calendar, `w` is the length of the window that this process used last.
function addStructured(decision: Decision, { limit, remaining }: Take, resetSeconds: number | undefined): void {
  const name = policyName(limit);
  const { calendar } = limit;
  const ownSeconds =
    calendar === undefined ? limit.windowSeconds : (calendar.endUs - calendar.startUs) / MICROS_PER_SECOND;
  const windowSeconds = limit.amount === 0 ? ownSeconds : divideUp(limit.burst * ownSeconds, limit.amount);
  decision.addHeader(
    "RateLimit-Policy",
    `${name};${STRUCTURED.quota}=${limit.burst};${STRUCTURED.window}=${Math.max(1, windowSeconds)}`,
  );
  const seconds = resetSeconds === undefined ? "" : `;${STRUCTURED.seconds}=${resetSeconds}`;
  decision.addHeader("RateLimit", `${name};${STRUCTURED.left}=${remaining}${seconds}`);
}

/**
 * The limit's readable name, else its rule's path, as a quoted string of RFC 9651. Characters that need escapes become
 * `_`.
 */
function policyName(limit: Limit): string {
  const text =
    limit.names.readableName !== "" ? limit.names.readableName : limit.names.path !== "" ? limit.names.path : "global";
  return `"${text.replace(/[^\x20-\x21\x23-\x5b\x5d-\x7e]/g, "_")}"`;
}
