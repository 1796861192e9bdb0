// Decides takes that the store left unanswered: each take by the on_store_failure of its limit, then the call by all its takes, as
// without a failure. Answers of the store stay valid, and its payments stand if the call passes.

import type { Store } from "../../stores/store.ts";
import { MICROS_PER_SECOND } from "../base/units.ts";
import { OnStoreFailure } from "../domain/limit.ts";
import {
  copyAnswer,
  copyQuestion,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../domain/take.ts";
import { canRefuseCall, collectReturns, isGroupRefused, Returns } from "../domain/verdict.ts";
import type { LocalFallback } from "./local-fallback.ts";

/** The wait that `deny` tells the caller. Nobody knows how long the store will be away. */
const DENIED_WAIT_US = MICROS_PER_SECOND;

/** Decides calls with unanswered takes. */
export class FailurePolicy {
  readonly #store: Store;
  readonly #fallback: LocalFallback;
  readonly #returned = new TakeGroup();
  readonly #toStore = new TakeGroup();
  readonly #toFallback = new TakeGroup();

  constructor(store: Store, fallback: LocalFallback) {
    this.#store = store;
    this.#fallback = fallback;
  }

  /**
   * Decides a failed group: afterwards it is allowed, refused, or still failed if the call must end with an error. If any take
   * refuses (by the store's answer, by `deny` or by `local`), the call is refused; else one `error` ends it. Shadow takes have no say.
   * Reports, refunds and settlements refuse nothing. Returns the strictest policy of the unanswered takes that had its way.
   */
  decide(group: TakeGroup, nowUs: number): OnStoreFailure {
    const policy = denyUnanswered(group);
    let isRefused = isGroupRefused(group);
    if (!isRefused && hasUnanswered(group, OnStoreFailure.local)) {
      this.#fallback.settle(group, nowUs);
      isRefused = isGroupRefused(group);
    }
    const endsWithError = !isRefused && hasUnanswered(group, OnStoreFailure.error);
    if (!endsWithError) group.verdict = isRefused ? Verdict.refused : Verdict.allowed;
    this.#collectReturns(group, endsWithError ? Returns.unheard : isRefused ? Returns.refused : Returns.over);
    group.source = Source.local;
    return endsWithError ? OnStoreFailure.error : policy;
  }

  /** Returns the payments that the group made to pass; post-paid hits stand. */
  giveBack(group: TakeGroup): void {
    this.#collectReturns(group, Returns.refused);
  }

  #collectReturns(group: TakeGroup, which: Returns): void {
    this.#returned.reset();
    this.#toStore.reset();
    this.#toFallback.reset();
    collectReturns(group, which, this.#returned);
    for (let i = 0; i < this.#returned.size; i++) {
      const take = this.#returned.takes[i] as Take;
      copyAnswer(take, copyQuestion(take, take.byPolicy ? this.#toFallback : this.#toStore));
    }
    if (this.#toStore.size > 0) this.#store.giveBack(this.#toStore);
    if (this.#toFallback.size > 0) this.#fallback.giveBack(this.#toFallback);
  }
}

/** Refuses the unanswered takes of limits with `deny`. Returns the strictest policy of unanswered takes, `error` last. */
function denyUnanswered(group: TakeGroup): OnStoreFailure {
  let policy: OnStoreFailure | undefined;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered) continue;
    const {
      policy: { onStoreFailure },
    } = take.limit;
    if (onStoreFailure === OnStoreFailure.error) continue;
    if (policy === undefined || onStoreFailure > policy) policy = onStoreFailure;
    if (onStoreFailure === OnStoreFailure.deny && canRefuseCall(take)) deny(take);
  }
  return policy ?? OnStoreFailure.error;
}

function deny(take: Take): void {
  take.outcome = Outcome.over;
  take.byPolicy = true;
  take.remaining = 0;
  take.waitUs = DENIED_WAIT_US;
}

/** Whether any unanswered take has this policy. For `error` shadow takes do not count. */
function hasUnanswered(group: TakeGroup, policy: OnStoreFailure): boolean {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered || take.limit.policy.onStoreFailure !== policy) continue;
    if (policy === OnStoreFailure.local || take.kind !== Kind.shadow) return true;
  }
  return false;
}

/**
 * Whether a report or refund of a call that ends with an error may stand, so that the same call sent again would count it twice. A
 * settlement with an id counts once.
 */
export function mayCountTwice(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) {
    const { mode, holdId, outcome, paid } = group.takes[i] as Take;
    const isReport = mode === Mode.postPaid || mode === Mode.refund || (mode === Mode.settle && holdId === "");
    if (isReport && (outcome === Outcome.unanswered ? group.failure?.isOutcomeUnknown : paid)) return true;
  }
  return false;
}
