// Where the windows of a calendar lie around a moment, as this process reckons it. Stores know no calendar: they are handed
// three edges with each take, and keep the end of the window that a bucket is in. How edges are found is rules/calendar.ts.

/** Edges of windows, each later than the one before, in microseconds since the epoch; whole seconds. */
export interface WindowEdges {
  readonly startUs: number;
  readonly endUs: number;
  /** End of the window after. */
  readonly nextEndUs: number;
}

/** The windows of one calendar. Finding edges takes some tenth of a millisecond, so those of the current window are kept. */
export class CalendarWindows implements WindowEdges {
  /** How people read it, such as `calendar month from day 15 in Europe/Berlin`. */
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

  /** Has the edges be those around that moment. */
  turnTo(atUs: number): void {
    if (atUs >= this.startUs && atUs < this.endUs) return;
    const { startUs, endUs, nextEndUs } = this.#edgesAround(atUs);
    this.startUs = startUs;
    this.endUs = endUs;
    this.nextEndUs = nextEndUs;
  }
}
