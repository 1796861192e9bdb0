// Pays for what is handed out, from the bucket of the rule in the store, as any call does.

import type { Clock } from "../base/clock.ts";
import { MICROS_PER_SECOND } from "../base/units.ts";
import { type Keyed, keyedOf } from "../engine/domain/key-bytes.ts";
import type { Store, TakeListener } from "../engine/domain/store.ts";
import { Mode, Outcome, type Take, TakeGroup } from "../engine/domain/take.ts";
import type { Bank, Payer } from "./bank.ts";

/** After this time an answer of the store counts as lost. */
const DEADLINE_US = MICROS_PER_SECOND;

export class StorePayer implements Payer {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #groups = new WeakMap<Bank, BucketGroup>();

  constructor(store: Store, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  pay(bank: Bank, tokens: number): void {
    let group = this.#groups.get(bank);
    if (group === undefined) {
      group = new BucketGroup(bank, this.#clock);
      this.#groups.set(bank, group);
    }
    group.ask(tokens, this.#store);
  }

  charge(bank: Bank, tokens: number): void {
    const group = new TakeGroup();
    addTake(group, bank, keyedOf(bank.key), Mode.postPaid, tokens);
    group.deadlineUs = this.#clock.nowUs() + DEADLINE_US;
    const owe = (take: Take) => {
      if (take.outcome === Outcome.unanswered) bank.owe(tokens);
    };
    if (this.#store.take(group, { answered: () => owe(group.takes[0] as Take) })) owe(group.takes[0] as Take);
  }
}

/** The payment of a bucket that is under way: one at a time. */
class BucketGroup implements TakeListener {
  readonly #bank: Bank;
  readonly #clock: Clock;
  readonly #key: Keyed;
  readonly #group = new TakeGroup();

  constructor(bank: Bank, clock: Clock) {
    this.#bank = bank;
    this.#clock = clock;
    this.#key = keyedOf(bank.key);
  }

  ask(tokens: number, store: Store): void {
    this.#group.reset();
    addTake(this.#group, this.#bank, this.#key, Mode.pay, tokens);
    this.#group.deadlineUs = this.#clock.nowUs() + DEADLINE_US;
    if (store.take(this.#group, this)) this.#settle();
  }

  answered(group: TakeGroup, generation: number): void {
    if (group.generation === generation) this.#settle();
  }

  #settle(): void {
    const take = this.#group.takes[0] as Take;
    const nowUs = this.#clock.nowUs();
    if (take.outcome === Outcome.unanswered) this.#bank.unanswered(nowUs);
    else if (take.paid) this.#bank.paid(take.remaining, nowUs);
    else this.#bank.refused(take.remaining, nowUs);
  }
}

function addTake(group: TakeGroup, { terms }: Bank, key: Keyed, mode: Mode, tokens: number): void {
  const take = group.add(terms.limit);
  take.useKeyOf(key);
  take.descriptor = 0;
  take.mode = mode;
  take.cost = tokens;
}
