// Decides calls with limits that are leased (lease.ts): partly in memory, partly at the shared store.
//
// - A call is decided all or nothing, as by the shared store alone: takes that a lease has room for are paid first,
//   then the rest is asked in one group. A lease never refuses.
// - If the store refuses, or nobody waits for the answer any more, local payments are put back. Meanwhile they stay
//   paid.
// - Each take that goes to the store to pay is reported to the leases before (`asks`) and after (`learn`), whatever the
//   call's outcome. What they ask for in addition (`prefetch`) travels in its own group.
// - The call's own group is written only while its generation is the same; `SplitCall` keeps copies.

import type { Clock } from "../../base/clock.ts";
import { Sync } from "../../engine/domain/limit.ts";
import { type BucketMemory, NOBODY, type Store, type TakeListener } from "../../engine/domain/store.ts";
import {
  copyAnswer,
  copyQuestion,
  isOver,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../../engine/domain/take.ts";
import { costToReturn, endOfDescriptor, isGroupRefused } from "../../engine/domain/verdict.ts";
import { type Leases, MAINTENANCE_MS } from "./lease.ts";

/** Larger groups are assumed to name a bucket twice, which costs less than to compare all takes. */
const TAKES_COMPARED_MAX = 16;

/**
 * A store around a shared one that spends leases of limits with `sync: lease` in this process. lease.ts states how much
 * more may pass because of it. While the shared part of a call is under way, its local part has been paid.
 */
export class SyncStore implements Store, BucketMemory {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #leases: Leases;
  #timer: NodeJS.Timeout | undefined;
  readonly #idle: SplitCall[] = [];
  readonly #rest = new TakeGroup();
  /** For each take of the present group: whether a lease has answered it. */
  readonly #isLocal: boolean[] = [];

  /** `leases` are asked of the same store. */
  constructor(store: Store, leases: Leases, clock: Clock) {
    this.#store = store;
    this.#leases = leases;
    this.#clock = clock;
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    if (!hasLeased(group)) return this.#store.take(group, then);
    this.#timer ??= setInterval(() => this.#leases.maintain(this.#clock.nowUs()), MAINTENANCE_MS).unref();
    const nowUs = this.#clock.nowUs();
    if (this.#takeLocally(group, nowUs)) {
      if (namesBucketTwice(group)) this.#describe(group, nowUs);
      group.verdict = Verdict.allowed;
      group.source = Source.lease;
      return true;
    }
    const call = this.#split(group, then, nowUs);
    const { remote } = call;
    for (let i = 0; i < remote.size; i++)
      if (mayLease(remote.takes[i] as Take)) this.#leases.asks(remote.takes[i] as Take);
    const isSettled = this.#store.take(remote, call);
    for (let i = 0; i < remote.size && remote.verdict !== Verdict.failed; i++)
      if (mayLease(remote.takes[i] as Take)) this.#leases.prefetch(remote.takes[i] as Take, nowUs);
    if (isSettled) this.#finish(call);
    return isSettled;
  }

  giveBack(group: TakeGroup): void {
    const nowUs = this.#clock.nowUs();
    this.#rest.reset();
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.paid && costToReturn(take) > 0) this.#putBack(take, nowUs);
    }
    if (this.#rest.size > 0) this.#store.giveBack(this.#rest);
  }

  forget(bucketKey: string): void {
    this.#leases.forget(bucketKey);
  }

  /** Gives leases back, then closes the shared store. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#leases.close();
    await this.#store.close();
  }

  readonly #finishLater = (call: SplitCall): void => {
    const { group, generation, next } = call;
    this.#finish(call);
    if (group !== undefined) next.answered(group, generation);
  };

  /** Pays what leases have room for. True if that is all of the call. */
  #takeLocally(group: TakeGroup, nowUs: number): boolean {
    let isAll = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const isLocal = isLeased(take) && this.#leases.take(take, nowUs);
      this.#isLocal[i] = isLocal;
      if (!isLocal) isAll = false;
    }
    return isAll;
  }

  /** Puts a payment back into its lease, or adds it to `#rest`. */
  #putBack(take: Take, nowUs: number): void {
    if (!isLeased(take) || !this.#leases.giveBack(take, nowUs)) copyAnswer(take, copyQuestion(take, this.#rest));
  }

  /** Writes the state that payments put back, or several takes of one bucket, have left. */
  #describe(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) this.#leases.describe(group.takes[i] as Take, nowUs);
  }

  #split(group: TakeGroup, then: TakeListener, nowUs: number): SplitCall {
    const call = this.#idle.pop() ?? new SplitCall(this.#finishLater);
    call.begin(group, then, nowUs);
    let end = 0;
    for (let start = 0; start < group.size; start = end) {
      end = endOfDescriptor(group, start);
      let isAllLocal = true;
      for (let i = start; i < end; i++) {
        const isLocal = this.#isLocal[i] === true;
        call.add(group.takes[i] as Take, isLocal);
        if (!isLocal) isAllLocal = false;
      }
      // The store does not see this descriptor, which has room.
      if (isAllLocal && (group.takes[start] as Take).kind === Kind.quota) call.remote.hasSpareQuota = true;
    }
    return call;
  }

  /** Joins both parts when the shared one is decided, and writes the call's own group, unless that has been reused. */
  #finish(call: SplitCall): void {
    const nowUs = this.#clock.nowUs();
    const { remote, local, group, sentUs } = call;
    // An answer of a denial memory is up to a second old: good for refusing, not for granting.
    for (let i = 0; i < remote.size && remote.source === Source.store; i++) {
      const asked = remote.takes[i] as Take;
      if (isLeased(asked) && asked.outcome !== Outcome.unanswered) this.#leases.learn(asked, sentUs, nowUs);
    }
    const isCurrent = group !== undefined && group.generation === call.generation;
    const isRefused = !isCurrent || remote.verdict === Verdict.refused;
    let hasChanged = namesBucketTwice(local);
    this.#rest.reset();
    for (let i = 0; i < local.size; i++) {
      const take = local.takes[i] as Take;
      if (!take.paid || !(isRefused || isOverIn(remote, take.descriptor))) continue;
      this.#putBack(take, nowUs);
      take.paid = false;
      take.paidAtUs = 0;
      hasChanged = true;
    }
    if (this.#rest.size > 0) this.#store.giveBack(this.#rest);
    if (hasChanged) this.#describe(local, nowUs);
    if (isCurrent) writeAnswer(call, group);
    // No caller waits for the answer any more, so its payments are given back.
    else this.#store.giveBack(remote);
    call.end();
    this.#idle.push(call);
  }
}

/**
 * The two parts of a call, each in a group of its own, because the call's may be reused before the store answers.
 * Pooled.
 */
class SplitCall implements TakeListener {
  readonly #onAnswered: (call: SplitCall) => void;
  readonly remote = new TakeGroup();
  readonly local = new TakeGroup();
  group: TakeGroup | undefined;
  generation = 0;
  next: TakeListener = NOBODY;
  sentUs = 0;
  /** The copy of each take of the call, in `remote` or `local`. */
  readonly copies: Take[] = [];

  /** `onAnswered` is called when the store decides the shared part in a later turn. */
  constructor(onAnswered: (call: SplitCall) => void) {
    this.#onAnswered = onAnswered;
  }

  begin(group: TakeGroup, next: TakeListener, sentUs: number): void {
    this.group = group;
    this.generation = group.generation;
    this.next = next;
    this.sentUs = sentUs;
    this.copies.length = 0;
    this.remote.deadlineUs = group.deadlineUs;
    this.remote.hasSpareQuota = group.hasSpareQuota;
  }

  /** Empties the call for its pool. A late answer to its groups finds other generations and is ignored. */
  end(): void {
    this.group = undefined;
    this.remote.reset();
    this.local.reset();
  }

  /** Adds a take, with its answer if a lease has answered it. */
  add(take: Take, isLocal: boolean): void {
    const copy = copyQuestion(take, isLocal ? this.local : this.remote);
    this.copies.push(copy);
    if (isLocal) copyAnswer(take, copy);
  }

  answered(): void {
    this.#onAnswered(this);
  }
}

function hasLeased(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if (isLeased(group.takes[i] as Take)) return true;
  return false;
}

function isLeased({ limit }: Take): boolean {
  return limit.policy.sync === Sync.lease;
}

/** Whether tokens may be leased behind the take. */
function mayLease(take: Take): boolean {
  return take.mode === Mode.pay && isLeased(take);
}

/** Whether two takes have one bucket: the first was answered before the second was paid. */
function namesBucketTwice(group: TakeGroup): boolean {
  if (group.size > TAKES_COMPARED_MAX) return true;
  for (let i = 1; i < group.size; i++) {
    const { keyHash } = group.takes[i] as Take;
    for (let j = 0; j < i; j++) if ((group.takes[j] as Take).keyHash === keyHash) return true;
  }
  return false;
}

function isOverIn(remote: TakeGroup, descriptor: number): boolean {
  for (let i = 0; i < remote.size; i++) {
    const take = remote.takes[i] as Take;
    if (take.descriptor === descriptor && isOver(take)) return true;
  }
  return false;
}

function writeAnswer({ remote, copies }: SplitCall, group: TakeGroup): void {
  group.source = remote.source;
  for (let i = 0; i < group.size; i++) copyAnswer(copies[i] as Take, group.takes[i] as Take);
  const hasFailed = remote.verdict === Verdict.failed;
  group.verdict = isGroupRefused(group) ? Verdict.refused : hasFailed ? Verdict.failed : Verdict.allowed;
  group.failure = group.verdict === Verdict.failed ? remote.failure : undefined;
}
