// Options of all stores that takes travel to in batches, with their defaults.

import { type Clock, SystemClock } from "../../base/clock.ts";
import type { StoreError } from "../../base/errors.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import type { Take } from "../../engine/domain/take.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { BREAKER_DEFAULTS, type BreakerOptions } from "./breaker.ts";
import type { StorePatience } from "./server-time.ts";

/** Options of a store on a server, or on several. */
export interface BatchingOptions {
  /** Prefix of the store's own keys, the same as for bucket keys. Default: empty. */
  readonly keyPrefix?: string;
  /** Longest wait of a take for the server, in milliseconds; an earlier deadline of its call counts. */
  readonly deadlineMs: number;
  /** Longest wait of a take whose call has at least twice as much time left, in milliseconds. Default: `deadlineMs`. */
  readonly patienceMs?: number;
  /**
   * A connection is given up when it has owed an answer for this long, and longer than any call waits. Default: 5,000.
   */
  readonly silenceMsMax?: number;
  /** Most takes without a known outcome; further takes fail at once. Default: 16,384. */
  readonly takesInFlightMax?: number;
  readonly breaker?: BreakerOptions;
  readonly observer?: StoreObserver;
  /** Measures deadlines. Default: the system's clock. */
  readonly clock?: Clock;
  /**
   * Called for each payment that is given back without a call of `giveBack`: its call was answered without the store,
   * or another part of the call refused. Other calls may have been refused because of it. Default: ignored.
   */
  readonly onUndone?: (take: Pick<Take, "bucketKey" | "limit">) => void;
  /** The clock of the buckets, in place of the server's; for tests. */
  readonly injectedTime?: Clock;
  /** Added to the names of servers in messages where there are two stores; begins with a blank. Default: empty. */
  readonly nameSuffix?: string;
}

/** BatchingOptions with all defaults filled in, for each server. */
export interface CompleteOptions
  extends StorePatience,
    Required<Omit<BatchingOptions, "keyPrefix" | "deadlineMs" | "patienceMs" | "silenceMsMax" | "injectedTime">> {
  readonly silenceUsMax: number;
  /** Called for each group that the store fails. A cluster looks for its nodes then. */
  readonly onFailed: (error: StoreError) => void;
  readonly injectedTime: Clock | undefined;
}

const SILENCE_MS_MAX = 5_000;
const TAKES_IN_FLIGHT_MAX = 16_384;

/** Fills in the defaults. */
export function completeOptions(options: BatchingOptions): CompleteOptions {
  const { deadlineMs } = options;
  const patienceMs = options.patienceMs ?? deadlineMs;
  const silenceMsMax = Math.max(options.silenceMsMax ?? SILENCE_MS_MAX, deadlineMs, patienceMs);
  const observer = options.observer ?? SILENT_STORE_OBSERVER;
  return {
    deadlineUs: deadlineMs * MICROS_PER_MILLI,
    patienceUs: patienceMs * MICROS_PER_MILLI,
    silenceUsMax: silenceMsMax * MICROS_PER_MILLI,
    takesInFlightMax: options.takesInFlightMax ?? TAKES_IN_FLIGHT_MAX,
    breaker: options.breaker ?? BREAKER_DEFAULTS,
    observer,
    clock: options.clock ?? new SystemClock(),
    onFailed: (error) => observer.failed(error),
    onUndone: options.onUndone ?? (() => undefined),
    injectedTime: options.injectedTime,
    nameSuffix: options.nameSuffix ?? "",
  };
}
