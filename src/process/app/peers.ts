// What the other processes that share the store publish of themselves, for whoever looks at this one.

import { hostname } from "node:os";
import { type Clock, PROCESS_BEGAN_MS } from "../../engine/base/clock.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { withTimeLimit } from "../../stores/batching/connecting.ts";
import type { RuntimeStore } from "../../stores/runtime-store.ts";
import { type ProcessReport, readReport } from "./process-report.ts";

/**
 * Names this process in the register, on its pages and in its answers: host, number and start. In a container the number is always the same,
 * and two clusters may have the same hosts.
 */
export const INSTANCE = `${hostname() || "localhost"}:${process.pid}:${PROCESS_BEGAN_MS.toString(36)}`;

/** Whoever asks again within this time is told the same, so that many who look cost the store no more than one. */
const FRESH_US = MICROS_PER_SECOND;
/** Longest wait for the store: whoever looks while it hangs is soon shown this process alone. */
const ANSWER_MS_MAX = 1_000;

/** The reports of the other processes. */
export class Peers {
  readonly #store: RuntimeStore | undefined;
  readonly #clock: Clock;
  #askedUs = Number.NEGATIVE_INFINITY;
  #reports: Promise<readonly ProcessReport[] | undefined> = Promise.resolve(undefined);

  constructor(store: RuntimeStore | undefined, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Undefined if no store is shared, or if it does not answer. */
  reports(): Promise<readonly ProcessReport[] | undefined> {
    const nowUs = this.#clock.nowUs();
    if (this.#store !== undefined && nowUs - this.#askedUs >= FRESH_US) {
      this.#askedUs = nowUs;
      this.#reports = withTimeLimit(ANSWER_MS_MAX, this.#store.published()).then(
        (texts) => {
          const others = texts.flatMap(readReport).filter(({ name }) => name !== INSTANCE);
          return [...new Map(others.map((report) => [report.name, report])).values()];
        },
        () => undefined,
      );
    }
    return this.#reports;
  }
}
