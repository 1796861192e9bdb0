// Reads what the other processes that share the store publish about themselves.

import { hostname } from "node:os";
import { type Clock, PROCESS_BEGAN_MS } from "../../base/clock.ts";
import { type LongWork, runInTurns } from "../../base/long-work.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { withTimeLimit } from "../../stores/batching/connecting.ts";
import type { ProcessRegister } from "../../stores/process-register.ts";
import { type ProcessReport, readReport } from "./process-report.ts";

/**
 * Names this process in the register, on its pages and in its answers: host, number and start. In a container the
 * number is always the same, and two clusters may have the same hosts.
 */
export const INSTANCE = `${hostname() || "localhost"}:${process.pid}:${PROCESS_BEGAN_MS.toString(36)}`;

/** Answers are reused for this long, so that many viewers cost the store no more than one. */
const FRESH_US = MICROS_PER_SECOND;
/** Longest wait for the store. While it hangs, pages show this process alone. */
const ANSWER_MS_MAX = 1_000;

/** The reports of the other processes. */
export class Peers {
  readonly #register: ProcessRegister | undefined;
  readonly #clock: Clock;
  #askedUs = Number.NEGATIVE_INFINITY;
  #reports: Promise<readonly ProcessReport[] | undefined> = Promise.resolve(undefined);

  constructor(register: ProcessRegister | undefined, clock: Clock) {
    this.#register = register;
    this.#clock = clock;
  }

  /** Undefined if no store is shared, or if it does not answer. */
  reports(): Promise<readonly ProcessReport[] | undefined> {
    const nowUs = this.#clock.nowUs();
    if (this.#register !== undefined && nowUs - this.#askedUs >= FRESH_US) {
      this.#askedUs = nowUs;
      this.#reports = withTimeLimit(ANSWER_MS_MAX, this.#register.published()).then(
        (texts) => runInTurns(readOthers(texts)),
        () => undefined,
      );
    }
    return this.#reports;
  }
}

/** The last report of each process but this one. */
function* readOthers(texts: readonly string[]): LongWork<readonly ProcessReport[]> {
  const others = new Map<string, ProcessReport>();
  for (const text of texts) {
    yield;
    for (const report of readReport(text)) others.set(report.name, report);
  }
  others.delete(INSTANCE);
  return [...others.values()];
}
