// What every store that takes travel to in batches can be told, and what holds if it is not.

import { type Clock, SystemClock } from "../../core/clock.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { BREAKER_DEFAULTS, type BreakerOptions } from "./breaker.ts";
import type { StorePatience } from "./store-patience.ts";

/** Options of a store on a server; what is absent gets the default named. */
export interface BatchingOptions {
  /** How long a take may wait for the server; a call's own deadline counts if it is shorter. Default: 15. */
  readonly deadlineMs?: number;
  /** How long a take may wait whose call's own deadline leaves at least twice as long. Default: `deadlineMs`. */
  readonly patienceMs?: number;
  /** A connection that owes an answer for longer than this is given up. Default: 5,000. */
  readonly silenceMsMax?: number;
  /** Takes whose outcome is not known yet; beyond them takes fail at once. Default: 16,384. */
  readonly takesInFlightMax?: number;
  readonly breaker?: BreakerOptions;
  readonly observer?: StoreObserver;
  /** Measures deadlines. Default: the system's. */
  readonly clock?: Clock;
  /** Time that buckets live by, in place of the server's own; for tests. */
  readonly injectedTime?: Clock;
}

/** Options of the whole of a store that processes share, on one server or on several. */
export interface SharedStoreOptions extends BatchingOptions {
  /** Begins the names of the store's own keys, as it begins bucket keys. Default: empty. */
  readonly keyPrefix?: string;
}

/** BatchingOptions with every default in its place. */
export interface CompleteOptions extends StorePatience {
  readonly silenceUsMax: number;
  readonly takesInFlightMax: number;
  readonly breaker: BreakerOptions;
  readonly observer: StoreObserver;
  readonly clock: Clock;
  readonly injectedTime: Clock | undefined;
}

const DEADLINE_MS = 15;
const SILENCE_MS_MAX = 5_000;
const TAKES_IN_FLIGHT_MAX = 16_384;

/** Fills in what is absent. */
export function completeOptions(options: BatchingOptions): CompleteOptions {
  const deadlineMs = options.deadlineMs ?? DEADLINE_MS;
  return {
    deadlineUs: deadlineMs * MICROS_PER_MILLI,
    patienceUs: (options.patienceMs ?? deadlineMs) * MICROS_PER_MILLI,
    silenceUsMax: (options.silenceMsMax ?? SILENCE_MS_MAX) * MICROS_PER_MILLI,
    takesInFlightMax: options.takesInFlightMax ?? TAKES_IN_FLIGHT_MAX,
    breaker: options.breaker ?? BREAKER_DEFAULTS,
    observer: options.observer ?? SILENT_STORE_OBSERVER,
    clock: options.clock ?? new SystemClock(),
    injectedTime: options.injectedTime,
  };
}
