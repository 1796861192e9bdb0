// How many processes share a store, as each of them can know it: reports that are late or lost, processes that join, die, leave, and a
// register that loses its data. Each hands out a part of what is handed out in advance; together never more than all of it.

import type { Membership } from "../../src/stores/batching/process-count.ts";
import type { Load } from "./code.ts";
import type { World } from "./explorer.ts";
import { stateText } from "./state-text.ts";

type Code = typeof import("../../src/stores/batching/process-count.ts");

export interface MembersScope {
  /** Processes that know each other in the beginning. */
  readonly processes: number;
  /** How many may join. */
  readonly joining: number;
  /** How often the register loses its data, answers are lost, and processes die or leave. */
  readonly faults: number;
}

/** How long a lease lasts that was handed out by an older count. */
const LEASE_US = 200_000;
/** Half of the time for which a count is fresh. */
const TICK_US = 1_250_000;
const START_US = Date.UTC(2026, 0, 1) * 1_000;
/** Enough ticks for processes that start together to be sure of each other. */
const TICKS_TO_KNOW = 12;
const TICKS_MAX = 14;

export async function membersWorlds(load: Load, scope: MembersScope): Promise<() => World> {
  const code = await load<Code>("stores/batching/process-count.ts");
  return () => new MembersWorld(code, scope);
}

interface Process {
  readonly name: string;
  readonly membership: Membership;
  /** Its largest part in the time of a lease. */
  part: number;
  /** An answer on its way, and when its report was sent. */
  answer: { readonly count: number; readonly isNew: boolean; readonly sentUs: number } | undefined;
}

class MembersWorld implements World {
  readonly #code: Code;
  readonly #processes: Process[] = [];
  readonly #seenUs = new Map<string, number>();
  #nowUs = START_US;
  #joiningLeft: number;
  #faultsLeft: number;
  #ticksLeft = TICKS_MAX;

  constructor(code: Code, { processes, joining, faults }: MembersScope) {
    this.#code = code;
    this.#joiningLeft = joining;
    this.#faultsLeft = faults;
    for (let i = 0; i < processes; i++) this.#join();
    for (let tick = 0; tick < TICKS_TO_KNOW; tick++) {
      for (const process of this.#processes) this.#report(process);
      for (const process of this.#processes) this.#hear(process);
      this.#pass();
    }
  }

  choices(): readonly string[] {
    const choices: string[] = [];
    for (const { name, answer } of this.#processes) {
      choices.push(answer === undefined ? `${name}'s report arrives` : `${name} hears`);
      if (this.#faultsLeft > 0) choices.push(`${name} dies`, `${name} leaves`);
      if (this.#faultsLeft > 0 && answer !== undefined) choices.push(`${name}'s answer is lost`);
    }
    if (this.#joiningLeft > 0) choices.push("one joins");
    if (this.#faultsLeft > 0) choices.push("the register loses its data");
    if (this.#ticksLeft > 0) choices.push("1.25 s pass");
    return choices;
  }

  choose(choice: string): void {
    const process = this.#processes.find(({ name }) => choice.startsWith(name)) as Process;
    if (choice.endsWith("arrives")) this.#report(process);
    else if (choice.endsWith("hears")) this.#hear(process);
    else if (choice.endsWith("pass")) {
      this.#ticksLeft--;
      this.#pass();
    } else if (choice.endsWith("joins")) {
      this.#joiningLeft--;
      this.#join();
    } else this.#fail(choice, process);
    for (const each of this.#processes) each.part = Math.max(each.part, this.#partOf(each, this.#nowUs));
  }

  broken(): string | undefined {
    const sum = this.#processes.reduce((all, { part }) => all + part, 0);
    const parts = this.#processes.map(({ name, part }) => `${name} ${part.toFixed(2)}`);
    return sum > 1 + 1e-9 ? `parts of what may be handed out: ${parts.join(", ")}` : undefined;
  }

  fingerprint(): string {
    const relative = (number: number) => (number > START_US / 2 ? number - this.#nowUs : number);
    const left = [this.#joiningLeft, this.#faultsLeft, this.#ticksLeft];
    return stateText([this.#processes, this.#seenUs, left], relative);
  }

  #join(): void {
    const name = "ABCD"[this.#processes.length] as string;
    this.#processes.push({ name, membership: new this.#code.Membership(), part: 0, answer: undefined });
  }

  #report(process: Process): void {
    const isNew = !this.#seenUs.has(process.name);
    this.#seenUs.set(process.name, this.#nowUs);
    for (const [name, seenUs] of this.#seenUs)
      if (seenUs <= this.#nowUs - this.#code.GONE_AFTER_US) this.#seenUs.delete(name);
    process.answer = { count: this.#seenUs.size, isNew, sentUs: this.#nowUs };
  }

  #hear(process: Process): void {
    const { answer, membership } = process;
    process.answer = undefined;
    if (answer !== undefined) membership.onAnswer(answer, answer.sentUs, this.#nowUs);
  }

  #fail(choice: string, process: Process | undefined): void {
    this.#faultsLeft--;
    if (process === undefined) this.#seenUs.clear();
    else if (choice.endsWith("is lost")) process.answer = undefined;
    else {
      if (choice.endsWith("leaves")) this.#seenUs.delete(process.name);
      process.part = 0;
      this.#processes.splice(this.#processes.indexOf(process), 1);
    }
  }

  #pass(): void {
    this.#nowUs += TICK_US;
    for (const process of this.#processes) process.part = this.#partOf(process, this.#nowUs - LEASE_US);
  }

  #partOf({ membership }: Process, nowUs: number): number {
    return 1 / membership.sureCount(nowUs);
  }
}
