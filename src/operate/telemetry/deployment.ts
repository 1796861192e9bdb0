// Calls of all processes that share a store, by the store's register: their sum, which only grows, and the rates of
// each process.

import { sumOf } from "../../base/counts.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { RegisteredProcess } from "../../stores/process-register.ts";
import type { MarkedCalls } from "./marked-calls.ts";
import type { CallCounts } from "./observers.ts";

/** Outcomes of calls, in the order of all lists here. */
export const CALLS = ["allowed", "refused", "degraded", "errors", "blocked", "shadowed", "passed"] as const;
/** Older versions count so many of them. */
const CALLS_MIN = 4;
type CallRates = Readonly<Record<(typeof CALLS)[number], number>>;

/** Shortest time that a rate is measured over. */
const RATE_US = 5 * MICROS_PER_SECOND;

/** A process's rates per second; null before they are known. */
interface ProcessRates {
  /** Host, number and start: `ratelimit-0:12:mfx2k9p4`. */
  readonly instance: string;
  readonly per_second: CallRates | null;
}

interface Known {
  readonly instance: string;
  readonly rates: CallRates | null;
  /** Its counts at `atUs`, where the next rates begin. */
  readonly counts: readonly number[];
  readonly atUs: number;
  /** Its counts when it was last heard of. */
  readonly latest: readonly number[];
}

/**
 * Counts of a process since its start: `blocked` is part of `refused`, `shadowed` of `allowed`, `passed` what passed
 * undecided.
 */
export function callTotals(calls: CallCounts, { blocked, shadowed }: Pick<MarkedCalls, "blocked" | "shadowed">) {
  const errors = calls.storeErrors() + calls.serviceErrors();
  const passed = calls.undecided().reduce((sum, [, count]) => sum + count, 0);
  return [sumOf(calls.allowed), sumOf(calls.refused), calls.degradedCalls, errors, blocked, shadowed, passed];
}

export class Deployment {
  readonly #own: () => readonly number[];
  #known: ReadonlyMap<string, Known> = new Map();
  /** What the others have counted since this process knows them. It stays when they end. */
  #others: readonly number[] = CALLS.map(() => 0);

  /** `own` counts this process's calls. */
  constructor(own: () => readonly number[]) {
    this.#own = own;
  }

  /** Takes what the register says at that time. */
  heard(all: readonly RegisteredProcess[], ownId: string, nowUs: number): void {
    const known = new Map<string, Known>();
    for (const { id, name: instance, calls } of all) {
      if (calls.length < CALLS_MIN) continue;
      const before = this.#known.get(id) ?? { instance, rates: null, counts: calls, atUs: nowUs, latest: calls };
      if (id !== ownId) this.#others = this.#others.map((sum, i) => sum + grown(calls, before.latest, i));
      const { counts, atUs } = before;
      const isDue = nowUs - atUs >= RATE_US;
      const rates = isDue ? ratesOf(calls, counts, nowUs - atUs) : before.rates;
      known.set(id, { instance, latest: calls, rates, counts: isDue ? calls : counts, atUs: isDue ? nowUs : atUs });
    }
    this.#known = known;
  }

  /** Calls of all processes. Only the difference between two readings means anything. */
  totals(): readonly number[] {
    return this.#own().map((count, i) => count + (this.#others[i] ?? 0));
  }

  /** By instance. */
  processes(): readonly ProcessRates[] {
    const all = new Map([...this.#known.values()].map(({ instance, rates }) => [instance, rates]));
    return [...all]
      .map(([instance, rates]) => ({ instance, per_second: rates }))
      .sort((one, other) => (one.instance < other.instance ? -1 : 1));
  }
}

function grown(now: readonly number[], before: readonly number[], i: number): number {
  return Math.max(0, (now[i] ?? 0) - (before[i] ?? 0));
}

function ratesOf(now: readonly number[], before: readonly number[], us: number): CallRates {
  const rates = CALLS.map((name, i) => [name, (grown(now, before, i) * MICROS_PER_SECOND) / us]);
  return Object.fromEntries(rates) as CallRates;
}
