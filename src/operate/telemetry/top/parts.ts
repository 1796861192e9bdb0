// The last parts of a sliding window. Each part has two tallies.

import { divideDown } from "../../../engine/base/units.ts";
import type { Tally } from "./tally.ts";
import type { TrackedKey } from "./tracked-keys.ts";

/** Takes of a stretch of time, counted by key: those refused by their limit, and all others that could have been. */
export interface Part {
  readonly passed: Tally<TrackedKey>;
  readonly refused: Tally<TrackedKey>;
}

/** Parts that have ended. A part begins at a multiple of its length, in every process alike. */
export class EndedParts {
  readonly #lengthUs: number;
  readonly #partsMax: number;
  readonly #onDropped: (part: Part) => void;
  readonly #parts: { readonly part: Part; readonly startUs: number }[] = [];
  /** Start of the present part. */
  #startUs: number;

  constructor(lengthUs: number, partsMax: number, nowUs: number, onDropped: (part: Part) => void) {
    this.#lengthUs = lengthUs;
    this.#partsMax = partsMax;
    this.#onDropped = onDropped;
    this.#startUs = nowUs - (nowUs % lengthUs);
  }

  /** End of the present part. */
  get endUs(): number {
    return this.#startUs + this.#lengthUs;
  }

  /** Start of the oldest part of the window. */
  get fromUs(): number {
    return this.#startUs - this.#partsMax * this.#lengthUs;
  }

  get parts(): readonly Part[] {
    return this.#parts.map(({ part }) => part);
  }

  /** Keeps the present part and begins the one that contains `nowUs`, which must not be before `endUs`. Drops parts that are too old. */
  end(part: Part, nowUs: number): void {
    this.#parts.push({ part, startUs: this.#startUs });
    this.#startUs += divideDown(nowUs - this.#startUs, this.#lengthUs) * this.#lengthUs;
    while (this.#parts[0] !== undefined && this.#parts[0].startUs < this.fromUs) {
      this.#onDropped((this.#parts.shift() as { part: Part }).part);
    }
  }
}
