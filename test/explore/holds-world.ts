// Payments, settlements and give-backs of callers that share one bucket, in every order in which they can reach the store, with time between
// them. An oracle says what each id has cost: what was settled, or what is held, or nothing once it ended or came back; never two of these.

import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import type { Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import type { Load } from "./code.ts";
import type { World } from "./explorer.ts";
import { OneStore, type StoreCode } from "./one-store.ts";
import { stateText } from "./state-text.ts";

export interface HoldsScope {
  readonly algorithm: Limit["algorithm"];
  readonly callers: number;
  /** Most payments. */
  readonly payments: number;
}

const KEY = "{bucket";
const BURST = 10;
const ESTIMATE = 3;
/** Less than was held, and more. */
const USES = [1, 5];
const TTL_S = 60;
const TICK_US = (TTL_S * 1_000_000) / 2;
const TICKS_MAX = 3;
const DAY_US = 86_400_000_000;
/** A tick and a half before a day ends: holds cross the end of their window. */
const START_US = Date.UTC(2026, 0, 2) * 1_000 - 1.5 * TICK_US;

export async function holdsWorlds(load: Load, scope: HoldsScope): Promise<() => World> {
  const code = await OneStore.load(load);
  const limit = makeLimit({
    algorithm: scope.algorithm,
    amount: scope.algorithm === Algorithm.fixedWindow ? BURST : 0,
    burst: BURST,
    windowSeconds: 86_400,
    holdSeconds: TTL_S,
  });
  const store = new OneStore(code);
  return () => new HoldsWorld(code, scope, limit, store);
}

/** What becomes of an id, by the words of docs/decisions/0019-holds.md. */
interface Id {
  is: "free" | "held" | "settled";
  untilUs: number;
  /** The payment that is held. */
  payment: number;
  /** The end of its window takes what was paid in it. */
  isOfNow: boolean;
}

interface Payment {
  readonly name: string;
  isOfNow: boolean;
  readonly group: TakeGroup;
}

class HoldsWorld implements World {
  readonly #code: StoreCode;
  readonly #limit: Limit;
  readonly #server: ReturnType<OneStore["begin"]>;
  readonly #ids: ReadonlyMap<string, Id>;
  #nowUs = START_US;
  #paymentsLeft: number;
  #ticksLeft = TICKS_MAX;
  /** Payments that can be given back; undefined: it was. */
  readonly #payments: (Payment | undefined)[] = [];
  #used = 0;
  #wrong: string | undefined;

  constructor(code: StoreCode, { callers, payments }: HoldsScope, limit: Limit, store: OneStore) {
    this.#code = code;
    this.#limit = limit;
    this.#server = store.begin();
    this.#paymentsLeft = payments;
    this.#ids = new Map(
      ["x", "y"].slice(0, callers).map((id) => [id, { is: "free", untilUs: 0, payment: -1, isOfNow: true }]),
    );
  }

  choices(): readonly string[] {
    const choices: string[] = [];
    for (const id of this.#ids.keys()) {
      if (this.#paymentsLeft > 0) choices.push(`${id} pays ${ESTIMATE}`);
      for (const use of USES) choices.push(`${id} settles ${use}`);
    }
    for (const [i, payment] of this.#payments.entries())
      if (payment !== undefined) choices.push(`payment ${i} comes back`);
    if (this.#ticksLeft > 0) choices.push("half the ttl passes");
    return choices;
  }

  choose(choice: string): void {
    const [name = "", does = "", amount = ""] = choice.split(" ");
    // Receipts are times: payments under one id at one microsecond can't be told apart.
    this.#nowUs++;
    if (does === "the") this.#pass();
    else if (does === "pays") this.#pay(name);
    else if (does === "settles") this.#settle(name, Number(amount));
    else this.#giveBack(Number(does));
    if (this.#wrong !== undefined) return;
    const used = this.#server.used(KEY, this.#limit, this.#nowUs);
    const right = Math.min(BURST, Math.max(0, this.#used));
    if (used !== right) this.#wrong = `${used} are used of the bucket, and ${right} should be`;
  }

  broken(): string | undefined {
    return this.#wrong;
  }

  fingerprint(): string {
    const relative = (number: number) =>
      number > START_US / 2 ? Math.round((number - this.#nowUs) / TICK_US) : number;
    const payments = this.#payments.map(
      (payment) => payment && [payment.name, payment.isOfNow, payment.group.takes[0]?.paidAtUs],
    );
    const left = [this.#paymentsLeft, this.#ticksLeft, this.#used];
    const kept = [...this.#ids.keys()].map((id) => this.#server.hold(KEY, this.#limit, id, this.#nowUs));
    const held = kept.map(({ paidAtUs, isSettled }) => [
      this.#payments.findIndex((payment) => payment?.group.takes[0]?.paidAtUs === paidAtUs),
      isSettled,
    ]);
    return stateText([this.#ids, payments, left, held, this.#server.kept()], relative);
  }

  #pass(): void {
    this.#ticksLeft--;
    const day = Math.floor(this.#nowUs / DAY_US);
    this.#nowUs += TICK_US;
    if (this.#limit.algorithm === this.#code.Algorithm.fixedWindow && day !== Math.floor(this.#nowUs / DAY_US)) {
      this.#used = 0;
      for (const each of [...this.#ids.values(), ...this.#payments]) if (each !== undefined) each.isOfNow = false;
    }
    for (const id of this.#ids.values()) {
      if (id.is === "free" || id.untilUs > this.#nowUs) continue;
      if (id.is === "held" && id.isOfNow) this.#used -= ESTIMATE;
      id.is = "free";
    }
  }

  #pay(name: string): void {
    this.#paymentsLeft--;
    const group = this.#ask(name, this.#code.Mode.pay, ESTIMATE);
    const passes = Math.max(0, this.#used) + ESTIMATE <= BURST;
    if ((group.verdict === this.#code.Verdict.allowed) !== passes)
      this.#wrong = `the payment ${passes ? "was refused" : "passed"}`;
    if (!passes) return;
    this.#used += ESTIMATE;
    const id = this.#ids.get(name) as Id;
    if (id.is === "free")
      Object.assign(id, {
        is: "held",
        untilUs: this.#nowUs + 2 * TICK_US,
        payment: this.#payments.length,
        isOfNow: true,
      });
    this.#payments.push({ name, group, isOfNow: true });
  }

  #settle(name: string, use: number): void {
    const take = this.#ask(name, this.#code.Mode.settle, use).takes[0] as Take;
    const id = this.#ids.get(name) as Id;
    const { HoldFound } = this.#code;
    const found = id.is === "held" ? ESTIMATE : id.is === "settled" ? HoldFound.settled : HoldFound.none;
    if (take.held !== found) this.#wrong = `the settlement found ${take.held} in place of ${found}`;
    if (id.is !== "settled") {
      const held = id.is === "held" ? ESTIMATE : 0;
      this.#used += id.isOfNow ? use - held : Math.max(0, use - held);
      Object.assign(id, { is: "settled", untilUs: this.#nowUs + 2 * TICK_US, payment: -1, isOfNow: true });
    }
  }

  /** One that opened no hold comes back only while a hold of another shows that: else it can't be told from one whose hold has ended. */
  #giveBack(number: number): void {
    const { group, name, isOfNow } = this.#payments[number] as Payment;
    this.#payments[number] = undefined;
    this.#server.giveBack(group, this.#nowUs);
    const id = this.#ids.get(name) as Id;
    const isOwn = id.payment === number;
    const paidAtUs = group.takes[0]?.paidAtUs ?? 0;
    if (id.is !== "held" || (!isOwn && this.#nowUs >= paidAtUs + 2 * TICK_US)) return;
    if (isOfNow) this.#used -= ESTIMATE;
    if (isOwn) id.is = "free";
  }

  #ask(holdId: string, mode: Take["mode"], cost: number): TakeGroup {
    const group = new this.#code.TakeGroup();
    Object.assign(group.add(this.#limit), { bucketKey: KEY, keyHash: 1, descriptor: 0, kind: 0, mode, cost, holdId });
    this.#server.take(group, this.#nowUs);
    return group;
  }
}
