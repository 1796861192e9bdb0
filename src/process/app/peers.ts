// What the other processes that share the store publish of themselves, for whoever looks at this one.

import { hostname } from "node:os";
import { type Clock, PROCESS_BEGAN_MS } from "../../engine/base/clock.ts";
import { isRecord } from "../../engine/base/is-record.ts";
import { unlessThrown } from "../../engine/base/thrown.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { ProcessState } from "../../operate/http/join-conditions.ts";
import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type { TopWindow } from "../../operate/telemetry/top/top-keys.ts";
import type { RuntimeStore } from "../../stores/runtime-store.ts";

/**
 * Names this process in the register, on its pages and in its answers: host, number and start. In a container the number is always the same,
 * and two clusters may have the same hosts.
 */
export const INSTANCE = `${hostname() || "localhost"}:${process.pid}:${PROCESS_BEGAN_MS.toString(36)}`;

/** Reports of another form are passed over. */
export const REPORT_FORM = 1;
/** Whoever asks again within this time is told the same, so that many who look cost the store no more than one. */
const FRESH_US = MICROS_PER_SECOND;

/** What a process publishes. */
export interface ProcessReport extends ProcessState {
  readonly form: typeof REPORT_FORM;
  readonly name: string;
  readonly version: string;
  readonly top: Readonly<Record<TopWindow, TopSummary>>;
}

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
      this.#reports = this.#store.published().then(
        (texts) => [...new Map(texts.flatMap(readReport).map((report) => [report.name, report])).values()],
        () => undefined,
      );
    }
    return this.#reports;
  }
}

/** None for a report of another form, and for this process's own. */
function readReport(text: string): ProcessReport[] {
  const report: unknown = unlessThrown(SyntaxError, () => JSON.parse(text));
  return isRecord(report) && report.form === REPORT_FORM && report.name !== INSTANCE
    ? [report as unknown as ProcessReport]
    : [];
}
