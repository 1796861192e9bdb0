// Logs each kind of event at most once per interval, so that trouble on the decision path can't drown the log. The interval
// grows while the trouble lasts: the first lines say what happens, an hour of them would say no more.

import type { Clock } from "../core/clock.ts";

/** The part of a logger that this needs. */
export interface LogSink {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Made only if the line is written. */
export type FieldsSource = () => object;

type Level = keyof LogSink;

interface KindState {
  /** Not before this is a line written. */
  nextUs: number;
  intervalUs: number;
  leftOut: number;
  /** Of one that was left out last, for the end of the process. */
  fields: FieldsSource;
  level: Level;
  message: string;
}

/** Kinds told apart; further ones share one, so that text of callers can't fill memory. */
export const LOG_KINDS_MAX = 256;
const INTERVAL_US_MIN = 1_000_000;
const INTERVAL_US_MAX = 60_000_000;

/**
 * Writes a line of each kind at most once a second, and less and less often, down to once a minute, while there are more of
 * them; the next line says how many were left out. A kind that was quiet for its interval begins anew.
 */
export class RateLimitedLog {
  readonly #sink: LogSink;
  readonly #clock: Clock;
  readonly #kinds = new Map<string, KindState>();

  constructor(sink: LogSink, clock: Clock) {
    this.#sink = sink;
    this.#clock = clock;
  }

  info(kind: string, message: string, fields: FieldsSource): void {
    this.#log("info", kind, message, fields);
  }

  warn(kind: string, message: string, fields: FieldsSource): void {
    this.#log("warn", kind, message, fields);
  }

  error(kind: string, message: string, fields: FieldsSource): void {
    this.#log("error", kind, message, fields);
  }

  /** Writes a line for every kind that has left some out. For the end of the process and for slow timers. */
  flush(): void {
    for (const state of this.#kinds.values()) {
      if (state.leftOut === 0) continue;
      this.#sink[state.level]({ ...state.fields(), leftOut: state.leftOut }, state.message);
      state.leftOut = 0;
    }
  }

  #log(level: Level, kind: string, message: string, fields: FieldsSource): void {
    const nowUs = this.#clock.nowUs();
    const state = this.#stateOf(kind, level, message);
    if (nowUs < state.nextUs) {
      state.leftOut++;
      state.fields = fields;
      return;
    }
    const isQuiet = nowUs - state.nextUs >= state.intervalUs;
    const grown = state.leftOut === 0 ? state.intervalUs : Math.min(INTERVAL_US_MAX, 2 * state.intervalUs);
    state.intervalUs = isQuiet ? INTERVAL_US_MIN : grown;
    state.nextUs = nowUs + state.intervalUs;
    const leftOut = state.leftOut;
    state.leftOut = 0;
    this.#sink[level](leftOut === 0 ? fields() : { ...fields(), leftOut }, message);
  }

  #stateOf(kind: string, level: Level, message: string): KindState {
    const known = this.#kinds.get(kind) ?? (this.#kinds.size >= LOG_KINDS_MAX ? this.#kinds.get("") : undefined);
    if (known !== undefined) return known;
    const state = { nextUs: 0, intervalUs: INTERVAL_US_MIN, leftOut: 0, fields: NONE, level, message };
    this.#kinds.set(this.#kinds.size >= LOG_KINDS_MAX ? "" : kind, state);
    return state;
  }
}

const NONE: FieldsSource = () => ({});
