// What goes wrong when, made of a seed and nothing else: the same seed gives the same schedule, so a run that failed can be
// made again. Who carries the faults out is test/soak.

import type { NetworkFault, Random } from "./fault-proxy.ts";

/** Something that is done at once to the service, its files or its store. */
export type Deed =
  /** Good rules: the same limits, written again. Bad ones: a mistake. */
  | { readonly kind: "good rules" }
  | { readonly kind: "bad rules" }
  /** SIGTERM and a new process; SIGKILL and a new process. The first, number 0, is spared. */
  | { readonly kind: "restart"; readonly process: number }
  | { readonly kind: "crash"; readonly process: number }
  /** The store's process is stopped for the duration; of a cluster, the node that has `slot`. */
  | { readonly kind: "store hangs"; readonly slot: number }
  /** The store's process is killed and started again after the duration; a Redis is empty then. */
  | { readonly kind: "store crashes"; readonly slot: number }
  /** Another server becomes the primary although nothing is wrong. */
  | { readonly kind: "store fails over"; readonly slot: number }
  /** A slot goes to another node of a cluster. */
  | { readonly kind: "slots move"; readonly slot: number }
  | { readonly kind: "scripts flushed" }
  | { readonly kind: "data flushed" }
  | { readonly kind: "connections killed" }
  /** The store's clock shows this much more from now on, or less. */
  | { readonly kind: "clock steps"; readonly byMs: number };

/** One line of a schedule. */
export interface Fault {
  readonly atMs: number;
  readonly durationMs: number;
  /** Which network, or undefined for deeds. */
  readonly where: "store" | "clients" | undefined;
  readonly what: NetworkFault | Deed;
}

/** What a run can stage. */
export interface Stage {
  /** At least two. */
  readonly processes: number;
  /** Deeds that make no sense for its store are left out. */
  readonly deeds: readonly Deed["kind"][];
  /** False where there is no network to the store. */
  readonly hasStoreNetwork: boolean;
}

/** Time without faults before the first and after each, and how long faults last. */
const CALM_MS = { min: 1_500, max: 4_000 };
const FAULT_MS = { min: 400, max: 2_500 };
/** The last stretch of a run is calm: everything must have healed at its end. */
const END_CALM_MS = 8_000;

const NETWORK_FAULTS: readonly ((random: Random) => NetworkFault)[] = [
  (random) => ({ kind: "delay", ms: whole(random, 1, 40), jitterMs: whole(random, 0, 40) }),
  (random) => ({ kind: "slow drip", bytes: whole(random, 1, 16), everyMs: whole(random, 1, 10) }),
  () => ({ kind: "black hole" }),
  () => ({ kind: "half-open" }),
  () => ({ kind: "cut" }),
  () => ({ kind: "reset" }),
  (random) => ({ kind: "reorder", ms: whole(random, 2, 20) }),
];

/** Numbers from 0 to 1 that follow from the seed (mulberry32). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The schedule of a run of `lengthMs`. A pure function. */
export function makeSchedule(seed: number, lengthMs: number, stage: Stage): Fault[] {
  const random = seeded(seed);
  const faults: Fault[] = [];
  let atMs = whole(random, CALM_MS.min, CALM_MS.max);
  // Every kind has its turn before the first comes again, so that a short run has seen as many as it can.
  let left: (() => Omit<Fault, "atMs" | "durationMs">)[] = [];
  for (;;) {
    if (left.length === 0) left = shuffled(kindsOf(stage, random), random);
    const kind = left.pop()?.();
    const durationMs = whole(random, FAULT_MS.min, FAULT_MS.max);
    if (kind === undefined || atMs + durationMs > lengthMs - END_CALM_MS) return faults;
    faults.push({ atMs, durationMs, ...kind });
    atMs += durationMs + whole(random, CALM_MS.min, CALM_MS.max);
  }
}

/** One line for people. */
export function faultLine({ atMs, durationMs, where, what }: Fault): string {
  const { kind, ...parameters } = what;
  const details = Object.entries(parameters).map(([name, value]) => `${name} ${value}`);
  const place =
    where === undefined ? "" : ` between ${where === "store" ? "service and store" : "clients and service"}`;
  const time = `${(atMs / 1_000).toFixed(1)} s`.padStart(8);
  return `${time}  ${kind}${place}${details.length === 0 ? "" : ` (${details.join(", ")})`} for ${durationMs} ms`;
}

function kindsOf({ processes, deeds, hasStoreNetwork }: Stage, random: Random) {
  const kinds: (() => Omit<Fault, "atMs" | "durationMs">)[] = [];
  for (const make of NETWORK_FAULTS) {
    if (hasStoreNetwork) kinds.push(() => ({ where: "store", what: make(random) }));
    kinds.push(() => ({ where: "clients", what: make(random) }));
  }
  for (const kind of deeds) kinds.push(() => ({ where: undefined, what: makeDeed(kind, processes, random) }));
  return kinds;
}

function makeDeed(kind: Deed["kind"], processes: number, random: Random): Deed {
  // The first process stays: its memory and what it holds open are watched from start to end.
  if (kind === "restart" || kind === "crash") return { kind, process: whole(random, 1, processes - 1) };
  if (kind === "clock steps") return { kind, byMs: whole(random, -20_000, 20_000) };
  if (isOnSlot(kind)) return { kind, slot: whole(random, 0, 16_383) };
  return { kind };
}

type SlotDeed = Extract<Deed, { slot: number }>["kind"];

function isOnSlot(kind: Deed["kind"]): kind is SlotDeed {
  return kind === "store hangs" || kind === "store crashes" || kind === "store fails over" || kind === "slots move";
}

function shuffled<T>(items: T[], random: Random): T[] {
  for (let i = items.length - 1; i > 0; i--) {
    const j = whole(random, 0, i);
    [items[i], items[j]] = [items[j] as T, items[i] as T];
  }
  return items;
}

function whole(random: Random, min: number, max: number): number {
  return min + Math.floor(random() * (max - min + 1));
}
