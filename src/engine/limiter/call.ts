// One call on its way through the limiter, with its answer before that is encoded for a protocol. Pooled with
// everything that a call needs.

import type { StoreError } from "../../base/errors.ts";
import type { Limit, OnStoreFailure } from "../domain/limit.ts";
import { LimitRequest } from "../domain/request.ts";
import type { TakeListener } from "../domain/store.ts";
import { type Take, TakeGroup } from "../domain/take.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";

/** Why a call got no decision at all. */
export type CallFailure =
  | { readonly kind: "no-rules" }
  | { readonly kind: "store"; readonly error: StoreError; readonly mayCountTwice: boolean };

/** What a limit at run time makes of the rule of one descriptor (runtime-limits.ts). */
export interface AppliedLimit {
  readonly kind: "amounts" | "use" | "block" | "exempt" | "none";
  /** A block that only counts. */
  readonly isShadow: boolean;
  /** An exemption from the global limit, too. */
  readonly liftsGlobal: boolean;
  /** When it ends, in microseconds of the store's clock; 0: never. */
  readonly untilUs: number;
  /** The rule that `rule` and `limits` replace. */
  readonly of: Rule;
  readonly rule: Rule;
  readonly limits: readonly Limit[];
  /**
   * The limit that a block shows; undefined for other kinds, and if the rule has no limits by now, so that the block
   * does nothing.
   */
  readonly blocked: Limit | undefined;
}

/** The limits at run time of callers. */
export interface CallerLimits {
  /** Finds those of a call's descriptors, for the other methods. Returns whether there are any. */
  find(request: LimitRequest, rules: DomainRules): boolean;
  /** Whether a descriptor is blocked if a rule with limits matches it. */
  mayBlock(index: number): boolean;
  /** What a descriptor's makes of `rule`, which matches it; undefined if it has none. */
  of(index: number, rule: Rule): AppliedLimit | undefined;
  /** When they were found, in microseconds of the store's clock; may be 0 if none of them ends. */
  readonly foundUs: number;
}

/** Ends calls that were not decided at once: once each, by one of the two. */
export interface CallFinisher {
  /** The call has its decision, or its failure. */
  finish(call: LimitCall): void;
  /** It could not be concluded: a mistake of ours. */
  fail(call: LimitCall, error: unknown): void;
}

/** For calls that are always decided at once. */
export const NO_FINISHER: CallFinisher = {
  finish: () => undefined,
  fail: (_, error) => {
    throw error;
  },
};

/** Counts takes of a call that are not, or not only, counted as hits. */
export interface CallTally {
  /** Counts what became of an answered or unanswered take. True: it is no hit. */
  tally(call: LimitCall, take: Take): boolean;
}

/** Concludes calls: the limiter that decides them. */
export interface CallConcluder {
  concludeLater(call: LimitCall): void;
}

/**
 * Request, takes and decision of one call. If the store decides it later, its limiter concludes it, and its finisher
 * ends it.
 */
export class LimitCall implements TakeListener {
  readonly request = new LimitRequest();
  readonly group = new TakeGroup();
  readonly decision = new Decision();

  /** Rules of the request's domain; undefined if the domain is unknown. */
  domain: DomainRules | undefined;
  /** The rule of each descriptor; undefined if it has none, or if none of the rule's limits got a take. */
  readonly rules: (Rule | undefined)[] = [];
  /** Indexes of the descriptors that met no rule, limited or unlimited, in a domain that has rules. */
  readonly unmatched: number[] = [];
  /**
   * Index of each descriptor's first take in the group, and as one more element the index after the last descriptor's
   * takes. Empty for an unknown domain.
   */
  readonly firstTakes: number[] = [];
  globalTake: Take | undefined;
  /** Undefined: all its takes are hits. */
  tally: CallTally | undefined;
  /** The limit at run time of each descriptor; empty if the domain has none. */
  readonly runtime: (AppliedLimit | undefined)[] = [];
  /**
   * Why no limit is asked: a descriptor is blocked, or an entry is missing that the domain refuses calls without
   * (refusals.ts).
   */
  refusal: "blocked" | "incomplete" | undefined;
  /** The key of an entry that the domain requires and no descriptor has; undefined if the call is complete. */
  missing: string | undefined;
  /** The take whose limit the headers show; undefined if no limit was found. */
  governing: Take | undefined;
  /** The strictest failure policy that had a part in the decision; undefined if the store answered. */
  policy: OnStoreFailure | undefined;
  storeFailure: StoreError | undefined;
  /** True if the call passed although a take of shadow mode (SHADOW_MODE or a shadow rule) was over. */
  wasShadowed = false;
  failure: CallFailure | undefined;
  startedUs = 0;

  readonly finisher: CallFinisher;
  /** The limiter that asked the store. */
  concluder: CallConcluder | undefined;

  constructor(finisher: CallFinisher) {
    this.finisher = finisher;
  }

  /** Called by the store. A late answer belongs to this call only if the generation is still the same. */
  answered(group: TakeGroup, generation: number): void {
    if (group.generation === generation) this.concluder?.concludeLater(this);
  }

  /** Resets the call for its next request. Answers that are still under way will find another generation. */
  reset(): void {
    this.request.reset();
    this.group.reset();
    this.decision.reset();
    this.domain = undefined;
    this.rules.length = 0;
    this.unmatched.length = 0;
    this.firstTakes.length = 0;
    this.globalTake = undefined;
    this.tally = undefined;
    if (this.runtime.length > 0) this.runtime.length = 0;
    this.refusal = undefined;
    this.missing = undefined;
    this.governing = undefined;
    this.policy = undefined;
    this.storeFailure = undefined;
    this.wasShadowed = false;
    this.failure = undefined;
  }
}

/** The answer for one descriptor. */
export class Status {
  overLimit = false;
  /** Sent as `current_limit`; undefined: none is sent. */
  limit: Limit | undefined;
  /** Cost that would still pass; sent as at most 2^32 - 1. */
  remaining = 0;
  /** Whether `duration_until_reset` is sent. */
  hasReset = false;
  /** `duration_until_reset` in whole seconds. */
  resetSeconds = 0;

  reset(): void {
    this.overLimit = false;
    this.limit = undefined;
    this.remaining = 0;
    this.hasReset = false;
    this.resetSeconds = 0;
  }
}

/** A response header to add. */
class Header {
  key = "";
  value = "";
}

/** A whole answer: one status per descriptor in order, headers, metadata. */
export class Decision {
  overLimit = false;
  statusCount = 0;
  readonly statuses: Status[] = [];
  headerCount = 0;
  readonly headers: Header[] = [];
  /**
   * Sent as dynamic metadata: a JSON-like object. If it is frozen, its encoded bytes may be reused (grpc/rls/codec.ts).
   */
  metadata: Readonly<Record<string, unknown>> | undefined;

  addStatus(): Status {
    let status = this.statuses[this.statusCount];
    if (status === undefined) {
      status = new Status();
      this.statuses[this.statusCount] = status;
    }
    this.statusCount++;
    status.reset();
    return status;
  }

  addHeader(key: string, value: string): void {
    let header = this.headers[this.headerCount];
    if (header === undefined) {
      header = new Header();
      this.headers[this.headerCount] = header;
    }
    this.headerCount++;
    header.key = key;
    header.value = value;
  }

  reset(): void {
    this.overLimit = false;
    this.statusCount = 0;
    this.headerCount = 0;
    this.metadata = undefined;
  }
}
