// One soak: callers ask without pause while the schedule's faults come and go; at the end everything heals, and what was seen
// is held against what was counted and allowed.

import { setTimeout as sleep } from "node:timers/promises";
import { type Fault, faultLine, makeSchedule, seeded } from "../support/fault-schedule.ts";
import { Figures } from "./figures.ts";
import { Callers, type CallNote, Lateness, Life } from "./load.ts";
import { SOAK_RULES } from "./rules.ts";
import type { StoreName } from "./soak-stores.ts";
import { SoakStage, stageOf } from "./stage.ts";

export interface SoakOptions {
  readonly store: StoreName;
  readonly seed: number;
  readonly minutes: number;
  readonly say: (line: string) => void;
}

/** What became of a fault. */
export interface FaultTale {
  readonly fault: Fault;
  /** By performance.now(). */
  readonly startMs: number;
  endMs: number;
  calls: number;
  degraded: number;
  failed: number;
  /** From the end of the fault to the first of HEALED_CALLS answers by the store in a row; NaN if that never came. */
  healMs: number;
  /** Answers by the store in a row since the fault was over, and when the first of them came. */
  goodCalls: number;
  goodSinceMs: number;
}

/** Degraded answers of one life of a process. */
export interface DegradedTally {
  readonly process: number;
  readonly seen: number;
  readonly counted: number;
  readonly unanswered: number;
}

/** What came of a soak. */
export interface SoakTale {
  readonly schedule: readonly Fault[];
  readonly faults: readonly FaultTale[];
  readonly calls: number;
  readonly degraded: number;
  readonly notes: readonly CallNote[];
  readonly tallies: readonly DegradedTally[];
  /** Granted and allowed, by bucket. */
  readonly grants: readonly { readonly name: string; readonly granted: number; readonly most: number }[];
  readonly lateness: Lateness;
  readonly memory: readonly { readonly atMs: number; readonly bytes: number }[];
  readonly resourcesBefore: Figures;
  readonly resourcesAfter: Figures;
  /** When the last fault was over, and calls since. */
  readonly calmStartMs: number;
  readonly callsInCalm: number;
  readonly rulesLoaded: boolean;
}

/** A store may take longer to heal than the schedule gave it; the end of the run is calm all the same. */
const CALM_MS_MIN = 8_000;
const CALM_AFTER_MS = 1_000;
const MEMORY_EVERY_MS = 2_000;
/** After the callers have gone, connections and timers of theirs need a moment to go too. */
const SETTLE_MS = 4_000;
/** Calls kept with all that is known of them: those that did not go as usual. */
const NOTES_MAX = 100_000;

export async function soak({ store, seed, minutes, say }: SoakOptions): Promise<SoakTale> {
  const lengthMs = minutes * 60_000;
  const schedule = makeSchedule(seed, lengthMs, stageOf(store));
  say(`soak on ${store}, seed ${seed}, ${minutes} minutes, ${schedule.length} faults`);
  const random = seeded(seed + 1);
  const stage = await SoakStage.open(store, random);
  try {
    return await new Soak(stage, schedule, { lengthMs, say, random }).run();
  } finally {
    await stage.close();
  }
}

interface RunOptions {
  readonly lengthMs: number;
  readonly say: (line: string) => void;
  readonly random: () => number;
}

class Soak {
  readonly #stage: SoakStage;
  readonly #schedule: readonly Fault[];
  readonly #options: RunOptions;
  readonly #granted = new Map<string, number>();
  readonly #lateness = new Lateness();
  readonly #notes: CallNote[] = [];
  readonly #tallies: DegradedTally[] = [];
  readonly #memory: { atMs: number; bytes: number }[] = [];
  #callers: Callers[] = [];
  #tale: FaultTale | undefined;
  #faultEndMs = Number.POSITIVE_INFINITY;
  #calls = 0;
  #degraded = 0;

  constructor(stage: SoakStage, schedule: readonly Fault[], options: RunOptions) {
    this.#stage = stage;
    this.#schedule = schedule;
    this.#options = options;
  }

  async run(): Promise<SoakTale> {
    const [first] = this.#stage.services;
    if (first === undefined) throw new Error("no service runs");
    const resourcesBefore = await Figures.of(first.process);
    const startMs = performance.now();
    this.#startCallers();
    const sampling = setInterval(() => void this.#sampleMemory(), MEMORY_EVERY_MS);
    const faults = await this.#stageAll(startMs);
    const calmStartMs = performance.now();
    const callsBefore = this.#calls;
    await sleep(Math.max(CALM_MS_MIN, startMs + this.#options.lengthMs - calmStartMs));
    clearInterval(sampling);
    for (let i = 0; i < this.#callers.length; i++) await this.#tally(i);
    await Promise.all(this.#callers.map((callers) => callers.stop()));
    const seconds = (performance.now() - startMs) / 1_000;
    await sleep(SETTLE_MS);
    this.#lateness.stop();
    const resourcesAfter = await Figures.of(first.process);
    return {
      schedule: this.#schedule,
      faults,
      calls: this.#calls,
      degraded: this.#degraded,
      notes: this.#notes,
      tallies: this.#tallies,
      grants: this.#grants(seconds),
      lateness: this.#lateness,
      memory: this.#memory,
      resourcesBefore,
      resourcesAfter,
      calmStartMs,
      callsInCalm: this.#calls - callsBefore,
      rulesLoaded: resourcesAfter.sum("headgate_rules_last_load_success") === 1,
    };
  }

  #startCallers(): void {
    const shares = this.#stage.store !== "memory";
    this.#callers = this.#stage.services.map(
      ({ proxy }, process) =>
        new Callers({
          port: proxy.port,
          process,
          random: this.#options.random,
          suffix: shares ? "" : `@${process}`,
          granted: this.#granted,
          onCall: (note) => this.#note(note),
        }),
    );
  }

  async #stageAll(startMs: number): Promise<FaultTale[]> {
    const tales: FaultTale[] = [];
    const hooks = {
      beforeEnd: (index: number) => this.#tally(index),
      afterStart: (index: number) => this.#beginLife(index),
    };
    for (const fault of this.#schedule) {
      await sleep(Math.max(0, startMs + fault.atMs - performance.now()));
      const tale = newTale(fault);
      tales.push(tale);
      this.#faultEndMs = Number.POSITIVE_INFINITY;
      this.#tale = tale;
      const begunMs = performance.now();
      const end = await this.#stage.begin(fault, hooks);
      await sleep(Math.max(0, begunMs + fault.durationMs - performance.now()));
      await end();
      tale.endMs = performance.now();
      this.#faultEndMs = tale.endMs;
      this.#options.say(faultLine(fault));
      await sleep(CALM_AFTER_MS); // a store that took long to heal is seen well before the next fault
    }
    return tales;
  }

  #note(note: CallNote): void {
    this.#calls++;
    const tale = this.#tale;
    if (tale !== undefined) {
      tale.calls++;
      if (note.endMs > this.#faultEndMs) noteHealing(tale, note, this.#faultEndMs);
    }
    if (note.ending === "answered") return;
    if (note.ending === "degraded") this.#degraded++;
    if (this.#notes.length < NOTES_MAX) this.#notes.push(note);
    if (tale === undefined) return;
    if (note.ending === "degraded") tale.degraded++;
    else tale.failed++;
  }

  // Compares what the callers of a process saw with what it counted, then lets them ask on: it may end under load.
  async #tally(index: number): Promise<void> {
    const callers = this.#callers[index];
    const process = this.#stage.services[index]?.process;
    if (callers === undefined || process === undefined) return;
    await callers.pause();
    const counted = (await Figures.of(process)).sum("headgate_degraded_total");
    const { degraded: seen, unanswered, countedBefore } = callers.life;
    this.#tallies.push({ process: index, seen, counted: counted - countedBefore, unanswered });
    callers.life = new Life(0);
    callers.resume();
    await sleep(UNDER_LOAD_MS);
  }

  // What the last calls to the process before did to the new one is not on its bill.
  async #beginLife(index: number): Promise<void> {
    const callers = this.#callers[index];
    const process = this.#stage.services[index]?.process;
    if (callers === undefined || process === undefined) return;
    await callers.pause();
    callers.life = new Life((await Figures.of(process)).sum("headgate_degraded_total"));
    callers.resume();
  }

  async #sampleMemory(): Promise<void> {
    const process = this.#stage.services[0]?.process;
    if (process !== undefined)
      this.#memory.push({ atMs: performance.now(), bytes: (await Figures.of(process)).residentBytes });
  }

  #grants(seconds: number): { name: string; granted: number; most: number }[] {
    const events = { ...this.#stage.happened, seconds, processes: this.#stage.services.length };
    return [...this.#granted].map(([name, granted]) => {
      const rule = SOAK_RULES.find(({ key }) => name.startsWith(key));
      return { name, granted, most: Math.ceil(rule?.grantsMax(events) ?? 0) };
    });
  }
}

function newTale(fault: Fault): FaultTale {
  const startMs = performance.now();
  const counts = { calls: 0, degraded: 0, failed: 0, goodCalls: 0 };
  return { fault, startMs, endMs: Number.POSITIVE_INFINITY, healMs: Number.NaN, goodSinceMs: 0, ...counts };
}

function noteHealing(tale: FaultTale, { ending, endMs }: CallNote, faultEndMs: number): void {
  if (!Number.isNaN(tale.healMs)) return;
  if (ending !== "answered") tale.goodCalls = 0;
  else if (tale.goodCalls++ === 0) tale.goodSinceMs = endMs;
  if (tale.goodCalls === HEALED_CALLS) tale.healMs = tale.goodSinceMs - faultEndMs;
}

const UNDER_LOAD_MS = 200;
/** So many answers by the store one after the other are no accident. */
const HEALED_CALLS = 20;
