// Time, chance, one shared store and the ways to it, all in memory: whatever is sent arrives after some time, in any
// order, or not at all. A schedule and a seed give the same run again.

import { StoreError } from "../../src/base/errors.ts";
import type { Store, TakeListener } from "../../src/engine/domain/store.ts";
import { copyAnswer, copyQuestion, type Take, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { GONE_AFTER_US, type LiveProcesses } from "../../src/stores/batching/process-count.ts";
import { ReferenceStore } from "../property/reference-store.ts";
import { ManualClock } from "./manual-clock.ts";

/** How badly the ways to the store treat what travels on them. */
export interface Weather {
  readonly seed: number;
  /** Each way takes 0 to so long. */
  readonly delayUsMax: number;
  /** One message in so many is lost; 0: none. */
  readonly lossOneIn: number;
  /** A take is answered without the store after so long. */
  readonly deadlineUs: number;
  /** What the server's clock shows more than that of the processes. */
  readonly skewUs: number;
}

interface Event {
  readonly atUs: number;
  readonly number: number;
  readonly run: () => void;
}

/** What happens when. Events of one moment happen in the order in which they were planned. */
export class World {
  readonly clock = new ManualClock();
  readonly weather: Weather;
  readonly server: Server;
  #random: number;
  readonly #events: Event[] = [];
  #number = 0;

  constructor(weather: Weather) {
    this.weather = weather;
    this.#random = weather.seed;
    this.server = new Server({ nowUs: () => this.clock.nowUs() + weather.skewUs });
  }

  get nowUs(): number {
    return this.clock.nowUs();
  }

  /** A whole number from 0 to below `end`. */
  chance(end: number): number {
    this.#random = (Math.imul(this.#random, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.#random / 2 ** 32) * end);
  }

  /** Has something happen after so long. */
  after(us: number, run: () => void): void {
    const event = { atUs: this.nowUs + us, number: this.#number++, run };
    let at = this.#events.length;
    while (at > 0 && (this.#events[at - 1] as Event).atUs > event.atUs) at--;
    this.#events.splice(at, 0, event);
  }

  /** Has a message travel, or be lost. */
  travel(arrive: () => void): void {
    const { delayUsMax, lossOneIn } = this.weather;
    if (lossOneIn > 0 && this.chance(lossOneIn) === 0) return;
    this.after(this.chance(delayUsMax + 1), arrive);
  }

  /** Lets time pass, and everything happen that is due. */
  pass(us: number): void {
    const endUs = this.nowUs + us;
    for (;;) {
      const next = this.#events[0];
      if (next === undefined || next.atUs > endUs) break;
      this.#events.shift();
      this.clock.setUs(next.atUs);
      next.run();
    }
    this.clock.setUs(endUs);
  }
}

/** The shared store, and its register of processes. */
export class Server {
  readonly #clock: { nowUs(): number };
  store: ReferenceStore;
  readonly #seenUs = new Map<string, number>();

  constructor(clock: { nowUs(): number }) {
    this.#clock = clock;
    this.store = new ReferenceStore(clock);
  }

  loseBuckets(): void {
    this.store = new ReferenceStore(this.#clock);
  }

  loseRegister(): void {
    this.#seenUs.clear();
  }

  report(id: string): LiveProcesses {
    const isNew = !this.#seenUs.has(id);
    const nowUs = this.#clock.nowUs();
    this.#seenUs.set(id, nowUs);
    for (const [other, seenUs] of this.#seenUs) if (seenUs <= nowUs - GONE_AFTER_US) this.#seenUs.delete(other);
    return { count: this.#seenUs.size, isNew };
  }

  leave(id: string): void {
    this.#seenUs.delete(id);
  }
}

/** Runs what concerns a process in its own time: not at all once it is dead, later while it is stopped. */
export type InProcess = (what: "timer" | "answer" | "deadline", run: () => void) => void;

/** One process's way to the shared store, as a store on a server does it: by deadlines, and giving back what was paid late. */
export class Line implements Store {
  readonly #world: World;
  readonly #inProcess: InProcess;

  constructor(world: World, inProcess: InProcess) {
    this.#world = world;
    this.#inProcess = inProcess;
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    const world = this.#world;
    const sent = copyOf(group, () => true);
    const { generation } = group;
    let isAnswered = false;
    const answer = () => {
      if (isAnswered) {
        this.giveBack(sent);
        return;
      }
      isAnswered = true;
      for (let i = 0; i < group.size; i++) copyAnswer(sent.takes[i] as Take, group.takes[i] as Take);
      group.verdict = sent.verdict;
      then.answered(group, generation);
    };
    world.travel(() => {
      world.server.store.take(sent);
      world.travel(() => this.#inProcess("answer", answer));
    });
    const giveUp = () => {
      if (isAnswered) return;
      isAnswered = true;
      group.verdict = Verdict.failed;
      group.failure = NO_REPLY;
      then.answered(group, generation);
    };
    world.after(world.weather.deadlineUs, () => this.#inProcess("deadline", giveUp));
    return false;
  }

  giveBack(group: TakeGroup): void {
    const world = this.#world;
    const returned = copyOf(group, (take) => take.paid);
    world.travel(() => world.server.store.giveBack(returned));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const NO_REPLY = new StoreError("STORE_TIMEOUT", "no reply in this world");

function copyOf(group: TakeGroup, isWanted: (take: Take) => boolean): TakeGroup {
  const copy = new TakeGroup();
  copy.hasSpareQuota = group.hasSpareQuota;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (isWanted(take)) copyAnswer(take, copyQuestion(take, copy));
  }
  return copy;
}
