// What a caller is told: the service's answer in the words of this package, or the policy's where there was none.

import type { CheckFailure, OnFailure } from "./failure.ts";
import type { Unit } from "./unit.ts";

/** The numbers of a limit. */
export interface ShownLimit {
  readonly requestsPerUnit: number;
  /** Absent for a window that has no name. */
  readonly unit?: Unit;
  readonly name?: string;
}

/** The answer for one descriptor. */
export interface DescriptorStatus {
  /** False also where the descriptor is over a limit in shadow mode, which refuses nothing. */
  readonly allowed: boolean;
  /** The strictest limit that applies; absent if none does. */
  readonly limit?: ShownLimit;
  /** Hits that would still pass; absent without a limit. */
  readonly remaining?: number;
  /** Seconds: allowed, until the limit is as new; refused, until the same hits could pass. */
  readonly resetSeconds?: number;
}

/** Says that the answer was not made as the rules say, and why. */
export interface Degraded {
  /** `client`: no usable answer came from a server. `server`: the server could not reach its store. */
  readonly by: "client" | "server";
  /** What was done instead. */
  readonly policy: string;
  /** Client: the name of a gRPC status. Server: a code of docs/errors.md. */
  readonly failure: string;
}

/** The answer to one check. */
export interface CheckDecision {
  readonly allowed: boolean;
  /** One per descriptor, in the order of the request; none if the client itself had to decide. */
  readonly statuses: readonly DescriptorStatus[];
  /** The strictest status: these three are what headers tell. Absent if no limit applies. */
  readonly limit?: ShownLimit;
  readonly remaining?: number;
  readonly resetSeconds?: number;
  /** Whole seconds until it makes sense to ask again; present when refused, unless this cost can never pass. */
  readonly retryAfterSeconds?: number;
  /** Headers for the caller's response, as the service's RESPONSE_HEADERS sets them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Why the call was refused, such as `token_bucket_exceeded`. */
  readonly reason?: string;
  /** Id of the rule that refused. */
  readonly rule?: string;
  /** All that the service said beside the answer (its RESPONSE_DYNAMIC_METADATA). */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly degraded?: Degraded;
}

/** What the service answered. */
export interface Answer {
  readonly allowed: boolean;
  readonly statuses: readonly DescriptorStatus[];
  readonly headers: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, unknown>>;
}

/** The decision that an answer is. */
export function decisionOf({ allowed, statuses, headers, metadata }: Answer): CheckDecision {
  const shown = strictest(statuses, allowed);
  const degraded = serverDegraded(metadata.degraded);
  return {
    allowed,
    statuses,
    ...(shown === undefined ? {} : shownOf(shown)),
    ...(allowed || metadata.can_never_pass === true ? {} : { retryAfterSeconds: retryAfterOf(headers, shown) }),
    headers,
    ...textMember("reason", metadata.reason ?? headers["X-RateLimit-Reason"]),
    ...textMember("rule", metadata.rule),
    metadata,
    ...(degraded === undefined ? {} : { degraded }),
  };
}

/** The decision of the policy where no server gave one. */
export function withoutAnswer(policy: Exclude<OnFailure, "throw">, failure: CheckFailure): CheckDecision {
  const degraded: Degraded = { by: "client", policy, failure: failure.code };
  const base = { statuses: [], headers: {}, metadata: {}, degraded };
  return policy === "allow" ? { allowed: true, ...base } : { allowed: false, retryAfterSeconds: 1, ...base };
}

// Refused: the longest wait. Allowed: the smallest rest; a shadowed status is over and still does not govern.
function strictest(statuses: readonly DescriptorStatus[], allowed: boolean): DescriptorStatus | undefined {
  const candidates = statuses.filter((status) => status.limit !== undefined && status.allowed === allowed);
  return candidates.reduce<DescriptorStatus | undefined>((best, next) => {
    if (best === undefined) return next;
    if (allowed) return (next.remaining ?? 0) < (best.remaining ?? 0) ? next : best;
    return (next.resetSeconds ?? 0) > (best.resetSeconds ?? 0) ? next : best;
  }, undefined);
}

function shownOf({ limit, remaining, resetSeconds }: DescriptorStatus): Partial<CheckDecision> {
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(remaining === undefined ? {} : { remaining }),
    ...(resetSeconds === undefined ? {} : { resetSeconds }),
  };
}

// The header carries the jitter that spreads callers out; without headers the bare wait has to do.
function retryAfterOf(headers: Readonly<Record<string, string>>, shown: DescriptorStatus | undefined): number {
  const fromHeader = Number(headers["Retry-After"] ?? Number.NaN);
  return Number.isInteger(fromHeader) && fromHeader >= 0 ? fromHeader : Math.max(1, shown?.resetSeconds ?? 1);
}

function serverDegraded(value: unknown): Degraded | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { policy, failure } = value as { readonly policy?: unknown; readonly failure?: unknown };
  return { by: "server", policy: String(policy ?? ""), failure: String(failure ?? "") };
}

function textMember<Name extends "reason" | "rule">(name: Name, value: unknown): { [Key in Name]?: string } {
  return typeof value === "string" ? ({ [name]: value } as { [Key in Name]?: string }) : {};
}
