// The store that keeps buckets in a Redis Cluster: a RedisNode for each primary, and each bucket at the node that serves the hash slot of
// its tag (cluster-tags.ts). Takes of one tag travel in one script call; sharded/sharded-calls.ts settles calls with buckets of several
// tags. cluster-nodes.ts knows which node serves which slot.

import { StoreError } from "../../engine/base/errors.ts";
import { type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { completeOptions } from "../batching/options.ts";
import { type Backend, SharedStore } from "../batching/shared-store.ts";
import type { Shards } from "../sharded/sharded-call.ts";
import { ShardedCalls } from "../sharded/sharded-calls.ts";
import type { SettleListener } from "../store.ts";
import type { StoreObserver } from "../store-observer.ts";
import type { RedisBatch } from "./batch.ts";
import { ClusterNodes } from "./cluster-nodes.ts";
import { ClusterTags, keySlot } from "./cluster-tags.ts";
import type { ClusterTarget } from "./cluster-topology.ts";
import { processSet } from "./process-set.ts";
import type { RedisNode, RedisOptions } from "./redis-node.ts";
import { loadScript } from "./scripts.ts";

/** Options of a cluster's store. Those of BatchingOptions apply to each node. */
export interface ClusterStoreOptions extends RedisOptions {
  readonly target: ClusterTarget;
  /** Number of hash tags; must be equal for all processes on the cluster. Default: 16. */
  readonly tags?: number;
}

/** Opens the store, which finds and connects its nodes in the background. Never throws because they are away; `trouble` tells. */
export function openClusterStore(options: ClusterStoreOptions): SharedStore<ClusterBackend> {
  const backend = new ClusterBackend(options);
  const register = processSet(options.keyPrefix ?? "", (key) => backend.ownerOf(keySlot(key)));
  return new SharedStore(backend, register, completeOptions(options).clock);
}

/** The nodes of a cluster. A call with buckets of several tags is settled over the nodes that serve them. */
class ClusterBackend implements Backend {
  readonly #nodes: ClusterNodes;
  readonly #tags: ClusterTags;
  readonly #calls: ShardedCalls;
  /** For calls on a slot that is moving: each bucket is a shard. */
  readonly #callsApart: ShardedCalls;
  readonly #observer: StoreObserver;
  #isClosed = false;

  constructor(options: ClusterStoreOptions) {
    const { target, keyPrefix = "", jitterSecondsMax = 0 } = options;
    const complete = completeOptions(options);
    this.#observer = complete.observer;
    this.#tags = new ClusterTags(options.tags, keyPrefix);
    this.#nodes = new ClusterNodes({
      ...complete,
      target,
      keyPrefix,
      tags: this.#tags,
      sendApart: (batch) => this.#sendApart(batch),
      script: loadScript(),
      jitterSecondsMax,
    });
    const shards: Omit<Shards, "shardOf"> = {
      takeAt: (queue, group, then) => this.#takeAt(queue, group, then),
      giveBackAt: (queue, group) => this.#giveBackAt(queue, group),
      onUndone: complete.onUndone,
    };
    this.#calls = new ShardedCalls({ ...shards, shardOf: (take) => this.#tags.queueOf(take) });
    this.#callsApart = new ShardedCalls({ ...shards, shardOf: (take) => this.#tags.queueAlone(take) });
  }

  start(): void {
    this.#nodes.start();
  }

  /** The node that serves the slot; undefined if none is known. */
  ownerOf(slot: number): RedisNode | undefined {
    return this.#nodes.ownerOf(slot);
  }

  take(group: TakeGroup, then: SettleListener): boolean {
    return this.#calls.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.#calls.giveBack(group);
  }

  trouble(): string | undefined {
    return this.#nodes.trouble();
  }

  async drain(): Promise<void> {
    this.#isClosed = true;
    await this.#nodes.drain();
  }

  close(): void {
    this.#nodes.close();
  }

  #takeAt(queue: number, group: TakeGroup, then: SettleListener): boolean {
    const node = this.#nodes.ownerOf(this.#tags.slotOf(queue));
    if (node !== undefined) return node.take(group, then, queue);
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

  #giveBackAt(queue: number, group: TakeGroup): void {
    const node = this.#nodes.ownerOf(this.#tags.slotOf(queue));
    if (node !== undefined) node.giveBack(group, queue);
    else this.#observer.keptPaid(group.size);
  }

  /** Sends each bucket of the batch by itself, within the times that the groups have left. */
  #sendApart(batch: RedisBatch): void {
    for (const receipt of batch.receipts) {
      const queue = this.#tags.queueAlone(receipt);
      const node = this.#nodes.ownerOf(this.#tags.slotOf(queue));
      if (node !== undefined) node.addReceipt(receipt, queue);
      else this.#observer.keptPaid(1);
    }
    for (const { group, generation, then, state, answerByUs } of batch.groups) {
      if (state === "answered" || group.generation !== generation) continue;
      // Called later, so that an exception of one caller does not reach the other groups.
      if (this.#callsApart.takeBy(answerByUs, group, then)) queueMicrotask(() => then.settled(group, generation));
    }
  }

  // One object per trouble, because creating an error with its stack costs more than a take.
  #unserved(): StoreError {
    const sentence = this.#nodes.trouble() ?? "a slot of the Redis Cluster is served by nobody";
    if (this.#unservedError?.message !== sentence) this.#unservedError = new StoreError("STORE_UNREACHABLE", sentence);
    return this.#unservedError;
  }
  #unservedError: StoreError | undefined;
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed");
