// Joins the reports of several servers that make up one store: each has a breaker, and the worst state is reported.

import type { StoreObserver } from "../store-observer.ts";
import type { BreakerState } from "./breaker.ts";

const FROM_BEST: readonly BreakerState[] = ["closed", "probing", "open"];

/** Gives each server its own observer. */
export class BreakerReports {
  readonly #observer: StoreObserver;
  /** Of the servers that are in use. */
  readonly #states = new Map<StoreObserver, BreakerState>();
  readonly #names = new Map<StoreObserver, string>();
  #reported: BreakerState = "closed";

  constructor(observer: StoreObserver) {
    this.#observer = observer;
  }

  /** An observer for one more server. `suffix` is added to its name in reports about its breaker, to tell it from another server. */
  observer(suffix = ""): StoreObserver {
    const whole = this.#observer;
    const own: StoreObserver = {
      answered: (elapsedUs, takes) => whole.answered(elapsedUs, takes),
      repeated: () => whole.repeated(),
      redirected: () => whole.redirected(),
      failed: (error) => whole.failed(error),
      damaged: (buckets) => whole.damaged(buckets),
      evicted: (buckets) => whole.evicted(buckets),
      loopLate: (groups) => whole.loopLate(groups),
      outcomeUnknown: (groups) => whole.outcomeUnknown(groups),
      gaveBack: (takes) => whole.gaveBack(takes),
      keptPaid: (takes) => whole.keptPaid(takes),
      breakerChanged: (state) => {
        // A probe may end after its server was dropped.
        if (!this.#states.has(own)) return;
        this.#states.set(own, state);
        this.#report();
      },
      serverBreakerChanged: (server, state) => {
        if (!this.#states.has(own)) return;
        const name = `${server}${suffix}`;
        this.#names.set(own, name);
        whole.serverBreakerChanged(name, state);
      },
    };
    this.#states.set(own, "closed");
    return own;
  }

  /** Notes that the observer's server is no longer used. */
  drop(observer: StoreObserver): void {
    const name = this.#names.get(observer);
    if (name !== undefined) this.#observer.serverBreakerChanged(name, "closed");
    this.#names.delete(observer);
    if (this.#states.delete(observer)) this.#report();
  }

  #report(): void {
    let worst = 0;
    for (const state of this.#states.values()) worst = Math.max(worst, FROM_BEST.indexOf(state));
    const state = FROM_BEST[worst] ?? "closed";
    if (state === this.#reported) return;
    this.#reported = state;
    this.#observer.breakerChanged(state);
  }
}
