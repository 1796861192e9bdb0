// Processes of the service in a simulated world, each with everything around the store that the service puts there: they
// come and go, stand still and die, and their callers' grants are written down.

import { MICROS_PER_SECOND } from "../../src/base/units.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import { Mode, Source, type Take, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { Membership } from "../../src/stores/batching/process-count.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { Leases, MAINTENANCE_MS } from "../../src/stores/sync/lease.ts";
import { SyncStore } from "../../src/stores/sync/sync-store.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { Line, type Weather, World } from "./simulated-world.ts";

const BEAT_US = 1_000_000;
const SECOND_BEAT_US = 300_000;
/** Long enough for processes to know of each other. */
export const SETTLE_US = 4_200_000;

/** How late a caller may give back. */
export const GIVE_BACK_US_MAX = 300_000;

/** What passed, at which time of the server: when it was paid there, or granted in memory. */
export interface Grant {
  readonly atUs: number;
  readonly cost: number;
  /** By which limit. */
  readonly limit: Limit;
}

/** One step of a schedule. */
export type Step =
  | { readonly does: "calls"; readonly process: number; readonly times: number; readonly cost: number }
  | { readonly does: "givesBack"; readonly process: number; readonly cost: number; readonly afterUs: number }
  | { readonly does: "works"; readonly us: number; readonly everyUs: number }
  | { readonly does: "drains"; readonly afterUs: number; readonly againUs: number; readonly times: number }
  | { readonly does: "joins"; readonly count: number }
  | { readonly does: "waits" | "waitsForEnd"; readonly us: number }
  | { readonly does: "stops"; readonly process: number; readonly us: number }
  | { readonly does: "leaves" | "dies"; readonly process: number }
  | { readonly does: "brings"; readonly limits: readonly Limit[] }
  | { readonly does: "reloads" | "losesBuckets" | "losesRegister" };

class Process {
  readonly line: Line;
  readonly store: SyncStore;
  readonly membership = new Membership();
  readonly id: string;
  readonly #world: World;
  isGone = false;
  #stoppedUntilUs = 0;
  readonly #waiting = { timer: [] as (() => void)[], answer: [] as (() => void)[], deadline: [] as (() => void)[] };

  constructor(world: World, id: string) {
    this.#world = world;
    this.id = id;
    const { clock } = world;
    this.line = new Line(world, (what, run) => this.#run(what, run));
    const store = new DenialMemory(this.line, { clock, entriesMax: 64 });
    const { membership } = this;
    const leases = new Leases(store, () => membership.sureCount(world.nowUs), clock);
    this.store = new SyncStore(store, leases, clock);
    this.#every(MAINTENANCE_MS * 1_000, () => leases.maintain(world.nowUs));
    this.#every(BEAT_US, () => this.#beat());
    world.after(SECOND_BEAT_US, () => this.#run("timer", () => this.#beat()));
    this.#beat();
  }

  get isAwake(): boolean {
    return !this.isGone && this.#world.nowUs >= this.#stoppedUntilUs;
  }

  /** Nothing is done for so long; then timers come first, then what arrived, then deadlines. */
  stop(us: number): void {
    if (!this.isAwake) return;
    this.#stoppedUntilUs = this.#world.nowUs + us;
    this.#world.after(us, () => {
      for (const what of ["timer", "answer", "deadline"] as const) {
        for (const run of this.#waiting[what].splice(0)) if (!this.isGone) run();
      }
    });
  }

  /** Ends properly: hands over what it holds. Answers that are under way still come. */
  leave(): void {
    if (!this.isAwake) return;
    void this.store.close();
    const { server } = this.#world;
    const settledUs = 2 * (this.#world.weather.delayUsMax + this.#world.weather.deadlineUs);
    this.#world.after(settledUs, () => {
      server.leave(this.id);
      this.die();
    });
  }

  die(): void {
    if (this.isGone) return;
    this.isGone = true;
    void this.store.close();
  }

  #every(us: number, run: () => void): void {
    const next = () => {
      if (this.isGone) return;
      // Timers that were missed while the process stood still are not made up for.
      if (this.isAwake || this.#waiting.timer.length < 8) this.#run("timer", run);
      this.#world.after(us, next);
    };
    this.#world.after(this.#world.chance(us), next);
  }

  #run(what: "timer" | "answer" | "deadline", run: () => void): void {
    if (this.isGone) return;
    if (this.isAwake) run();
    else this.#waiting[what].push(run);
  }

  #beat(): void {
    const world = this.#world;
    const sentUs = world.nowUs;
    world.travel(() => {
      const live = world.server.report(this.id);
      world.travel(() => this.#run("answer", () => this.membership.onAnswer(live, sentUs, world.nowUs)));
    });
  }
}

/** The processes, and all that was granted. */
export class Fleet {
  readonly world: World;
  readonly grants: Grant[] = [];
  readonly processes: Process[] = [];
  grantedInMemory = 0;
  losses = 0;
  readonly #startUs: number;
  /** Each call is judged by one of them, by chance. */
  #limits: readonly Limit[];

  constructor(limit: Limit, count: number, weather: Weather) {
    this.#limits = [limit];
    this.world = new World(weather);
    this.#startUs = this.world.nowUs;
    for (let i = 0; i < count; i++) this.#join();
  }

  /** Plays the steps, then has all processes end, once what is to be given back has been. */
  play(steps: readonly Step[]): this {
    for (const step of steps) this.#play(step);
    this.world.pass(GIVE_BACK_US_MAX);
    for (const process of this.processes) process.leave();
    const { delayUsMax, deadlineUs } = this.world.weather;
    this.world.pass(2 * (delayUsMax + deadlineUs) + GIVE_BACK_US_MAX);
    for (const process of this.processes) process.die();
    return this;
  }

  get lastedUs(): number {
    return this.world.nowUs - this.#startUs;
  }

  #join(): void {
    this.processes.push(new Process(this.world, `${this.world.chance(1_000)}-${this.processes.length}`));
  }

  #play(step: Step): void {
    const process = "process" in step ? this.#alive(step.process) : undefined;
    if (step.does === "waits") this.world.pass(step.us);
    else if (step.does === "waitsForEnd") this.world.pass(this.#untilEndUs(step.us));
    else if (step.does === "works") this.#work(step.us, step.everyUs);
    else if (step.does === "drains") this.#drain(step);
    else if (step.does === "brings") this.#limits = step.limits;
    else if (step.does === "reloads") this.#limits = this.#limits.map((limit) => ({ ...limit }));
    else if (step.does === "losesRegister") this.world.server.loseRegister();
    else if (step.does === "losesBuckets") {
      this.losses++;
      this.world.server.loseBuckets();
    } else if (step.does === "joins") for (let i = 0; i < step.count; i++) this.#join();
    else if (process !== undefined) this.#playIn(process, step);
  }

  #playIn(process: Process, step: Step): void {
    if (step.does === "calls") for (let i = 0; i < step.times; i++) this.#call(process, step.cost);
    else if (step.does === "givesBack") this.#call(process, step.cost, step.afterUs);
    else if (step.does === "stops") process.stop(step.us);
    else if (step.does === "leaves") process.leave();
    else process.die();
  }

  /** So long before the server's next full second, which ends windows. */
  #untilEndUs(us: number): number {
    const serverUs = this.world.nowUs + this.world.weather.skewUs;
    return Math.max(0, MICROS_PER_SECOND - (serverUs % MICROS_PER_SECOND) - us);
  }

  /** One that lives; others have to make do with what there is. */
  #alive(number: number): Process | undefined {
    const alive = this.processes.filter(({ isAwake }) => isAwake);
    return alive[number % Math.max(1, alive.length)];
  }

  #work(us: number, everyUs: number): void {
    const endUs = this.world.nowUs + us;
    while (this.world.nowUs < endUs) {
      for (const process of this.processes) if (process.isAwake) this.#call(process, 1);
      this.world.pass(everyUs);
    }
  }

  /** Everybody makes the bucket a busy one, a little later takes all that there is, and some time later again. */
  #drain({ afterUs, againUs, times }: { afterUs: number; againUs: number; times: number }): void {
    this.#work(40_000, 20_000);
    for (const us of [afterUs, againUs]) {
      this.world.pass(us);
      for (const process of this.processes) if (process.isAwake) for (let i = 0; i < times; i++) this.#call(process, 1);
    }
  }

  #call(process: Process, cost: number, givesBackAfterUs = -1): void {
    const { world } = this;
    const group = new TakeGroup();
    const limit = this.#limits[this.#limits.length === 1 ? 0 : world.chance(this.#limits.length)] as Limit;
    fillGroup(group, [{ limit, cost }], "", false);
    const settled = () => {
      if (group.verdict !== Verdict.allowed) return;
      const { paidAtUs } = group.takes[0] as Take;
      if (group.source === Source.lease) this.grantedInMemory++;
      const atUs = group.source === Source.store ? paidAtUs : world.nowUs + world.weather.skewUs;
      if (givesBackAfterUs < 0) this.grants.push({ atUs, cost, limit });
      else world.after(givesBackAfterUs, () => process.isAwake && process.store.giveBack(group));
    };
    if (process.store.take(group, { answered: settled })) settled();
  }
}

/** The most by which grants of any stretch of time t exceed rate x t. */
export function mostBeyondRate(grants: readonly Grant[], perSecond: number): number {
  let most = 0;
  let running = 0;
  let lastUs = Number.NEGATIVE_INFINITY;
  for (const { atUs, cost } of grants.toSorted((a, b) => a.atUs - b.atUs)) {
    running = Math.max(0, running - ((atUs - lastUs) * perSecond) / MICROS_PER_SECOND) + cost;
    lastUs = atUs;
    most = Math.max(most, running);
  }
  return most;
}

/** The largest sum of grants in an aligned window of the limit. */
export function mostInAlignedWindow(grants: readonly Grant[], { windowSeconds }: Limit): number {
  const sums = new Map<number, number>();
  for (const { atUs, cost } of grants) {
    const window = Math.floor(atUs / (windowSeconds * MICROS_PER_SECOND));
    sums.set(window, (sums.get(window) ?? 0) + cost);
  }
  return Math.max(0, ...sums.values());
}

/** The largest sum of grants in any window of the limit's length. */
export function mostInAnyWindow(grants: readonly Grant[], { windowSeconds }: Limit): number {
  const inOrder = grants.toSorted((a, b) => a.atUs - b.atUs);
  let most = 0;
  let sum = 0;
  let from = 0;
  for (const { atUs, cost } of inOrder) {
    sum += cost;
    while ((inOrder[from] as Grant).atUs <= atUs - windowSeconds * MICROS_PER_SECOND) sum -= inOrder[from++]?.cost ?? 0;
    most = Math.max(most, sum);
  }
  return most;
}

/** What the shared bucket still has. */
export function leftOf({ world }: Fleet, limit: Limit): number {
  const group = new TakeGroup();
  fillGroup(group, [{ limit, mode: Mode.peek }], "", false);
  world.server.store.take(group);
  return group.takes[0]?.remaining ?? 0;
}
