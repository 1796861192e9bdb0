// Kinds of descriptors in a recording: domain and keys, in order. Each may become a rule, whose callers are the values.

import { base64Unless, type Descriptor, type LimitRequest, oneByteOf, textOf } from "../../../engine/domain/request.ts";
import { CallerPeaks, callersLeft } from "./caller-peaks.ts";

/** Kinds counted separately; callers choose keys, so there may be any number. */
const SHAPES_MAX = 1_000;

/** Keys of the entries about holds, one-byte. `--hold` names them, because there are no rules yet. */
export interface HoldNames {
  /** Tells one call from another. */
  readonly id: string;
  /** Says what a call may cost. */
  readonly estimate: string;
  /** Marks the end of a call. */
  readonly settle: string;
}

/** True for the key of an entry about a call, not about its caller. */
function speaksOfHold(key: string, names: HoldNames | undefined): boolean {
  return names !== undefined && (key === names.id || key === names.estimate || key === names.settle);
}

/** What calls of one kind used that report at their end, and what should be held for them. */
export interface ReportedUse {
  /** True if a call's begin and end are two descriptors, so that a simulation can hold for it. */
  readonly isPaired: boolean;
  /** Number of calls that have ended. */
  readonly ended: number;
  /** What calls used whose end says so: how many, and the most. */
  readonly used: { readonly count: number };
  readonly usedMax: number;
  /** Calls whose begin and end are known, and how long the longest took. */
  readonly timed: number;
  readonly tookMsMax: number;
  /** What is suggested to be held. */
  readonly hold: { readonly default: number; readonly max: number; readonly seconds: number } | undefined;
  /**
   * Decides what to hold, each times `headroom`: by default what at least `share` of calls did not exceed, at most the
   * most that any used, and as long as the longest call took.
   */
  propose(share: number, headroom: number): void;
}

/** Descriptors of one domain with the same keys. */
export class Shape {
  readonly domain: string;
  readonly keys: readonly string[];
  /** Descriptors that pay: peeks, refunds and those with limits of their own are not counted. */
  calls = 0;
  readonly callers: CallerPeaks;
  /** True: all values of its last key were whole numbers. */
  endsInNumbers = true;
  /** Undefined for calls that hold nothing. */
  use: ReportedUse | undefined;
  /** The rate and burst that it needs, at most AMOUNT_MAX, set after the first and after the second reading. */
  perMinute = 0;
  burst = 0;

  constructor(domain: string, keys: readonly string[], callers: CallerPeaks) {
    this.domain = domain;
    this.keys = keys;
    this.callers = callers;
  }

  /**
   * Learns from a descriptor of the first reading. `hits` count for the rate of their caller in this interval.
   * `isNew`: its call was not counted before.
   */
  learn(hits: number, isNew: boolean, descriptor: Descriptor, caller: string, stretch: number): void {
    this.endsInNumbers &&= /^\d+$/.test(descriptor.value(oneByteOf(this.keys.at(-1) ?? "")) ?? "");
    if (isNew) this.calls++;
    this.callers.count(caller, hits, stretch);
  }
}

/** All of a recording. */
export class Shapes {
  /** Descriptors of kinds beyond the bound or that no rule can name. */
  leftOut = 0;
  readonly callersLeft = callersLeft();
  readonly #names: HoldNames | undefined;
  readonly #shapes = new Map<string, Shape>();

  /** Entries with these `names` do not make a kind of descriptor different. */
  constructor(names: HoldNames | undefined) {
    this.#names = names;
  }

  /** Those with calls, the most frequent first. */
  list(): readonly Shape[] {
    return [...this.#shapes.values()].filter(({ calls }) => calls > 0).sort((a, b) => b.calls - a.calls);
  }

  /** The shape of a descriptor; undefined if no rule can name it. Text is one-byte. */
  of(domain: string, descriptor: Descriptor): Shape | undefined {
    if (descriptor.entryCount === 0 || descriptor.hasOverride || descriptor.isRefund) return undefined;
    let id = domain;
    for (let i = 0; i < descriptor.entryCount; i++) {
      const key = descriptor.keys[i] as string;
      if (!speaksOfHold(key, this.#names)) id += `\0${key}`;
    }
    let shape = this.#shapes.get(id);
    if (shape !== undefined) return shape;
    const keys = descriptor.keys.slice(0, descriptor.entryCount).filter((key) => !speaksOfHold(key, this.#names));
    if (keys.length === 0) return undefined;
    if (this.#shapes.size >= SHAPES_MAX || ![domain, ...keys].every(canBeNamed)) {
      this.leftOut++;
      return undefined;
    }
    shape = new Shape(textOf(domain), keys.map(textOf), new CallerPeaks(this.callersLeft));
    this.#shapes.set(id, shape);
    return shape;
  }
}

// A star would make the key a pattern, and a file can't hold bytes that are no text.
function canBeNamed(oneByte: string): boolean {
  return oneByte !== "" && !oneByte.includes("*") && base64Unless(oneByte) === undefined;
}

/** Hits that the descriptor pays. */
export function hitsOf(request: LimitRequest, descriptor: Descriptor): number {
  return descriptor.hasHits ? descriptor.hits : Math.max(1, request.hitsAddend);
}

/** The values of a descriptor as one name of its caller. */
export function callerName(descriptor: Descriptor, names?: HoldNames): string {
  let name = "";
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (speaksOfHold(descriptor.keys[i] as string, names)) continue;
    const value = descriptor.values[i] as string;
    name += `${value.length}:${value}`;
  }
  return name;
}
