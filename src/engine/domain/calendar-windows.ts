// The edges of calendar windows around a moment, by this process's time zone data. Stores know no calendar: each take
// brings three edges, and the store keeps the end of the window that the bucket is in. engine/rules/calendar.ts finds
// the edges.

/** Edges of windows, each later than the one before, in microseconds since the epoch; whole seconds. */
export interface WindowEdges {
  readonly startUs: number;
  readonly endUs: number;
  /** End of the window after. */
  readonly nextEndUs: number;
}

/** The windows of one calendar. It takes about 0.1 ms to find edges, so the edges of the current window are kept. */
export class CalendarWindows implements WindowEdges {
  /** The calendar in words, such as `calendar month from day 15 in Europe/Berlin`. */
  readonly words: string;
  readonly #edgesAround: (atUs: number) => WindowEdges;
  startUs = 0;
  endUs = 0;
  nextEndUs = 0;

  /** `edgesAround` gives the edges of the window that holds a moment. */
  constructor(words: string, edgesAround: (atUs: number) => WindowEdges) {
    this.words = words;
    this.#edgesAround = edgesAround;
  }

  /** Sets the edges to those of the window that holds `atUs`. */
  turnTo(atUs: number): void {
    if (atUs >= this.startUs && atUs < this.endUs) return;
    const { startUs, endUs, nextEndUs } = this.#edgesAround(atUs);
    this.startUs = startUs;
    this.endUs = endUs;
    this.nextEndUs = nextEndUs;
  }
}
