// The last parts of a sliding window. Each part has two tallies.

import { divideDown } from "../../../base/units.ts";
import { Tally } from "./tally.ts";
import type { TrackedKey, TrackedKeys } from "./tracked-keys.ts";

/** Takes of a stretch of time, counted by key: refused by their limit, and all others that could have been. */
export interface Part {
  readonly passed: Tally<TrackedKey>;
  readonly refused: Tally<TrackedKey>;
}

interface WindowOptions {
  /** Length of a part. A part begins at a multiple of it, in every process alike. */
  readonly partUs: number;
  /** Ended parts that are kept. */
  readonly partsMax: number;
  /** Most keys of a tally. */
  readonly keysMax: number;
  readonly nowUs: number;
  /** Each tally of a part is a use of its keys here. */
  readonly keys: TrackedKeys;
}

export class WindowParts {
  readonly #options: WindowOptions;
  readonly #ended: { readonly part: Part; readonly startUs: number }[] = [];
  #present = emptyPart();
  /** Start of the present part. */
  #startUs: number;

  constructor(options: WindowOptions) {
    this.#options = options;
    this.#startUs = options.nowUs - (options.nowUs % options.partUs);
  }

  /** End of the present part. */
  get endUs(): number {
    return this.#startUs + this.#options.partUs;
  }

  /** Start of the oldest part of the window. */
  get fromUs(): number {
    return this.#startUs - this.#options.partsMax * this.#options.partUs;
  }

  get parts(): readonly Part[] {
    return [...this.#ended.map(({ part }) => part), this.#present];
  }

  /** Adds to the present part, which ends if `nowUs` is not before its end. Drops parts that are too old. */
  add(part: Part, nowUs: number): void {
    const { partUs, keysMax, keys } = this.#options;
    for (const which of ["passed", "refused"] as const) {
      this.#present[which].add(part[which], (key) => key.uses++);
      this.#present[which].prune(keysMax, (key) => keys.release(key));
    }
    if (nowUs < this.endUs) return;
    this.#ended.push({ part: this.#present, startUs: this.#startUs });
    this.#present = emptyPart();
    this.#startUs += divideDown(nowUs - this.#startUs, partUs) * partUs;
    for (let [old] = this.#ended; old !== undefined && old.startUs < this.fromUs; [old] = this.#ended) {
      this.#ended.shift();
      releasePart(old.part, keys);
    }
  }
}

/** Removes the uses of a part that is no longer read. */
export function releasePart({ passed, refused }: Part, keys: TrackedKeys): void {
  for (const key of [...passed.keys, ...refused.keys]) keys.release(key);
}

function emptyPart(): Part {
  return { passed: new Tally(), refused: new Tally() };
}
