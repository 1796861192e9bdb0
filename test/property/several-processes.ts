// Several processes on one shared store, each with its own wrappers, under one clock moved by hand: plays schedules of
// calls against them and tells what was granted when.

import fc from "fast-check";
import { Algorithm, type Limit } from "../../src/core/limit.ts";
import { Mode, Outcome, TakeGroup, Verdict } from "../../src/core/take.ts";
import { MICROS_PER_SECOND } from "../../src/core/units.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import type { Settled, Store } from "../../src/stores/store.ts";
import { DenialMemory } from "../../src/stores/wrappers/denial-memory.ts";
import { Leases } from "../../src/stores/wrappers/lease.ts";
import type { LocalPart } from "../../src/stores/wrappers/local-part.ts";
import { Periodic } from "../../src/stores/wrappers/periodic.ts";
import { Share } from "../../src/stores/wrappers/share.ts";
import { SyncStore } from "../../src/stores/wrappers/sync-store.ts";
import { fillGroup } from "../contract/store-harness.ts";
import type { ManualClock } from "../support/manual-clock.ts";
import { ReferenceStore } from "./reference-store.ts";

export const PERIOD_MS = 100;

/** One process's way to the shared store: answers take their time if `delays` says so. */
class Line implements Store {
  readonly #shared: Store;
  readonly #members: number;
  readonly #index: number;
  delays = false;
  readonly #late: { group: TakeGroup; generation: number; then: Settled }[] = [];
  asked = 0;

  constructor(shared: Store, members: number, index: number) {
    this.#shared = shared;
    this.#members = members;
    this.#index = index;
  }

  take(group: TakeGroup, then: Settled): boolean {
    this.asked++;
    this.#shared.take(group, then);
    if (!this.delays) return true;
    this.#late.push({ group, generation: group.generation, then });
    return false;
  }

  /** Lets the answers arrive that are on their way. */
  deliver(): void {
    for (const { group, generation, then } of this.#late.splice(0)) then.settled(group, generation);
  }

  giveBack(group: TakeGroup): void {
    this.#shared.giveBack(group);
  }

  forget(): void {
    // Nothing is remembered here.
  }

  processCount(): number {
    return this.#members;
  }

  processIndex(): number {
    return this.#index;
  }

  trouble(): string | undefined {
    return undefined;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** One process. */
export interface Member {
  readonly line: Line;
  readonly store: SyncStore;
  readonly parts: readonly LocalPart[];
}

/** The processes, with everything around the store that the service puts there. */
export function openMembers(count: number, clock: ManualClock, shared: Store = new ReferenceStore(clock)): Member[] {
  return Array.from({ length: count }, (_, index) => {
    const line = new Line(shared, count, index);
    const denials = new DenialMemory(line, { clock, entriesMax: 64 });
    const place = { processCount: () => count, processIndex: () => index };
    const lease = new Leases({ store: denials, ...place });
    const periodic = new Periodic({ store: denials, periodMs: PERIOD_MS, now: () => clock.nowUs() });
    const share = new Share({ memory: new MemoryStore({ clock }), ...place });
    return { line, parts: [lease, periodic], store: new SyncStore(denials, { clock, lease, periodic, share }) };
  });
}

/** One call of a schedule. */
export interface Call {
  readonly member: number;
  readonly advanceUs: number;
  readonly cost: number;
  /** Answers to this member arrive only with its next call. */
  readonly isSlow: boolean;
  /** The call is given back when it was granted. */
  readonly isGivenBack: boolean;
}

export interface Grant {
  readonly atUs: number;
  readonly cost: number;
}

/** Any schedule of calls on one bucket: bursts of calls, with pauses from nothing to half a second. */
export function schedules(members: number, costMax: number): fc.Arbitrary<Call[]> {
  const advanceUs = fc.oneof(
    { weight: 6, arbitrary: fc.integer({ min: 0, max: 3_000 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 60_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 500_000 }) },
  );
  return fc.array(
    fc.record({
      member: fc.nat({ max: members - 1 }),
      advanceUs,
      cost: fc.oneof({ weight: 3, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: costMax })),
      isSlow: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
      isGivenBack: fc.constant(false),
    }),
    { minLength: 40, maxLength: 160, size: "max" },
  );
}

/** Plays the calls; each is repeated by its member a few times, as busy callers do. */
export function play(members: readonly Member[], clock: ManualClock, limit: Limit, calls: readonly Call[]): Grant[] {
  const grants: Grant[] = [];
  const startUs = clock.nowUs();
  for (const call of calls) {
    advance(members, clock, startUs, call.advanceUs);
    const member = members[call.member] as Member;
    member.line.deliver();
    member.line.delays = call.isSlow;
    for (let i = 0; i < 3; i++) ask(member, clock, limit, call, grants);
  }
  for (const { line, store } of members) {
    line.deliver();
    void store.close();
  }
  return grants;
}

// Turns come when they are due, on the way.
function advance(members: readonly Member[], clock: ManualClock, startUs: number, deltaUs: number): void {
  const endUs = clock.nowUs() + deltaUs;
  const turnUs = 50_000;
  for (;;) {
    const sinceUs = clock.nowUs() - startUs;
    const nextUs = startUs + (Math.floor(sinceUs / turnUs) + 1) * turnUs;
    if (nextUs > endUs) break;
    clock.setUs(nextUs);
    const turn = (nextUs - startUs) / turnUs;
    for (const { line, parts } of members) {
      line.deliver();
      for (const part of parts) if (turn % (part.turnMs / 50) === 0) part.turn(nextUs);
    }
  }
  clock.setUs(endUs);
}

function ask(member: Member, clock: ManualClock, limit: Limit, call: Call, grants: Grant[]): void {
  const group = new TakeGroup();
  fillGroup(group, [{ limit, cost: call.cost }], "", false);
  // An answer may be late, but what it grants was paid when it was asked for.
  const atUs = clock.nowUs();
  const settled = () => {
    if (group.verdict !== Verdict.allowed) return;
    if (call.isGivenBack) member.store.giveBack(group);
    else grants.push({ atUs, cost: call.cost });
  };
  if (member.store.take(group, { settled })) settled();
}

/** The most by which any stretch of time was granted more than `most` says. */
export function excessOver(grants: readonly Grant[], most: (elapsedUs: number) => number): number {
  const inOrder = grants.toSorted((a, b) => a.atUs - b.atUs);
  let excess = Number.NEGATIVE_INFINITY;
  for (let from = 0; from < inOrder.length; from++) {
    const firstUs = (inOrder[from] as Grant).atUs;
    let sum = 0;
    for (let to = from; to < inOrder.length; to++) {
      const { atUs, cost } = inOrder[to] as Grant;
      sum += cost;
      excess = Math.max(excess, sum - most(atUs - firstUs));
    }
  }
  return excess;
}

/** Sums of the grants by aligned window of the limit. */
export function sumsByWindow(grants: readonly Grant[], limit: Limit): number[] {
  const sums = new Map<number, number>();
  for (const { atUs, cost } of grants) {
    const window = Math.floor(atUs / (limit.windowSeconds * MICROS_PER_SECOND));
    sums.set(window, (sums.get(window) ?? 0) + cost);
  }
  return [...sums.values()];
}

/** What a shared bucket says to a question of one hit. */
export function lookAt(store: Store, limit: Limit): { remaining: number; hasRoom: boolean } {
  const group = new TakeGroup();
  fillGroup(group, [{ limit, mode: Mode.peek }], "", false);
  store.take(group, { settled: () => undefined });
  const take = group.takes[0];
  return { remaining: take?.remaining ?? 0, hasRoom: take?.outcome === Outcome.room };
}

export const WINDOWS = [Algorithm.fixedWindow, Algorithm.slidingWindow, Algorithm.slidingLog] as const;
