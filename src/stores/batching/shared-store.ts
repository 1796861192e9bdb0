// The store that processes share, on whatever server or servers: takes go to its backend, processes are counted beside it.
// openRedisStore, openClusterStore and openPostgresStore put it around backends of their own.

import type { TakeGroup } from "../../core/take.ts";
import type { SettleListener, Store, StoreHealth } from "../store.ts";
import type { ProcessCount } from "./process-count.ts";

/** One server that keeps buckets, or several that do so together. */
export interface Backend extends StoreHealth {
  /** Begins to connect. Once. */
  start(): void;
  /** As Store.take. */
  take(group: TakeGroup, then: SettleListener): boolean;
  /** As Store.giveBack. */
  giveBack(group: TakeGroup): void;
  /** Refuses new takes and waits a moment for the answers that are due. */
  drain(): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** Connects by itself. Always answers later, but for a take that can't be sent at all. */
export class SharedStore<B extends Backend = Backend> implements Store, StoreHealth {
  readonly backend: B;
  /** Begins to count with the first question. */
  readonly processes: ProcessCount;
  #isClosed = false;

  constructor(backend: B, processes: ProcessCount) {
    this.backend = backend;
    this.processes = processes;
    backend.start();
  }

  take(group: TakeGroup, then: SettleListener): boolean {
    return this.backend.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.backend.giveBack(group);
  }

  trouble(): string | undefined {
    return this.backend.trouble();
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.backend.drain();
    await this.processes.stop();
    this.backend.close();
  }
}
