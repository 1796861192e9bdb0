// Settles calls with limits that are counted partly in memory (lease, periodic, share), partly at the shared store.
//
// - A call is settled all or nothing, as by the shared store alone: local parts are judged and paid first, then the rest is asked in one group.
// - If the local part refuses the call, or a descriptor, its local payments are put back, and what is left for the store only peeks.
// - If the store refuses, or nobody waits for the answer any more, local payments are put back, too. Meanwhile they stay paid.
// - Each take that goes to the store to pay is told to its strategy before (`asks`) and after (`learn`), whatever became of the call. What the
//   strategy asks for beside it (`prefetch`) travels in a group of its own.
// - The call's own group is written only while its generation is the same; `SplitCall` keeps copies.

import type { Clock } from "../../engine/base/clock.ts";
import { Sync } from "../../engine/domain/limit.ts";
import {
  copyAnswer,
  copyQuestion,
  isOfCounter,
  isOver,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../../engine/domain/take.ts";
import { costToReturn, endOfDescriptor, isGroupRefused, VerdictFold } from "../../engine/domain/verdict.ts";
import { type BucketMemory, NOBODY, type SettleListener, type Store } from "../store.ts";
import type { SyncStrategy } from "./sync-strategy.ts";

interface SyncStoreOptions {
  readonly clock: Clock;
  readonly lease?: SyncStrategy;
  readonly periodic?: SyncStrategy;
  readonly share?: SyncStrategy;
}

/** Larger groups are assumed to name a bucket twice, which costs less than to compare all takes. */
const TAKES_COMPARED_MAX = 16;

/**
 * A store around a shared one that counts limits with a `sync` other than exact in this process. Each strategy states in its own file how much
 * more may pass because of it. Calls are settled all or nothing, as by the shared store alone. While the shared part of a call is under way,
 * its local part has been paid.
 */
export class SyncStore implements Store, BucketMemory {
  readonly #store: Store;
  readonly #clock: Clock;
  /** Strategies by Sync. */
  readonly #strategies: readonly (SyncStrategy | undefined)[];
  readonly #timers: (NodeJS.Timeout | undefined)[] = [];
  readonly #idle: SplitCall[] = [];
  readonly #rest = new TakeGroup();
  /** For each take of the present group: whether it was answered in memory, and whether its descriptor is over. */
  readonly #isLocal: boolean[] = [];
  readonly #isOver: boolean[] = [];
  readonly #fold = new VerdictFold();
  #isRefused = false;
  /** Whether payments of the present group were put back, or would have been. */
  #hasUndone = false;
  #remoteTakes = 0;
  #hasSpareQuota = false;

  constructor(store: Store, { clock, lease, periodic, share }: SyncStoreOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#strategies = [undefined, lease, periodic, share];
  }

  take(group: TakeGroup, then: SettleListener): boolean {
    if (!isShared(group)) return this.#store.take(group, then);
    const nowUs = this.#clock.nowUs();
    this.#takeLocally(group, nowUs);
    if (this.#remoteTakes === 0) {
      this.#conclude(group, this.#hasUndone || namesBucketTwice(group), nowUs);
      group.verdict = this.#isRefused ? Verdict.refused : Verdict.allowed;
      group.source = Source.leaseOrPeriodic;
      return true;
    }
    const call = this.#split(group, then, nowUs);
    const isSettled = this.#store.take(call.remote, call);
    for (let i = 0; i < call.remote.size && call.remote.verdict !== Verdict.failed; i++) {
      const asked = call.remote.takes[i] as Take;
      if (asked.mode === Mode.pay) this.#strategyOf(asked)?.prefetch?.(asked, nowUs);
    }
    if (isSettled) this.#finish(call);
    return isSettled;
  }

  giveBack(group: TakeGroup): void {
    const nowUs = this.#clock.nowUs();
    this.#rest.reset();
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.paid && costToReturn(take) > 0) this.#giveBackOne(take, nowUs);
    }
    if (this.#rest.size > 0) this.#store.giveBack(this.#rest);
  }

  /** Adds the take to `#rest` if the shared store was paid. */
  #giveBackOne(take: Take, nowUs: number): void {
    if (this.#strategyOf(take)?.giveBack(take, nowUs)) return;
    copyAnswer(take, copyQuestion(take, this.#rest));
  }

  forget(bucketKey: string): void {
    for (const strategy of this.#strategies) strategy?.forget?.(bucketKey);
  }

  /** Gives back and reports what the strategies hold, then closes the shared store. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    for (const strategy of this.#strategies) strategy?.close(this.#clock.nowUs());
    await this.#store.close();
  }

  readonly #finishLater = (call: SplitCall): void => {
    const { group, generation, next } = call;
    this.#finish(call);
    if (group !== undefined) next.settled(group, generation);
  };

  /** Judges and pays in memory what can be, and finds out whether that refuses the call. */
  #takeLocally(group: TakeGroup, nowUs: number): void {
    this.#fold.begin();
    this.#hasSpareQuota = group.hasSpareQuota;
    this.#remoteTakes = 0;
    this.#hasUndone = false;
    let end = 0;
    for (let start = 0; start < group.size; start = end) {
      end = endOfDescriptor(group, start);
      const { kind } = group.takes[start] as Take;
      const remoteBefore = this.#remoteTakes;
      let isDescriptorOver = false;
      for (let i = start; i < end; i++) if (this.#takeOne(group.takes[i] as Take, i, nowUs)) isDescriptorOver = true;
      for (let i = start; i < end; i++) this.#isOver[i] = isDescriptorOver;
      if (isDescriptorOver) this.#undo(group, start, end, nowUs);
      else if (kind === Kind.quota && this.#remoteTakes === remoteBefore) this.#hasSpareQuota = true;
      this.#fold.add(kind, isDescriptorOver);
    }
    this.#isRefused = this.#fold.refuses(group.hasSpareQuota);
    if (this.#isRefused) this.#undo(group, 0, group.size, nowUs);
  }

  #strategyOf({ limit }: Take): SyncStrategy | undefined {
    return this.#strategies[limit.policy.sync];
  }

  /** True if memory knows that the take is over. */
  #takeOne(take: Take, index: number, nowUs: number): boolean {
    const {
      policy: { sync },
    } = take.limit;
    const strategy = !isOfCounter(take.mode) ? this.#strategies[sync] : undefined;
    const isLocal = strategy?.take(take, nowUs) === true;
    this.#isLocal[index] = isLocal;
    if (!isLocal || strategy === undefined) {
      this.#remoteTakes++;
      return false;
    }
    this.#startMaintenance(strategy, sync);
    return isOver(take);
  }

  #startMaintenance(strategy: SyncStrategy, sync: Sync): void {
    const { maintenanceMs } = strategy;
    if (maintenanceMs === undefined) return;
    this.#timers[sync] ??= setInterval(() => strategy.maintain?.(this.#clock.nowUs()), maintenanceMs).unref();
  }

  #undo(group: TakeGroup, start: number, end: number, nowUs: number): void {
    this.#hasUndone = true;
    for (let i = start; i < end; i++) {
      const take = group.takes[i] as Take;
      if (this.#isLocal[i]) this.#putBack(take, nowUs);
    }
  }

  #putBack(take: Take, nowUs: number): void {
    if (!take.paid || take.mode !== Mode.pay) return;
    this.#rest.reset();
    this.#giveBackOne(take, nowUs);
    // Of a share the store was not paid. If this process has lost its part meanwhile, the payment stays.
    if (this.#rest.size > 0 && take.limit.policy.sync !== Sync.share) this.#store.giveBack(this.#rest);
    take.paid = false;
    take.paidAtUs = 0;
  }

  /** Applies refunds. If payments were put back, or takes share a bucket, writes the state that this has left. */
  #conclude(group: TakeGroup, hasChanged: boolean, nowUs: number): void {
    for (let refunds = 1; refunds >= (hasChanged ? 0 : 1); refunds--) {
      for (let i = 0; i < group.size; i++) {
        const take = group.takes[i] as Take;
        const isRefund = take.mode === Mode.refund;
        if (isRefund === (refunds === 1)) this.#strategyOf(take)?.conclude(take, nowUs);
      }
    }
  }

  #split(group: TakeGroup, then: SettleListener, nowUs: number): SplitCall {
    const call = this.#idle.pop() ?? new SplitCall(this.#finishLater);
    call.begin(group, then, nowUs);
    call.isRefused = this.#isRefused;
    call.remote.hasSpareQuota = this.#hasSpareQuota;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (this.#isLocal[i]) call.addLocal(take);
      else call.addRemote(take, this.#isRefused || this.#isOver[i] === true);
    }
    for (let i = 0; i < call.remote.size; i++) {
      const asked = call.remote.takes[i] as Take;
      const strategy = asked.mode === Mode.pay ? this.#strategyOf(asked) : undefined;
      if (strategy === undefined) continue;
      this.#startMaintenance(strategy, asked.limit.policy.sync);
      strategy.asks?.(asked, nowUs);
    }
    return call;
  }

  /** Joins both parts when the shared one is settled, and writes the call's own group, unless that has been reused. */
  #finish(call: SplitCall): void {
    const nowUs = this.#clock.nowUs();
    const { remote, local, group } = call;
    for (let i = 0; i < remote.size; i++) {
      const asked = remote.takes[i] as Take;
      // An answer of a denial memory is up to a second old: good for refusing, not for granting.
      const isFromStore = asked.outcome !== Outcome.unanswered && remote.source === Source.store;
      this.#strategyOf(asked)?.learn?.(asked, isFromStore ? asked : undefined, call.sentUs, nowUs);
    }
    const isCurrent = group !== undefined && group.generation === call.generation;
    let hasChanged = namesBucketTwice(local);
    const isRefused = call.isRefused || remote.verdict === Verdict.refused;
    for (let i = 0; i < local.size; i++) {
      const take = local.takes[i] as Take;
      const { descriptor } = take;
      if (take.paid && (isRefused || !isCurrent || isOverIn(call, descriptor))) {
        this.#putBack(take, nowUs);
        hasChanged = true;
      }
    }
    this.#conclude(local, hasChanged, nowUs);
    if (isCurrent) writeAnswer(call, group);
    // No caller waits for the answer any more, so its payments are given back.
    else this.#store.giveBack(remote);
    call.end();
    this.#idle.push(call);
  }
}

/** The two parts of a call, each in a group of its own, because the call's may be reused before the store answers. Pooled. */
class SplitCall implements SettleListener {
  readonly #onSettled: (call: SplitCall) => void;
  readonly remote = new TakeGroup();
  readonly local = new TakeGroup();
  group: TakeGroup | undefined;
  generation = 0;
  next: SettleListener = NOBODY;
  sentUs = 0;
  /** True if the local part alone refuses the call. */
  isRefused = false;
  /** The copy of each take of the call, in `remote` or `local`. */
  readonly copies: Take[] = [];

  /** `onSettled` is called when the store settles the shared part in a later turn. */
  constructor(onSettled: (call: SplitCall) => void) {
    this.#onSettled = onSettled;
  }

  begin(group: TakeGroup, next: SettleListener, sentUs: number): void {
    this.group = group;
    this.generation = group.generation;
    this.next = next;
    this.sentUs = sentUs;
    this.isRefused = false;
    this.copies.length = 0;
    this.remote.deadlineUs = group.deadlineUs;
    this.remote.hasSpareQuota = group.hasSpareQuota;
    this.remote.hasCounters = group.hasCounters;
    this.remote.stopsAtOver = group.stopsAtOver;
  }

  /** Empties the call for its pool. A late answer to its groups finds other generations and is ignored. */
  end(): void {
    this.group = undefined;
    this.next = NOBODY;
    this.remote.reset();
    this.local.reset();
  }

  /** Adds a take that was answered in memory, with its answer. */
  addLocal(take: Take): void {
    const copy = copyQuestion(take, this.local);
    this.copies.push(copy);
    copyAnswer(take, copy);
  }

  /** Adds a take for the shared store. If `isUndone`, its descriptor is over already, so the take only peeks. */
  addRemote(take: Take, isUndone: boolean): void {
    const copy = copyQuestion(take, this.remote);
    this.copies.push(copy);
    if (!isUndone) return;
    copy.kind = Kind.shadow;
    if (copy.mode === Mode.pay) copy.mode = Mode.peek;
  }

  settled(): void {
    this.#onSettled(this);
  }
}

/** Whether a strategy counts any limit of the group. */
function isShared(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if ((group.takes[i] as Take).limit.policy.sync !== Sync.exact) return true;
  return false;
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

function isOverIn(call: SplitCall, descriptor: number): boolean {
  for (let i = 0; i < call.remote.size; i++) {
    const take = call.remote.takes[i] as Take;
    if (take.descriptor === descriptor && isOver(take)) return true;
  }
  return false;
}

function writeAnswer(call: SplitCall, group: TakeGroup): void {
  const { remote, copies } = call;
  group.source = remote.source;
  for (let i = 0; i < group.size; i++) copyAnswer(copies[i] as Take, group.takes[i] as Take);
  const hasFailed = remote.verdict === Verdict.failed;
  group.verdict = isGroupRefused(group) ? Verdict.refused : hasFailed ? Verdict.failed : Verdict.allowed;
  group.failure = group.verdict === Verdict.failed ? remote.failure : undefined;
}
