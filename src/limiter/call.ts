// One call on its way through the limiter. Pooled: everything a call needs is in here and used again.

import { Decision } from "../core/decision.ts";
import type { StoreError } from "../core/errors.ts";
import type { OnStoreFailure } from "../core/limit.ts";
import { LimitRequest } from "../core/request.ts";
import { type Take, TakeGroup } from "../core/take.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { SettleListener } from "../stores/store.ts";

/** Why a call got no decision at all. */
export type CallFailure =
  | { readonly kind: "no-rules" }
  | { readonly kind: "store"; readonly error: StoreError }
  | { readonly kind: "internal"; readonly error: unknown };

/** Who goes on with a call that the store settled later. */
export interface CallFinisher {
  finish(call: LimitCall): void;
}

/** Request, takes and decision of one call. `finisher` is told when the store has settled it later. */
export class LimitCall implements SettleListener {
  readonly request = new LimitRequest();
  readonly group = new TakeGroup();
  readonly decision = new Decision();

  /** Rules of the request's domain; undefined if the domain is unknown. */
  domain: DomainRules | undefined;
  /** The rule of each descriptor, if it has one that was not replaced. */
  readonly rules: (Rule | undefined)[] = [];
  /** Indexes of the descriptors that no rule limits or lets pass by name, in a domain that has rules. */
  readonly unmatched: number[] = [];
  /** Index of each descriptor's first take in the group; one element more than there are descriptors. */
  readonly firstTakes: number[] = [];
  globalTake: Take | undefined;
  /** The take that governs the reply as a whole; undefined if no limit was found. */
  governing: Take | undefined;
  /** What was done in place of the store's answer; undefined if the store answered. */
  policy: OnStoreFailure | undefined;
  storeFailure: StoreError | undefined;
  /** True if SHADOW_MODE or a shadow rule let pass what would have been refused. */
  wasShadowed = false;
  failure: CallFailure | undefined;
  startedUs = 0;

  readonly #finisher: CallFinisher;

  constructor(finisher: CallFinisher) {
    this.#finisher = finisher;
  }

  /** Store contract: a late answer belongs to this call only if the generation is still the same. */
  settled(group: TakeGroup, generation: number): void {
    if (group.generation === generation) this.#finisher.finish(this);
  }

  /** Readies the call for its next request; answers that are still under way will find another generation. */
  reset(): void {
    this.request.reset();
    this.group.reset();
    this.decision.reset();
    this.domain = undefined;
    this.rules.length = 0;
    this.unmatched.length = 0;
    this.firstTakes.length = 0;
    this.globalTake = undefined;
    this.governing = undefined;
    this.policy = undefined;
    this.storeFailure = undefined;
    this.wasShadowed = false;
    this.failure = undefined;
  }
}
