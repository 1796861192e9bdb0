// The last parts of a window, each a pair of tallies, so that the window can move on.

import { divideDown } from "../../core/units.ts";
import type { Tally } from "./tally.ts";
import type { TrackedKey } from "./tracked-keys.ts";

/** Takes in a stretch of time by key: those that their limit refused, and all others that asked whether something may pass. */
export interface Part {
  readonly passed: Tally<TrackedKey>;
  readonly refused: Tally<TrackedKey>;
}

/** Parts that have ended. They begin at multiples of their length, in every process alike. */
export class EndedParts {
  readonly #lengthUs: number;
  readonly #partsMax: number;
  readonly #onDropped: (part: Part) => void;
  readonly #parts: { readonly part: Part; readonly startUs: number }[] = [];
  /** When the part in hand began. */
  #startUs: number;

  constructor(lengthUs: number, partsMax: number, nowUs: number, onDropped: (part: Part) => void) {
    this.#lengthUs = lengthUs;
    this.#partsMax = partsMax;
    this.#onDropped = onDropped;
    this.#startUs = nowUs - (nowUs % lengthUs);
  }

  /** When the part in hand ends. */
  get endUs(): number {
    return this.#startUs + this.#lengthUs;
  }

  /** When the oldest part that a window has began. */
  get fromUs(): number {
    return this.#startUs - this.#partsMax * this.#lengthUs;
  }

  get parts(): readonly Part[] {
    return this.#parts.map(({ part }) => part);
  }

  /** Keeps what the part in hand came to, and begins the one of that time, which is not before `endUs`. Drops what is too old. */
  end(part: Part, nowUs: number): void {
    this.#parts.push({ part, startUs: this.#startUs });
    this.#startUs += divideDown(nowUs - this.#startUs, this.#lengthUs) * this.#lengthUs;
    while (this.#parts[0] !== undefined && this.#parts[0].startUs < this.fromUs) {
      this.#onDropped((this.#parts.shift() as { part: Part }).part);
    }
  }
}
