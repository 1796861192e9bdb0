// Decides takes that the store left unanswered: each take by its own limit's on_store_failure, then the call
// by all its takes, as without a failure. What the store did answer stands, and what it was paid stands if the call passes.

import { OnStoreFailure } from "../core/limit.ts";
import { copyAnswer, copyQuestion, Kind, Outcome, Source, type Take, TakeGroup, Verdict } from "../core/take.ts";
import { MICROS_PER_SECOND } from "../core/units.ts";
import { canRefuseCall, collectReturns, isGroupRefused, Returns } from "../core/verdict.ts";
import type { Store } from "../stores/store.ts";
import type { LocalFallback } from "./local-fallback.ts";

/** What a caller is told to wait who was refused without an answer: nobody knows how long the store is away. */
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
   * Decides a failed group: it is allowed or refused then, or still failed if the call has to end with an error. A limit
   * that refuses, by an answer, by `deny` or by `local`, refuses whatever the others would make of the call; else one
   * `error` ends it. Shadow limits do neither, nor do takes that ask for no admission. Returns the strictest policy that
   * spoke.
   */
  decide(group: TakeGroup, nowUs: number): OnStoreFailure {
    let policy = denyUnanswered(group);
    let isRefused = isGroupRefused(group);
    if (!isRefused && hasUnanswered(group, OnStoreFailure.local)) {
      this.#fallback.settle(group, nowUs);
      isRefused = isGroupRefused(group);
    }
    const endsWithError = !isRefused && hasUnanswered(group, OnStoreFailure.error);
    if (endsWithError) policy = OnStoreFailure.error;
    else group.verdict = isRefused ? Verdict.refused : Verdict.allowed;
    this.#collectReturns(group, endsWithError ? Returns.unheard : isRefused ? Returns.refused : Returns.over);
    group.source = Source.local;
    return policy;
  }

  /** Gives back what the takes of the group were paid to pass. */
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

/** Refuses the unanswered takes of limits that say deny. The strictest of the policies but error that decide takes of the group. */
function denyUnanswered(group: TakeGroup): OnStoreFailure {
  let policy: OnStoreFailure = OnStoreFailure.allow;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered || !canRefuseCall(take)) continue;
    const { onStoreFailure } = take.limit;
    if (onStoreFailure === OnStoreFailure.error) continue;
    if (onStoreFailure > policy) policy = onStoreFailure;
    if (onStoreFailure === OnStoreFailure.deny) deny(take);
  }
  return policy;
}

function deny(take: Take): void {
  take.outcome = Outcome.over;
  take.byPolicy = true;
  take.remaining = 0;
  take.waitUs = DENIED_WAIT_US;
}

/** Whether the policy has a say: of a take that is still unanswered; error only where the take could refuse its call. */
function hasUnanswered(group: TakeGroup, policy: OnStoreFailure): boolean {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered || take.limit.onStoreFailure !== policy) continue;
    if (policy === OnStoreFailure.local || (canRefuseCall(take) && take.kind !== Kind.shadow)) return true;
  }
  return false;
}
