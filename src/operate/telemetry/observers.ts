// Counts what limiter, stores and the gRPC edge report, as plain numbers that metrics read. Also logs troubles: each
// kind at most once a second, and less often while it lasts.

import { countsOf, sumOf } from "../../base/counts.ts";
import { REQUEST_ERROR_CODES, type RequestErrorCode, STORE_ERROR_CODES, type StoreError } from "../../base/errors.ts";
import { ON_STORE_FAILURE_NAMES, OnStoreFailure } from "../../engine/domain/limit.ts";
import {
  canRefuseCall,
  Kind,
  Outcome,
  type Source,
  type Take,
  type TakeGroup,
  Verdict,
} from "../../engine/domain/take.ts";
import type { LimiterObserver, MissingForReports } from "../../engine/limiter/limiter-observer.ts";
import { UNSERVED_REASONS, type UnservedReason } from "../../grpc/unary.ts";
import type { StoreObserver } from "../../stores/store-observer.ts";
import { DomainBook } from "./domain-book.ts";
import { LatencyHistogram } from "./latency-histogram.ts";
import type { RateLimitedLog } from "./rate-limited-log.ts";

/** Names of Source in metrics, by Source. */
export const SOURCE_NAMES = ["store", "denial_memory", "lease", "local"] as const;
export const BREAKER_STATES = ["closed", "open", "probing"] as const;
type BreakerState = (typeof BREAKER_STATES)[number];
/** Counters whose growth is logged. */
type CountedTrouble = "damagedBuckets" | "evictedBuckets" | "lateGroups" | "unknownOutcomes" | "notGivenBack";

type StoreErrorCounts = Record<StoreError["code"], number>;

/** Most limits that are noted between two reads. */
const UNDECIDED_LIMITS_MAX = 100;

/** What is logged of hits that look like reports, by what their limit lacks. */
const REPORTS = {
  post_paid:
    "hits beyond the limit on a rule that is also peeked at: if they are reported afterwards, the rule needs post_paid: true",
  charge_given_hits:
    "a small cost passes and a large one is refused, in turns: if the large ones are reported afterwards, the rule needs charge_given_hits: true",
  asking:
    "hits are reported afterwards, beyond the limit of a post_paid rule that no call peeks at, so it never refuses: ask with hits 0 before requests, or use charge_given_hits: true",
} as const satisfies Readonly<Record<MissingForReports, string>>;

/** What is logged of calls that got UNIMPLEMENTED. */
const UNSERVED = {
  compressed: "calls got UNIMPLEMENTED: their messages are compressed; turn compression off in the client",
  rls_v2: "calls got UNIMPLEMENTED: they speak Envoy's rate limit protocol v2; set transport_api_version: V3",
  rls_lyft:
    "calls got UNIMPLEMENTED: they speak Lyft's old protocol (pb.lyft.ratelimit); use envoy.service.ratelimit.v3",
  unknown_method: "calls got UNIMPLEMENTED: this port does not serve their method",
} as const satisfies Readonly<Record<UnservedReason, string>>;
const PATH_CHARS_MAX = 200;

/** Counters of decisions and calls. */
export class CallCounts implements LimiterObserver {
  /** Calls that on_store_failure decided, fully or in part. */
  degradedCalls = 0;
  /** Descriptors of calls that name a domain without rules. */
  domainsNotFound = 0;
  callsWithoutRules = 0;
  globalShadows = 0;
  lateReports = 0;
  cappedHits = 0;
  internalErrors = 0;
  overloadedCalls = 0;
  readonly responseTime = new LatencyHistogram();
  /** Allowed and refused calls, by Source. */
  readonly allowed: number[] = SOURCE_NAMES.map(() => 0);
  readonly refused: number[] = SOURCE_NAMES.map(() => 0);
  /** Degraded calls by OnStoreFailure, then by the store's error code. */
  readonly degradedByPolicy: readonly StoreErrorCounts[] = ON_STORE_FAILURE_NAMES.map(() =>
    countsOf(STORE_ERROR_CODES),
  );
  /** Calls that passed although a limit that could have refused them got no answer, by the store's error code. */
  readonly passed = countsOf(STORE_ERROR_CODES);
  /** Ids (one-byte) of limits without an answer in calls that nothing refused. The reader clears them. */
  readonly undecidedLimits = new Set<string>();
  readonly requestErrors = countsOf(REQUEST_ERROR_CODES);
  readonly unserved = countsOf(UNSERVED_REASONS);
  /** Descriptors that met no rule, by domain; domains without rules are included. */
  readonly domains = new DomainBook();
  readonly #log: RateLimitedLog;

  constructor(log: RateLimitedLog) {
    this.#log = log;
  }

  decided(refused: boolean, source: Source, elapsedUs: number): void {
    const counts = refused ? this.refused : this.allowed;
    counts[source] = (counts[source] as number) + 1;
    this.responseTime.observe(elapsedUs);
  }

  degraded(policy: OnStoreFailure, failure: StoreError, { takes, size, verdict }: TakeGroup): void {
    this.degradedCalls++;
    let isUndecided = false;
    for (let i = 0; i < size && verdict !== Verdict.refused; i++) {
      const take = takes[i] as Take;
      if (take.outcome !== Outcome.unanswered || take.kind === Kind.shadow || !canRefuseCall(take)) continue;
      isUndecided = true;
      if (this.undecidedLimits.size < UNDECIDED_LIMITS_MAX) this.undecidedLimits.add(take.limit.names.id);
    }
    if (isUndecided && verdict === Verdict.allowed) this.passed[failure.code]++;
    (this.degradedByPolicy[policy] as StoreErrorCounts)[failure.code]++;
    this.#log.warn(`degraded ${policy} ${failure.code}`, "answered without the store", () => ({
      policy: ON_STORE_FAILURE_NAMES[policy],
      reason: failure.code,
      cause: failure.message,
    }));
  }

  domainNotFound(domain: string, descriptors: number): void {
    this.domainsNotFound += descriptors;
    this.domains.countUnknown(domain, descriptors);
  }

  withoutRules(): void {
    this.callsWithoutRules++;
  }

  globalShadow(): void {
    this.globalShadows++;
  }

  suspectedReport(limitId: string, missing: MissingForReports): void {
    this.lateReports++;
    this.#log.warn(`report ${missing}`, REPORTS[missing], () => ({ limit: limitId }));
  }

  debtCapped(limitId: string, hits: number): void {
    this.cappedHits += hits;
    this.#log.warn("debt capped", "post-paid hits beyond debt_max were not recorded", () => ({ limit: limitId, hits }));
  }

  /** Calls that passed without a decision, or where the proxy lets failed calls pass, by cause. */
  undecided(): [cause: string, calls: number][] {
    const codes = (counts: StoreErrorCounts, policy: string) =>
      Object.entries(counts).map(([code, calls]): [string, number] => [`${code}, on_store_failure: ${policy}`, calls]);
    return [
      ...codes(this.passed, "allow"),
      ...codes(this.degradedByPolicy[OnStoreFailure.error] as StoreErrorCounts, "error"),
      ["no rules", this.callsWithoutRules],
      ["more calls than IN_FLIGHT_MAX", this.overloadedCalls],
      ["a fault of Headgate", this.internalErrors],
    ];
  }

  /** A request could not be read. */
  requestFailed(code: RequestErrorCode): void {
    this.requestErrors[code]++;
  }

  /** A call was rejected because as many as allowed were under way. */
  overloaded(): void {
    this.overloadedCalls++;
    this.#log.warn("overloaded", "calls were rejected: more than IN_FLIGHT_MAX under way, or 1,000 to /json");
  }

  /** A call got UNIMPLEMENTED. */
  unservedCall(reason: UnservedReason, path: string): void {
    this.unserved[reason]++;
    this.#log.warn(`unserved ${reason}`, UNSERVED[reason], () => ({ path: path.slice(0, PATH_CHARS_MAX) }));
  }

  /** A call failed because of an internal error. */
  internalFailed(error: unknown): void {
    this.internalErrors++;
    this.#log.error("internal error", "a call failed because of a bug in Headgate", () => ({ err: error }));
  }

  /** Calls, whatever their outcome. */
  total(): number {
    return this.responseTime.count() + this.storeErrors() + this.serviceErrors();
  }

  /** Calls without a decision because the store failed. */
  storeErrors(): number {
    return sumOf(this.degradedByPolicy[OnStoreFailure.error] as StoreErrorCounts);
  }

  /** Calls without a decision for any other reason. */
  serviceErrors(): number {
    return sumOf(this.requestErrors) + this.callsWithoutRules + this.internalErrors + this.overloadedCalls;
  }
}

/** Counters of what stores report. */
export class StoreCounts implements StoreObserver {
  takes = 0;
  repeats = 0;
  redirections = 0;
  damagedBuckets = 0;
  evictedBuckets = 0;
  lateGroups = 0;
  unknownOutcomes = 0;
  givenBack = 0;
  notGivenBack = 0;
  readonly roundTrip = new LatencyHistogram();
  readonly failures = countsOf(STORE_ERROR_CODES);
  readonly breakerChanges = countsOf(BREAKER_STATES);
  /** The worst of all servers. */
  breakerState: BreakerState = "closed";
  /** Breakers that are not closed, by the name of their server. */
  readonly serverBreakers = new Map<string, BreakerState>();
  readonly #log: RateLimitedLog;

  constructor(log: RateLimitedLog) {
    this.#log = log;
  }

  answered(elapsedUs: number, takes: number): void {
    this.roundTrip.observe(elapsedUs);
    this.takes += takes;
  }

  repeated(): void {
    this.repeats++;
  }

  redirected(): void {
    this.redirections++;
  }

  failed(error: StoreError): void {
    this.failures[error.code]++;
    this.#log.warn(`store ${error.code}`, "the store failed calls", () => ({
      code: error.code,
      reason: error.message,
      ...(error.cause instanceof Error ? { cause: error.cause.message } : {}),
    }));
  }

  damaged(buckets: number): void {
    this.#count("damagedBuckets", buckets, "buckets", "damaged buckets were reset");
  }

  evicted(buckets: number): void {
    this.#count("evictedBuckets", buckets, "buckets", "buckets were dropped to stay within BUCKETS_MAX");
  }

  loopLate(calls: number): void {
    this.#count("lateGroups", calls, "calls", "this process was too busy to read the store's answers in time");
  }

  outcomeUnknown(calls: number): void {
    this.#count(
      "unknownOutcomes",
      calls,
      "calls",
      "replies from the store were lost; their calls may have been charged",
    );
  }

  gaveBack(takes: number): void {
    this.givenBack += takes;
  }

  keptPaid(takes: number): void {
    this.#count("notGivenBack", takes, "takes", "payments were not given back: the store did not get the request");
  }

  /** Adds to a counter, and logs how much of what. */
  #count(counter: CountedTrouble, by: number, what: string, message: string): void {
    this[counter] += by;
    this.#log.warn(counter, message, () => ({ [what]: by }));
  }

  breakerChanged(server: string, state: BreakerState): void {
    if (state === "closed") this.serverBreakers.delete(server);
    else this.serverBreakers.set(server, state);
    const states = [...this.serverBreakers.values()];
    const worst = states.includes("open") ? "open" : (states[0] ?? "closed");
    if (worst === this.breakerState) return;
    this.breakerState = worst;
    this.breakerChanges[worst]++;
    const message = {
      closed: "breaker closed: the store answers again",
      open: "breaker open: calls don't wait for the store",
      probing: "breaker probing the store",
    }[worst];
    if (worst === "probing") this.#log.info("breaker probing", message);
    else this.#log.warn(`breaker ${worst}`, message);
  }
}
