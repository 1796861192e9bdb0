// The store that keeps buckets in a Redis Cluster: one RedisNode for each primary, every bucket at the node that serves the
// hash slot of its key. Takes of one slot travel in one script call; a call whose buckets lie in several slots is settled by
// sharded/sharded-calls.ts. Who serves what is cluster-nodes.ts.

import { StoreError } from "../../core/errors.ts";
import { type Take, type TakeGroup, Verdict } from "../../core/take.ts";
import { completeOptions } from "../batching/options.ts";
import { ProcessCount } from "../batching/process-count.ts";
import { ShardedCalls } from "../sharded/sharded-calls.ts";
import type { Settled, Store } from "../store.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../store-observer.ts";
import { ClusterNodes } from "./cluster-nodes.ts";
import type { ClusterTarget } from "./cluster-topology.ts";
import { keySlot } from "./key-slot.ts";
import { ProcessSet } from "./process-set.ts";
import type { RedisOptions } from "./redis-node.ts";
import { loadScripts } from "./scripts.ts";

/** Options of a cluster's store; those of BatchingOptions hold for each node. */
export interface ClusterStoreOptions extends RedisOptions {
  readonly target: ClusterTarget;
  /** Hears of each take that was paid and is given back, because another part of its call refused or failed. */
  readonly onUndone?: (take: Take) => void;
}

/** Starts a store; it finds the nodes by itself and keeps at it. Never throws because they are away: `trouble` says so. */
export function openClusterStore(options: ClusterStoreOptions): ClusterStore {
  const store = new ClusterStore(options);
  store.start();
  return store;
}

/** Keeps buckets in a cluster. Always answers later, but for takes that can't be sent at all. */
export class ClusterStore implements Store {
  readonly #nodes: ClusterNodes;
  readonly #calls: ShardedCalls;
  readonly #processes: ProcessCount;
  readonly #observer: StoreObserver;
  readonly #trackProcesses: boolean;
  #isClosed = false;

  constructor(options: ClusterStoreOptions) {
    const { target, keyPrefix = "", jitterSecondsMax = 0, trackProcesses = false } = options;
    this.#observer = options.observer ?? SILENT_STORE_OBSERVER;
    this.#trackProcesses = trackProcesses;
    const key = `${keyPrefix}headgate:processes`;
    const slot = keySlot(key);
    const node = () => this.#nodes.ownerOf(slot);
    const set = new ProcessSet({
      key,
      connection: () => node()?.connection,
      serverTimeMs: () => node()?.serverTimeMs() ?? 0,
    });
    this.#processes = new ProcessCount(set, completeOptions(options).clock);
    this.#nodes = new ClusterNodes({
      ...completeOptions(options),
      target,
      keyPrefix,
      scripts: loadScripts(),
      jitterSecondsMax,
      onUp: () => void this.#processes.beat(),
    });
    this.#calls = new ShardedCalls({
      shardOf: ({ bucketKey }) => keySlot(bucketKey),
      takeAt: (slot, group, then) => this.#takeAt(slot, group, then),
      giveBackAt: (slot, group) => this.#giveBackAt(slot, group),
      onUndone: (take) => options.onUndone?.(take),
    });
  }

  /** Begins to connect. Once. */
  start(): void {
    if (this.#trackProcesses) this.#processes.start();
    this.#nodes.start();
  }

  /** Resolves true once every slot is served by a node that is connected and tested, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    return await this.#nodes.whenUp(ms);
  }

  take(group: TakeGroup, then: Settled): boolean {
    return this.#calls.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.#calls.giveBack(group);
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
    return this.#nodes.trouble();
  }

  /** Refuses new takes, waits a moment for the answers that are due, then closes the connections. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#nodes.drain();
    await this.#processes.stop();
    this.#nodes.close();
  }

  #takeAt(slot: number, group: TakeGroup, then: Settled): boolean {
    const node = this.#nodes.ownerOf(slot);
    if (node !== undefined) return node.take(group, then, slot);
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    group.verdict = Verdict.failed;
    group.failure = this.#isClosed ? CLOSED : this.#unserved();
    this.#observer.failed(group.failure);
    this.#nodes.askSoon();
    return true;
  }

  #giveBackAt(slot: number, group: TakeGroup): void {
    const node = this.#nodes.ownerOf(slot);
    if (node !== undefined) node.giveBack(group, slot);
    else this.#observer.keptPaid(group.size);
  }

  // One object per trouble: an error's stack costs more than a take.
  #unserved(): StoreError {
    const sentence = this.#nodes.trouble() ?? "a slot of the Redis Cluster is served by nobody";
    if (this.#unservedError?.message !== sentence)
      this.#unservedError = new StoreError("STORE_UNREACHABLE", sentence, { transient: true });
    return this.#unservedError;
  }
  #unservedError: StoreError | undefined;
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed", { transient: false });
