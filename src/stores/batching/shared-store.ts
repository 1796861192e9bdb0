// The store that processes share, on any server or servers: passes takes to its backend, counts processes.
// openRedisStore, openClusterStore and openPostgresStore make it around their own backends.

import type { Clock } from "../../base/clock.ts";
import type { Store, StoreHealth, TakeListener } from "../../engine/domain/store.ts";
import type { TakeGroup } from "../../engine/domain/take.ts";
import type { ProcessRegister } from "../process-register.ts";
import { ProcessCount } from "./process-count.ts";

/** One server that keeps buckets (intake.ts), or several that do so together. */
export interface Backend extends StoreHealth {
  /** Begins to connect; to be called once. */
  start(): void;
  /** Decides a group like Store.take. */
  take(group: TakeGroup, then: TakeListener): boolean;
  /** Gives payments back like Store.giveBack. */
  giveBack(group: TakeGroup): void;
  /** Refuses new takes, and waits a moment for outstanding answers. */
  drain(): Promise<void>;
  /** Closes the connections. */
  close(): void;
}

/** Connects in the background. A take is answered in a later turn, except one that can't be sent at all. */
export class SharedStore<B extends Backend = Backend, A = unknown> implements Store, StoreHealth {
  readonly backend: B;
  /** Begins to count at the first question. */
  readonly processes: ProcessCount;
  readonly register: ProcessRegister;
  /** How the server is asked what is no take. */
  readonly aside: A;
  #isClosed = false;

  constructor(backend: B, aside: A, register: ProcessRegister, clock: Clock) {
    this.backend = backend;
    this.aside = aside;
    this.register = register;
    this.processes = new ProcessCount(register, clock);
    backend.start();
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    return this.backend.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.backend.giveBack(group);
  }

  trouble(): string | undefined {
    return this.backend.trouble();
  }

  /** Refuses new takes, waits a moment for outstanding answers, then closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.backend.drain();
    await this.processes.stop();
    this.backend.close();
  }
}
