// What a caller gets of an answer: the service's words in the terms of this package.

import type { Unit } from "./unit.ts";

/** The numbers of a limit. */
export interface ShownLimit {
  readonly requestsPerUnit: number;
  /** Absent for a window without a name. */
  readonly unit?: Unit;
  readonly name?: string;
}

/** The answer for one descriptor. */
export interface DescriptorStatus {
  /** False also for a descriptor that is over a limit in shadow mode; such a limit refuses no call. */
  readonly allowed: boolean;
  /** The strictest limit that applies; absent if none does. */
  readonly limit?: ShownLimit;
  /** Hits that would still pass; absent without a limit. */
  readonly remaining?: number;
  /** Whole seconds: if allowed, until the limit is full again; if refused, until the same hits could pass. */
  readonly resetSeconds?: number;
}

/** Present if a policy decided instead of the rules. */
export interface Degraded {
  /** `client`: no server gave a usable answer. `server`: the server could not reach its store. */
  readonly by: "client" | "server";
  /** The policy that decided instead. */
  readonly policy: string;
  /** From the client, the name of a gRPC status; from the server, a code of docs/errors.md. */
  readonly failure: string;
}

/** The answer to one check. */
export interface CheckDecision {
  readonly allowed: boolean;
  /** One per descriptor, in the order of the request; empty if the client itself had to decide. */
  readonly statuses: readonly DescriptorStatus[];
  /** `limit`, `remaining` and `resetSeconds` of the strictest status, as in the headers. Absent if no limit applied. */
  readonly limit?: ShownLimit;
  readonly remaining?: number;
  readonly resetSeconds?: number;
  /** Whole seconds until another try makes sense. Present if refused, unless this cost can never pass. */
  readonly retryAfterSeconds?: number;
  /** Headers for the caller's own response, as the service's RESPONSE_HEADERS sets them. */
  readonly headers: Readonly<Record<string, string>>;
  /** Why the call was refused, such as `token_bucket_exceeded`. */
  readonly reason?: string;
  /** Id of the rule that refused. */
  readonly rule?: string;
  /** Everything else that the service answered (its RESPONSE_DYNAMIC_METADATA). */
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly degraded?: Degraded;
}

/** The service's answer. */
export type Answer = Pick<CheckDecision, "allowed" | "statuses" | "headers" | "metadata">;

/** Makes the decision of an answer. */
export function decisionOf({ allowed, statuses, headers, metadata }: Answer): CheckDecision {
  const shown = strictest(statuses, allowed);
  const degraded = serverDegraded(metadata.degraded);
  const reason = metadata.reason ?? headers["X-RateLimit-Reason"];
  const { rule } = metadata;
  return {
    // Of limit, remaining and resetSeconds those that it has.
    ...shown,
    allowed,
    statuses,
    ...(allowed || metadata.can_never_pass === true ? {} : { retryAfterSeconds: retryAfterOf(headers, shown) }),
    headers,
    ...(typeof reason === "string" ? { reason } : {}),
    ...(typeof rule === "string" ? { rule } : {}),
    metadata,
    ...(degraded === undefined ? {} : { degraded }),
  };
}

// If refused, the longest wait; if allowed, the smallest remaining. A status over a limit in shadow mode does not
// count.
function strictest(statuses: readonly DescriptorStatus[], allowed: boolean): DescriptorStatus | undefined {
  const candidates = statuses.filter((status) => status.limit !== undefined && status.allowed === allowed);
  return candidates.reduce<DescriptorStatus | undefined>((best, next) => {
    if (best === undefined) return next;
    if (allowed) return (next.remaining ?? 0) < (best.remaining ?? 0) ? next : best;
    return (next.resetSeconds ?? 0) > (best.resetSeconds ?? 0) ? next : best;
  }, undefined);
}

// The header has the jitter that spreads callers; without the header, the wait of the status is used.
function retryAfterOf(headers: Readonly<Record<string, string>>, shown: DescriptorStatus | undefined): number {
  const fromHeader = Number(headers["Retry-After"] ?? Number.NaN);
  return Number.isInteger(fromHeader) && fromHeader >= 0 ? fromHeader : Math.max(1, shown?.resetSeconds ?? 1);
}

function serverDegraded(value: unknown): Degraded | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { policy, failure } = value as { readonly policy?: unknown; readonly failure?: unknown };
  return { by: "server", policy: String(policy ?? ""), failure: String(failure ?? "") };
}
