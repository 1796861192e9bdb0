// What stores report of their work; telemetry implements it. Called often: must be cheap, must not throw.

import type { StoreError } from "../core/errors.ts";

export interface StoreObserver {
  /** One round trip to a shared store ended well. `takes` travelled in it. */
  answered(elapsedUs: number, takes: number): void;
  /** A round trip was made again, because the store had undone it for the sake of another one. Nothing was paid twice. */
  repeated(): void;
  /** A node of a cluster sent a round trip on to another node, having run nothing of it. */
  redirected(): void;
  /** A group was failed by the store. */
  failed(error: StoreError): void;
  /** Damaged buckets, of a wrong type or with impossible numbers, were treated as new. */
  damaged(buckets: number): void;
  /** Buckets that still meant something were dropped to stay within BUCKETS_MAX. */
  evicted(buckets: number): void;
  /** Answers came after the deadline although the store was in time: this process's event loop was late. */
  loopLate(groups: number): void;
  /** A reply was lost after its takes may have been paid; nothing is given back by guess. */
  outcomeUnknown(groups: number): void;
  /** Payments of calls that had been answered without the store, undone by receipt. */
  gaveBack(takes: number): void;
  /** Payments that were to be undone and stay paid: the call that carried them was lost, or the store refused for too long. */
  keptPaid(takes: number): void;
  /** Of the worst of the servers that make up the store. */
  breakerChanged(state: "closed" | "open" | "probing"): void;
  /** Of one server, by its name in sentences. One that is no longer used is closed. */
  serverBreakerChanged(server: string, state: "closed" | "open" | "probing"): void;
}

const ignore = () => undefined;

/** Reports nothing. */
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
  serverBreakerChanged: ignore,
};
