// What stores report about their work; telemetry implements it. Called often, so implementations must be fast, and must
// not throw.

import type { StoreError } from "../base/errors.ts";

export interface StoreObserver {
  /** A round trip with `takes` takes to a shared store succeeded. */
  answered(elapsedUs: number, takes: number): void;
  /** A round trip was repeated, because the store had rolled it back in favour of another. Nothing was paid twice. */
  repeated(): void;
  /** A node of a cluster redirected a round trip to another node, and ran nothing of it. */
  redirected(): void;
  /** The store failed a group. */
  failed(error: StoreError): void;
  /** Damaged buckets, of a wrong type or with impossible numbers, counted as full. */
  damaged(buckets: number): void;
  /** Buckets that had not expired were dropped to stay within BUCKETS_MAX. */
  evicted(buckets: number): void;
  /**
   * Answers were read after their deadline although the store had answered in time: this process's event loop was late.
   */
  loopLate(groups: number): void;
  /** A reply was lost, and its takes may have been paid; nothing is given back without knowing. */
  outcomeUnknown(groups: number): void;
  /** Payments were given back by receipt, because their calls had been answered without the store. */
  gaveBack(takes: number): void;
  /** Payments could not be given back: the call with their receipts was lost, or the store refused for too long. */
  keptPaid(takes: number): void;
  /** The breaker state of one server has changed; a server that is no longer used counts as closed. */
  breakerChanged(server: string, state: "closed" | "open" | "probing"): void;
}

const ignore = () => undefined;

/** Ignores all reports. */
export const SILENT_STORE_OBSERVER: StoreObserver = {
  answered: ignore,
  repeated: ignore,
  redirected: ignore,
  failed: ignore,
  damaged: ignore,
  evicted: ignore,
  loopLate: ignore,
  outcomeUnknown: ignore,
  gaveBack: ignore,
  keptPaid: ignore,
  breakerChanged: ignore,
};
