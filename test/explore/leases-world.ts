// Leases of processes on one bucket: calls, takes and answers that are late or lost, payments that are given back, time, crashes. What the
// promise follows from is checked after each event: nothing is granted that was not paid, no more than a quarter of the burst is held in
// advance, and nothing is granted from a payment that is older than a lease or of another window (stores/sync/lease.ts).

import type { Clock } from "../../src/base/clock.ts";
import { type Limit, Sync } from "../../src/engine/domain/limit.ts";
import type { Store, TakeListener } from "../../src/engine/domain/store.ts";
import type { Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import type { Load } from "./code.ts";
import type { World } from "./explorer.ts";
import { OneStore, type StoreCode } from "./one-store.ts";
import { stateText } from "./state-text.ts";

type Code = StoreCode &
  typeof import("../../src/stores/sync/lease.ts") &
  typeof import("../../src/stores/sync/sync-store.ts");

export interface LeasesScope {
  readonly processes: number;
  readonly algorithm: Limit["algorithm"];
  readonly burst: number;
  /** True: all have a lease in the beginning. */
  readonly isBusy: boolean;
  /** How often callers call. */
  readonly calls: number;
  /** How many messages are lost, and processes die or stop. */
  readonly faults: number;
  /** How often a process reloads its rules. */
  readonly reloads: number;
}

const KEY = "{bucket";
const LEASE_US = 200_000;
const TICK_US = LEASE_US / 2;
const DAY_US = 86_400_000_000;
/** A second before a window ends, so that it does. */
const START_US = Date.UTC(2026, 0, 2) * 1_000 - 1.5 * LEASE_US;
const TICKS_MAX = 4;

export async function leasesWorlds(load: Load, scope: LeasesScope): Promise<() => World> {
  const code: Code = {
    ...(await OneStore.load(load)),
    ...(await load<typeof import("../../src/stores/sync/lease.ts")>("stores/sync/lease.ts")),
    ...(await load<typeof import("../../src/stores/sync/sync-store.ts")>("stores/sync/sync-store.ts")),
  };
  const limit = makeLimit({
    algorithm: scope.algorithm,
    amount: scope.burst,
    burst: scope.burst,
    windowSeconds: 86_400,
    sync: Sync.lease,
  });
  const store = new OneStore(code);
  return () => new LeasesWorld(code, scope, limit, store);
}

/** Something under way. */
interface Message {
  readonly what: string;
  readonly arrive: () => void;
  /** Tells its process that no answer came in time. */
  readonly fail?: () => void;
}

interface Process {
  readonly name: string;
  readonly leases: InstanceType<Code["Leases"]>;
  readonly store: InstanceType<Code["SyncStore"]>;
  isDead: boolean;
  /** It takes no more calls, gives back what it holds, and waits for answers. */
  isStopped: boolean;
  /** By its present rules: another object after each reload. */
  limit: Limit;
  /** Calls that were granted, to be given back. */
  readonly granted: TakeGroup[];
}

class LeasesWorld implements World {
  readonly #code: Code;
  readonly #limit: Limit;
  readonly #server: ReturnType<OneStore["begin"]>;
  readonly #processes: Process[] = [];
  #messages: Message[] = [];
  #nowUs = START_US;
  #callsLeft = 0;
  #faultsLeft: number;
  #reloadsLeft: number;
  #ticksLeft = TICKS_MAX;
  #hasLost = false;
  /** What was paid at the server, less what came back; what callers were granted, less what they gave back. */
  #paid = 0;
  #granted = 0;
  /** Receipts of what was paid and not given back, whatever the bucket made of these. */
  #receipts = 0;
  #wrong: string | undefined;

  constructor(code: Code, scope: LeasesScope, limit: Limit, store: OneStore) {
    this.#code = code;
    this.#limit = limit;
    this.#server = store.begin();
    this.#faultsLeft = scope.faults;
    this.#reloadsLeft = scope.reloads;
    const clock: Clock = { nowUs: () => this.#nowUs };
    for (let i = 0; i < scope.processes; i++) {
      const way: Store = {
        take: (group, then) => this.#send(this.#processes[i] as Process, group, then),
        giveBack: (group) => this.#sendBack(this.#processes[i] as Process, group),
        close: async () => undefined,
      };
      const leases = new code.Leases(way, () => scope.processes, clock);
      const process = {
        name: "ABC"[i] as string,
        leases,
        store: new code.SyncStore(way, leases, clock),
        isDead: false,
        isStopped: false,
        limit,
        granted: [],
      };
      this.#processes.push(process);
    }
    if (scope.isBusy) for (const process of this.#processes) this.#makeBusy(process);
    this.#callsLeft = scope.calls;
  }

  choices(): readonly string[] {
    const choices: string[] = [];
    for (const { name, isDead, isStopped, granted } of this.#processes) {
      if (isDead || isStopped) continue;
      if (this.#callsLeft > 0) choices.push(`${name}: a call`);
      if (granted.length > 0 && this.#callsLeft > 0) choices.push(`${name}: a call is given back`);
      // One that is alone has nobody who gains by its death, and one of several stops as one that is alone.
      if (this.#faultsLeft > 0) choices.push(this.#processes.length > 1 ? `${name} dies` : `${name} stops`);
      if (this.#reloadsLeft > 0) choices.push(`${name} reloads its rules`);
    }
    for (const [i, { what, fail }] of this.#messages.entries()) {
      if (this.#messages.findIndex((other) => other.what === what) < i) continue;
      choices.push(`${what} arrives`);
      if (this.#faultsLeft > 0) choices.push(`${what} is lost`);
      if (this.#faultsLeft > 0 && fail !== undefined) choices.push(`${what} is late`);
    }
    if (this.#ticksLeft > 0) choices.push("half a lease's time passes");
    return choices;
  }

  choose(choice: string): void {
    const process = this.#processes.find(({ name }) => choice.startsWith(name));
    const at = this.#messages.findIndex(({ what }) => choice.startsWith(`${what} `));
    if (choice.startsWith("half")) this.#tick();
    else if (at >= 0) this.#deliver(at, choice);
    else if (process === undefined) throw new Error(`expected a process in ${choice}`);
    else if (choice.endsWith("dies")) {
      this.#faultsLeft--;
      process.isDead = true;
      this.#hasLost = true;
    } else if (choice.endsWith("stops")) {
      this.#faultsLeft--;
      process.isStopped = true;
      void process.store.close();
    } else if (choice.endsWith("rules")) {
      this.#reloadsLeft--;
      process.limit = { ...process.limit };
    } else {
      this.#callsLeft--;
      if (choice.endsWith("back")) this.#giveBack(process);
      else this.#call(process);
    }
  }

  broken(): string | undefined {
    if (this.#wrong !== undefined) return this.#wrong;
    if (this.#granted > this.#paid) return `${this.#granted} were granted, and ${this.#paid} paid`;
    const held = this.#processes.reduce((sum, { leases, isDead }) => sum + (isDead ? 0 : heldBy(leases)), 0);
    const most = Math.floor(this.#limit.burst / 4);
    if (held > most) return `${held} are held in advance, and ${most} may be`;
    return this.#hasLost ? undefined : this.#unaccounted();
  }

  /** What is neither granted nor held once all messages have arrived. */
  #unaccounted(): string | undefined {
    while (this.#messages.length > 0) this.#messages.shift()?.arrive();
    const held = this.#processes.reduce((sum, { leases }) => sum + heldBy(leases), 0);
    if (this.#wrong !== undefined || this.#granted + held === this.#receipts) return this.#wrong;
    return `${this.#receipts} are paid, ${this.#granted} of these granted, and ${held} held`;
  }

  fingerprint(): string {
    const relative = (number: number) => (Math.abs(number) > DAY_US ? number - this.#nowUs : number);
    const processes = this.#processes.map(({ leases, isDead, isStopped, limit, granted }) => [
      leases,
      heldUnder(leases, limit),
      isDead,
      isStopped,
      granted.map(({ takes }) => takes[0]?.paidAtUs),
    ]);
    const messages = this.#messages.map(({ what }) => what);
    const left = [
      this.#callsLeft,
      this.#faultsLeft,
      this.#reloadsLeft,
      this.#ticksLeft,
      this.#hasLost,
      this.#paid,
      this.#granted,
    ];
    return stateText([processes, messages, left, this.#server.kept()], relative);
  }

  /** A bucket is leased once two calls have asked for it. */
  #makeBusy(process: Process): void {
    for (let call = 0; call < 2; call++) {
      this.#call(process);
      while (this.#messages.length > 0) this.#messages.shift()?.arrive();
    }
  }

  #tick(): void {
    this.#ticksLeft--;
    this.#nowUs += TICK_US;
    for (const { leases, isDead } of this.#processes) if (!isDead) leases.maintain(this.#nowUs);
  }

  #deliver(at: number, choice: string): void {
    const { arrive, fail } = this.#messages[at] as Message;
    if (!choice.endsWith("late")) this.#messages.splice(at, 1);
    if (choice.endsWith("arrives")) arrive();
    else {
      this.#faultsLeft--;
      if (choice.endsWith("lost")) this.#hasLost = true;
      fail?.();
    }
  }

  #call(process: Process): void {
    const group = this.#groupOf(process.limit, 1);
    const settled = () => {
      if (group.verdict !== this.#code.Verdict.allowed) return;
      this.#granted++;
      process.granted.push(group);
      const { paidAtUs } = group.takes[0] as Take;
      if (this.#nowUs - paidAtUs >= LEASE_US && group.source === this.#code.Source.lease)
        this.#wrong = "a lease was spent after its time";
      if (
        this.#endsAtOnce &&
        Math.floor(paidAtUs / DAY_US) !== Math.floor(this.#nowUs / DAY_US) &&
        group.source === this.#code.Source.lease
      )
        this.#wrong = "a payment of one window was granted in the next";
    };
    if (process.store.take(group, { answered: settled })) settled();
  }

  #giveBack(process: Process): void {
    const group = process.granted.shift() as TakeGroup;
    this.#granted--;
    process.store.giveBack(group);
  }

  get #endsAtOnce(): boolean {
    return this.#code.ALGORITHM_TRAITS[this.#limit.algorithm].endsAtOnce;
  }

  /** As the store on a server does it: what is answered after the deadline is given back. */
  #send(process: Process, group: TakeGroup, then: TakeListener): boolean {
    const sent = this.#copy(group);
    const { generation } = group;
    const cost = group.takes[0]?.cost ?? 0;
    const what = `${process.name}'s payment of ${cost}`;
    let isAnswered = false;
    const fail = () => {
      if (process.isDead || isAnswered) return;
      isAnswered = true;
      group.verdict = this.#code.Verdict.failed;
      then.answered(group, generation);
    };
    const answer = () => {
      if (process.isDead) return;
      if (isAnswered) return this.#sendBack(process, sent);
      isAnswered = true;
      this.#code.copyAnswer(sent.takes[0] as Take, group.takes[0] as Take);
      group.verdict = sent.verdict;
      group.source = sent.source;
      then.answered(group, generation);
    };
    const arrive = () => {
      this.#server.take(sent, this.#nowUs);
      if (sent.takes[0]?.paid) {
        this.#paid += cost;
        this.#receipts += cost;
      }
      this.#messages.push({ what: `the answer to ${what}`, arrive: answer, fail });
    };
    this.#messages.push({ what, arrive, fail });
    return false;
  }

  #sendBack(process: Process, group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      if (!group.takes[i]?.paid) continue;
      const one = this.#copy(group, i);
      const { cost } = one.takes[0] as Take;
      const arrive = () => {
        this.#receipts -= cost;
        const before = this.#server.used(KEY, this.#limit, this.#nowUs);
        this.#server.giveBack(one, this.#nowUs);
        this.#paid -= before - this.#server.used(KEY, this.#limit, this.#nowUs);
      };
      this.#messages.push({ what: `${cost} that ${process.name} gives back`, arrive });
    }
  }

  #copy(group: TakeGroup, from = 0): TakeGroup {
    const copy = new this.#code.TakeGroup();
    for (let i = from; i < (from === 0 ? group.size : from + 1); i++) {
      const take = group.takes[i] as Take;
      this.#code.copyAnswer(take, this.#code.copyQuestion(take, copy));
    }
    return copy;
  }

  #groupOf(limit: Limit, cost: number): TakeGroup {
    const group = new this.#code.TakeGroup();
    Object.assign(group.add(limit), {
      bucketKey: KEY,
      keyHash: 1,
      descriptor: 0,
      kind: 0,
      mode: this.#code.Mode.pay,
      cost,
    });
    return group;
  }
}

/** Whether a process has its lease by these rules. */
function heldUnder(leases: object, limit: Limit): boolean {
  const { $leases } = leases as { readonly $leases: ReadonlyMap<string, { readonly limit: Limit }> };
  return [...$leases.values()].some((lease) => lease.limit === limit);
}

/** What a process could still grant from memory. */
function heldBy(leases: object): number {
  const { $leases } = leases as { readonly $leases: ReadonlyMap<string, { readonly tokens: number }> };
  return [...$leases.values()].reduce((sum, { tokens }) => sum + tokens, 0);
}
