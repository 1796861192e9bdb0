// Kinds of descriptors in a recording: domain and keys, in order. Each may become a rule, whose callers are the values.

import { base64Unless, type Descriptor, oneByteOf, textOf } from "../../../engine/domain/request.ts";
import { CallerPeaks, callersLeft } from "./caller-peaks.ts";
import { type HeldCall, type HoldNames, speaksOfHold } from "./held-calls.ts";
import { HoldUse } from "./hold-use.ts";

/** Kinds counted separately; callers choose keys, so there may be any number. */
const SHAPES_MAX = 1_000;

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
  use: HoldUse | undefined;
  /** The rate and burst that it needs, at most AMOUNT_MAX, set after the first and after the second reading. */
  perMinute = 0;
  burst = 0;

  constructor(domain: string, keys: readonly string[], callers: CallerPeaks) {
    this.domain = domain;
    this.keys = keys;
    this.callers = callers;
  }

  /** Learns from a descriptor of the first reading. `hits` count for the rate of their caller in this interval. */
  learn(hits: number, heldCall: HeldCall | undefined, descriptor: Descriptor, caller: string, stretch: number): void {
    this.endsInNumbers &&= /^\d+$/.test(descriptor.value(oneByteOf(this.keys.at(-1) ?? "")) ?? "");
    if (heldCall !== undefined) {
      this.use ??= new HoldUse();
      this.use.learn(heldCall);
    }
    if (heldCall?.tookUs === undefined) this.calls++;
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
