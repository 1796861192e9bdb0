// The store that keeps buckets in one Redis, shared by as many processes as there are: a node, and the count of processes.

import type { TakeGroup } from "../../core/take.ts";
import { completeOptions } from "../batching/options.ts";
import { ProcessCount } from "../batching/process-count.ts";
import type { Settled, Store } from "../store.ts";
import type { RedisTarget } from "./connect.ts";
import { ProcessSet } from "./process-set.ts";
import { RedisNode, type RedisOptions } from "./redis-node.ts";
import { loadScripts } from "./scripts.ts";
import { SentinelFinder, type SentinelTarget } from "./sentinel-finder.ts";
import { fixedServer } from "./server-finder.ts";

/** Options of a Redis store; what is absent gets the default named. With an injected time keys live a minute longer. */
export interface RedisStoreOptions extends RedisOptions {
  /** One server, or the primary that sentinels know. */
  readonly target: RedisTarget | SentinelTarget;
}

/** Starts a store; it connects by itself and keeps at it. Never throws because Redis is away: `trouble` says so. */
export function openRedisStore(options: RedisStoreOptions): RedisStore {
  const store = new RedisStore(options);
  store.start();
  return store;
}

/** Keeps buckets in Redis. Always answers later, but for a take that can't be sent at all. */
export class RedisStore implements Store {
  readonly #trackProcesses: boolean;
  readonly #node: RedisNode;
  readonly #processes: ProcessCount;
  #isClosed = false;

  constructor(options: RedisStoreOptions) {
    const { target, keyPrefix = "", jitterSecondsMax = 0, trackProcesses = false } = options;
    this.#trackProcesses = trackProcesses;
    this.#node = new RedisNode({
      ...completeOptions(options),
      finder: "sentinels" in target ? new SentinelFinder(target) : fixedServer(target),
      scripts: loadScripts(),
      // Of two hash slots, so that a node of a cluster shows as one at once and not with some later call.
      selfTestKeys: () => [`${keyPrefix}headgate:self-test`, `${keyPrefix}headgate:self-test:2`],
      jitterSecondsMax,
      onUp: () => void this.#processes.beat(),
    });
    const set = new ProcessSet({
      key: `${keyPrefix}headgate:processes`,
      connection: () => this.#node.connection,
      serverTimeMs: () => this.#node.serverTimeMs(),
    });
    this.#processes = new ProcessCount(set, completeOptions(options).clock);
  }

  /** Begins to connect. Once. */
  start(): void {
    if (this.#trackProcesses) this.#processes.start();
    this.#node.start();
  }

  /** Resolves true once Redis is connected and tested, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    return await this.#node.whenUp(ms);
  }

  take(group: TakeGroup, then: Settled): boolean {
    return this.#node.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.#node.giveBack(group);
  }

  /** Nothing is remembered here. */
  forget(_bucketKey: string): void {
    return;
  }

  /** The first call begins to count; until the first count it is 1. */
  processCount(): number {
    return this.#processes.count();
  }

  /** The first call begins to count, too. */
  sureProcessCount(): number {
    return this.#processes.sureCount();
  }

  /** The first call begins to count, too. */
  processIndex(): number {
    return this.#processes.index();
  }

  trouble(): string | undefined {
    return this.#node.trouble();
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#node.drain();
    await this.#processes.stop();
    this.#node.close();
  }
}
