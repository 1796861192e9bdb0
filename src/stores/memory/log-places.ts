// Sliding logs of the memory store by place. In small parts, so that no growing list is ever copied while a take waits.

import type { LogState } from "../../algorithms/log-state.ts";

const PART_BITS = 11;
const PART = 1 << PART_BITS;

/** Logs by place, a whole number from 0 on that holds until the log is dropped. */
export class LogPlaces {
  readonly #parts: (LogState | undefined)[][] = [];
  readonly #free: number[] = [];
  #end = 0;

  add(log: LogState): number {
    const place = this.#free.pop() ?? this.#end++;
    if (place >>> PART_BITS === this.#parts.length)
      this.#parts.push(new Array<LogState | undefined>(PART).fill(undefined));
    this.replace(place, log);
    return place;
  }

  at(place: number): LogState | undefined {
    return this.#parts[place >>> PART_BITS]?.[place & (PART - 1)];
  }

  replace(place: number, log: LogState | undefined): void {
    const part = this.#parts[place >>> PART_BITS];
    if (part !== undefined) part[place & (PART - 1)] = log;
  }

  drop(place: number): void {
    this.replace(place, undefined);
    this.#free.push(place);
  }
}
