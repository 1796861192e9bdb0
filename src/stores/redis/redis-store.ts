// The store that keeps buckets in one Redis, shared by as many processes as there are: a node, and the count of processes.

import type { TakeGroup } from "../../core/take.ts";
import { CLOSE_MS_MIN } from "../batching/intake.ts";
import { type BatchingOptions, completeOptions } from "../batching/options.ts";
import type { Settled, Store } from "../store.ts";
import type { RedisTarget } from "./connect.ts";
import { Heartbeat } from "./heartbeat.ts";
import { RedisNode } from "./redis-node.ts";
import { loadTakeAll } from "./scripts.ts";
import { SentinelFinder, type SentinelTarget } from "./sentinel-finder.ts";
import { fixedServer } from "./server-finder.ts";

/** Options of a Redis store; what is absent gets the default named. With an injected time keys live a minute longer. */
export interface RedisStoreOptions extends BatchingOptions {
  /** One server, or the primary that sentinels know. */
  readonly target: RedisTarget | SentinelTarget;
  /** Begins the names of the store's own keys, as it begins bucket keys. Default: empty. */
  readonly keyPrefix?: string;
  /** Seconds, at most, that counters live longer than their window. Default: none. */
  readonly jitterSecondsMax?: number;
  /** Counts processes from the start, not only once somebody asks. Default: false. */
  readonly trackProcesses?: boolean;
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
  readonly #heartbeat: Heartbeat;
  #isClosed = false;

  constructor(options: RedisStoreOptions) {
    const { target, keyPrefix = "", jitterSecondsMax = 0, trackProcesses = false } = options;
    this.#trackProcesses = trackProcesses;
    this.#node = new RedisNode({
      ...completeOptions(options),
      finder: "sentinels" in target ? new SentinelFinder(target) : fixedServer(target),
      script: loadTakeAll(),
      // Of two hash slots, so that a node of a cluster shows as one at once and not with some later call.
      selfTestKeys: () => [`${keyPrefix}headgate:self-test`, `${keyPrefix}headgate:self-test:2`],
      jitterSecondsMax,
      onUp: () => this.#onUp(),
    });
    this.#heartbeat = new Heartbeat({
      key: `${keyPrefix}headgate:processes`,
      connection: () => this.#node.connection,
      serverTimeMs: () => this.#node.serverTimeMs(),
    });
  }

  /** Begins to connect. Once. */
  start(): void {
    if (this.#trackProcesses) this.#heartbeat.start();
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
    if (!this.#isClosed) this.#heartbeat.start();
    return this.#heartbeat.count;
  }

  /** The first call begins to count, too. */
  processIndex(): number {
    if (!this.#isClosed) this.#heartbeat.start();
    return this.#heartbeat.index;
  }

  trouble(): string | undefined {
    return this.#node.trouble();
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connection. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#node.drain();
    await Promise.race([this.#heartbeat.stop(), new Promise((resolve) => setTimeout(resolve, CLOSE_MS_MIN).unref())]);
    this.#node.close();
  }

  #onUp(): void {
    if (this.#heartbeat.isStarted) void this.#heartbeat.beat();
  }
}
