// Charges the counters of calls before anything else is asked (COMPATIBILITY_MODE). They are charged whatever becomes
// of the call; if they refuse it, its other limits are only peeked at, so that nothing else is paid. Calls without
// counters pass untouched.
//
// The store of counters gets groups that have nothing else in them, with the modes that
// engine/counters/counter-settlement.ts explains.

import { type LocalStore, NOBODY, type Store, type TakeListener } from "../../engine/domain/store.ts";
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
} from "../../engine/domain/take.ts";
import { endOfDescriptor, isAnyOver, isGroupRefused } from "../../engine/domain/verdict.ts";

export interface CountersOptions {
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a call that is over charges only the counters that are over. */
  readonly stopsAtOver: boolean;
}

/** A store for calls whose limits may be counters. */
export class CountersFirst implements Store {
  readonly #stores: Stores;
  readonly #idle: CountedCall[] = [];

  /** `counters` keeps the counters, `rest` all other limits; closing this store closes `rest`. */
  constructor(counters: Store, rest: Store, { stopsAtOver }: CountersOptions) {
    this.#stores = { counters, rest, stopsAtOver, onDone: (call) => this.#idle.push(call) };
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    for (let i = 0; i < group.size; i++) {
      if (!(group.takes[i] as Take).limit.isCounter) continue;
      const call = this.#idle.pop() ?? new CountedCall(this.#stores);
      return call.begin(group, then);
    }
    return this.#stores.rest.take(group, then);
  }

  /** Charges of counters are kept. */
  giveBack(group: TakeGroup): void {
    this.#stores.rest.giveBack(group);
  }

  close(): Promise<void> {
    return this.#stores.rest.close();
  }
}

/** The same over a store of this process, which keeps both. */
export class LocalCountersFirst extends CountersFirst implements LocalStore {
  readonly #store: LocalStore;

  constructor(store: LocalStore, options: CountersOptions) {
    super(store, store, options);
    this.#store = store;
  }

  forget(take: Take): void {
    this.#store.forget(take);
  }

  knowsHold(take: Take): boolean {
    return this.#store.knowsHold(take);
  }
}

interface Stores extends CountersOptions {
  readonly counters: Store;
  readonly rest: Store;
  readonly onDone: (call: CountedCall) => void;
}

/**
 * A call under way: its counters, then its other limits, each as a group of copies, because the call's own may be
 * reused. Pooled.
 */
class CountedCall implements TakeListener {
  readonly #stores: Stores;
  readonly #counters = new TakeGroup();
  readonly #rest = new TakeGroup();
  /** The copy of each take of the call; undefined for what was answered before. */
  readonly #copies: (Take | undefined)[] = [];
  #group: TakeGroup | undefined;
  #generation = 0;
  #then: TakeListener = NOBODY;
  #state: "counters" | "rest" = "counters";

  constructor(stores: Stores) {
    this.#stores = stores;
  }

  begin(group: TakeGroup, then: TakeListener): boolean {
    this.#group = group;
    this.#generation = group.generation;
    this.#then = then;
    this.#state = "counters";
    this.#split(group);
    if (this.#counters.size > 0 && !this.#stores.counters.take(this.#counters, this)) return false;
    return this.#afterCounters();
  }

  answered(): void {
    const then = this.#then;
    const group = this.#group;
    const generation = this.#generation;
    if (this.#state === "rest") this.#finish();
    else if (!this.#afterCounters()) return;
    if (group !== undefined) then.answered(group, generation);
  }

  #split(group: TakeGroup): void {
    const { stopsAtOver } = this.#stores;
    let isDenied = false;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.denied) {
        isDenied ||= take.limit.isCounter;
        this.#copies.push(undefined);
        continue;
      }
      const copy = copyQuestion(take, take.limit.isCounter ? this.#counters : this.#rest);
      this.#copies.push(copy);
      if (take.limit.isCounter && take.mode !== Mode.refund) copy.mode = stopsAtOver ? Mode.pay : Mode.postPaid;
    }
    this.#counters.deadlineUs = group.deadlineUs;
    this.#rest.deadlineUs = group.deadlineUs;
    if (!isDenied || !stopsAtOver) return;
    for (let i = 0; i < this.#counters.size; i++) {
      const copy = this.#counters.takes[i] as Take;
      if (copy.mode === Mode.pay) copy.mode = Mode.peek;
    }
  }

  /** True if the call is answered; false if its other limits are asked for. */
  #afterCounters(): boolean {
    const group = this.#group;
    this.#state = "rest";
    // Nobody waits for the answer any more.
    if (group === undefined || group.generation !== this.#generation) this.#rest.reset();
    else this.#writeCounts(group);
    if (this.#rest.size > 0 && !this.#stores.rest.take(this.#rest, this)) return false;
    this.#finish();
    return true;
  }

  /** Writes what the counters answered, and what follows for the other limits. */
  #writeCounts(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const copy = this.#copies[i];
      if (!take.limit.isCounter || copy === undefined) continue;
      const { resetUs } = take;
      copyAnswer(copy, take);
      take.paid = false;
      take.resetUs = resetUs;
      take.waitUs = take.outcome === Outcome.over ? resetUs : 0;
    }
    if (this.#rest.size === 0) return;
    this.#rest.hasSpareQuota = group.hasSpareQuota || hasQuotaWithRoom(group);
    if (!isGroupRefused(group)) return;
    for (let i = 0; i < this.#rest.size; i++) {
      const take = this.#rest.takes[i] as Take;
      if (take.mode === Mode.pay) take.mode = Mode.peek;
    }
  }

  #finish(): void {
    const group = this.#group;
    if (group !== undefined && group.generation === this.#generation) this.#writeAnswer(group);
    else if (this.#rest.size > 0) this.#stores.rest.giveBack(this.#rest);
    this.#counters.reset();
    this.#rest.reset();
    this.#copies.length = 0;
    this.#group = undefined;
    this.#then = NOBODY;
    this.#stores.onDone(this);
  }

  #writeAnswer(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const copy = this.#copies[i];
      if (!take.limit.isCounter && copy !== undefined) copyAnswer(copy, take);
    }
    const failed = [this.#counters, this.#rest].filter(({ verdict }) => verdict === Verdict.failed);
    const failure = (failed.find((one) => one.failure?.isOutcomeUnknown) ?? failed[0])?.failure;
    group.verdict = isGroupRefused(group) ? Verdict.refused : failure === undefined ? Verdict.allowed : Verdict.failed;
    group.failure = group.verdict === Verdict.failed ? failure : undefined;
    group.source = Source.store;
  }
}

/** True if a quota descriptor with counters is not over: the call's other quota descriptors then can't refuse it. */
function hasQuotaWithRoom(group: TakeGroup): boolean {
  let end = 0;
  for (let start = 0; start < group.size; start = end) {
    end = endOfDescriptor(group, start);
    const { kind, limit } = group.takes[start] as Take;
    if (limit.isCounter && kind === Kind.quota && !isAnyOver(group, start, end)) return true;
  }
  return false;
}
