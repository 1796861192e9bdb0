// Logs each kind of event at most once per interval, so that trouble on the decision path can't flood the log. The
// interval grows while the trouble lasts: the first lines say what happens, and an hour of them would say no more.

import type { Clock } from "../../base/clock.ts";
import type { Log, LogFields } from "../../base/log.ts";
import { divideDown, MICROS_PER_SECOND } from "../../base/units.ts";

type Level = "info" | "warn" | "error";

/** Makes a line's fields; called only if the line is written. */
type FieldsSource = () => LogFields;

interface KindState {
  /** Time of the next possible line. */
  nextUs: number;
  intervalUs: number;
  leftOut: number;
  /** Fields and time of the last line that was left out. */
  fields: FieldsSource;
  leftOutUs: number;
  level: Level;
  message: string;
}

/** Most kinds that are kept apart; all further ones share one, so that callers' texts can't fill memory. */
export const LOG_KINDS_MAX = 256;
const INTERVAL_US_MIN = 1_000_000;
const INTERVAL_US_MAX = 60_000_000;

/**
 * Writes at most one line of a kind per interval. The interval begins at a second and doubles, up to a minute, while
 * events keep coming; the next line says how many were left out. A kind that was quiet for a whole interval starts
 * over. `tellDue` reports what was left out as soon as its interval ends, without waiting for the next event.
 */
export class RateLimitedLog {
  readonly #sink: Log;
  readonly #clock: Clock;
  readonly #kinds = new Map<string, KindState>();

  constructor(sink: Log, clock: Clock) {
    this.#sink = sink;
    this.#clock = clock;
  }

  info(kind: string, message: string, fields = NONE): void {
    this.#log("info", kind, message, fields);
  }

  warn(kind: string, message: string, fields = NONE): void {
    this.#log("warn", kind, message, fields);
  }

  error(kind: string, message: string, fields = NONE): void {
    this.#log("error", kind, message, fields);
  }

  /**
   * Writes a line for every kind that has left some out and whose interval has ended. To be called about once a second.
   */
  tellDue(): void {
    const nowUs = this.#clock.nowUs();
    for (const state of this.#kinds.values()) {
      if (state.leftOut === 0 || nowUs < state.nextUs) continue;
      state.intervalUs = Math.min(INTERVAL_US_MAX, 2 * state.intervalUs);
      state.nextUs = nowUs + state.intervalUs;
      this.#tellLeftOut(state, nowUs);
    }
  }

  /** Writes a line for every kind that has left some out; for the end of the process. */
  flush(): void {
    const nowUs = this.#clock.nowUs();
    for (const state of this.#kinds.values()) if (state.leftOut > 0) this.#tellLeftOut(state, nowUs);
  }

  // The line says how long ago the last event was, because the trouble may be over.
  #tellLeftOut(state: KindState, nowUs: number): void {
    const { level, message, leftOut } = state;
    const secondsAgo = divideDown(Math.max(0, nowUs - state.leftOutUs), MICROS_PER_SECOND);
    state.leftOut = 0;
    this.#sink[level](
      { ...state.fields(), left_out: leftOut, ...(secondsAgo === 0 ? {} : { seconds_ago: secondsAgo }) },
      message,
    );
  }

  #log(level: Level, kind: string, message: string, fields: FieldsSource): void {
    const nowUs = this.#clock.nowUs();
    const state = this.#stateOf(kind, level, message);
    if (nowUs < state.nextUs) {
      state.leftOut++;
      state.leftOutUs = nowUs;
      state.fields = fields;
      return;
    }
    const isQuiet = nowUs - state.nextUs >= state.intervalUs;
    const grown = state.leftOut === 0 ? state.intervalUs : Math.min(INTERVAL_US_MAX, 2 * state.intervalUs);
    state.intervalUs = isQuiet ? INTERVAL_US_MIN : grown;
    state.nextUs = nowUs + state.intervalUs;
    const leftOut = state.leftOut;
    state.leftOut = 0;
    this.#sink[level](leftOut === 0 ? fields() : { ...fields(), left_out: leftOut }, message);
  }

  #stateOf(kind: string, level: Level, message: string): KindState {
    const known = this.#kinds.get(kind) ?? (this.#kinds.size >= LOG_KINDS_MAX ? this.#kinds.get("") : undefined);
    if (known !== undefined) return known;
    const state = { nextUs: 0, intervalUs: INTERVAL_US_MIN, leftOut: 0, leftOutUs: 0, fields: NONE, level, message };
    this.#kinds.set(this.#kinds.size >= LOG_KINDS_MAX ? "" : kind, state);
    return state;
  }
}

const NONE: FieldsSource = () => ({});
