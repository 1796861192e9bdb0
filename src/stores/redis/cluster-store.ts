// The store that keeps buckets in a Redis Cluster: a RedisNode for each primary, and each bucket at the node that
// serves the hash slot of its tag (cluster-tags.ts). Takes of one tag travel in one script call;
// sharded/sharded-calls.ts decides calls with buckets of several tags. Nodes come and go with the cluster's topology; a
// batch that was sent to the wrong node is sent on.
//
// - A slot's owner is the node that the last view of the topology, or a MOVED since, names for it. While that node is
//   not connected, its predecessor stays: it redirects calls, so no call is lost between two owners.
// - No node is an owner while this process's number of tags is not agreed on (tag-count.ts).
// - A batch is sent on only after an error by which nothing of it was run: MOVED, ASK, and CLUSTERDOWN of a node that
//   is not the owner any more, at most REDIRECTIONS_MAX times; TRYAGAIN, bucket by bucket. While the node that is named
//   is not connected, the first one is retried. Deadlines hold all the while.
// - A node is dropped when the topology gives it no slot, it owns none from before, and no redirection has named it for
//   AWAITED_US. What it was to give back goes to the present owners of the slots, or is counted.

import { StoreError } from "../../base/errors.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import { type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { TcpAddress } from "../../settings/store-address.ts";
import type { Receipt } from "../batching/give-backs.ts";
import { completeOptions } from "../batching/options.ts";
import { type Backend, SharedStore } from "../batching/shared-store.ts";
import { ShardedCalls, type Shards } from "../sharded/sharded-calls.ts";
import type { AsideOptions } from "./aside.ts";
import { ClusterTags, keySlot, SLOTS } from "./cluster-tags.ts";
import {
  type ClusterTarget,
  ClusterTopology,
  nodeNameOf,
  readRedirection,
  type SlotRange,
} from "./cluster-topology.ts";
import { CLUSTER_NODE, nameOfTarget } from "./connect-trouble.ts";
import { redisProcessRegister } from "./process-register.ts";
import type { RedisBatch } from "./redis-batch.ts";
import { fixedServer } from "./redis-link.ts";
import { type Redirected, RedisNode, type RedisNodeOptions, type RedisOptions } from "./redis-node.ts";
import { loadScripts } from "./scripts.ts";
import { TagCount } from "./tag-count.ts";

/** Most primaries. Further ones are not connected to, so their slots count as unserved. */
const NODES_MAX = 512;
/** A node without slots is kept for this long after a redirection to it. */
const AWAITED_US = 30_000_000;
/**
 * Redirections per batch: one for a slot that has moved, others for an ASK at the end of its move, and for a failover.
 */
const REDIRECTIONS_MAX = 3;

/** Options of a cluster's store. BatchingOptions apply to each node. */
export interface ClusterStoreOptions extends RedisOptions {
  readonly target: ClusterTarget;
  /** Number of hash tags; must be equal for all processes on the cluster. Default: 16. */
  readonly tags?: number;
}

/**
 * Opens the store, which finds and connects its nodes in the background. Never throws because they are away; `trouble`
 * reports it.
 */
export function openClusterStore(options: ClusterStoreOptions): SharedStore<ClusterBackend, AsideOptions> {
  const backend = new ClusterBackend(options);
  const { keyPrefix = "" } = options;
  const nodeOf = (key: string) => backend.ownerOf(keySlot(key));
  const { clock } = completeOptions(options);
  const aside = { kind: "redis", keyPrefix, nodeOf, clock } as const;
  return new SharedStore(backend, aside, redisProcessRegister(aside), clock);
}

interface ClusterNode {
  readonly name: string;
  readonly address: TcpAddress;
  readonly node: RedisNode;
  /** Number of slots that it serves. Without any, the node is dropped at the next view of the topology. */
  slots: number;
  /** One of its slots; -1 without any. */
  oneSlot: number;
  /** Until when the node is kept without slots, because a slot is moving there; by the process's Clock. */
  awaitedUntilUs: number;
}

/** The nodes of a cluster. A call with buckets of several tags is decided over the nodes that serve them. */
class ClusterBackend implements Backend {
  readonly #target: ClusterTarget;
  readonly #keyPrefix: string;
  /** Of every node. */
  readonly #options: Omit<RedisNodeOptions, "finder" | "selfTestKeys">;
  readonly #tags: ClusterTags;
  readonly #tagCount: TagCount;
  readonly #topology: ClusterTopology;
  readonly #calls: ShardedCalls;
  /** For calls on a slot that is moving: each bucket is a shard. */
  readonly #callsApart: ShardedCalls;
  readonly #nodes = new Map<string, ClusterNode>();
  /** By slot. */
  readonly #owners: (ClusterNode | undefined)[] = new Array<undefined>(SLOTS).fill(undefined);
  #unserved = SLOTS;
  /** Batches that were sent on, since the start. */
  #redirections = 0;
  /** The last view of the slots, if a node that it names is not connected yet. */
  #awaited: readonly SlotRange[] | undefined;
  #isClosed = false;

  constructor(options: ClusterStoreOptions) {
    const { target, keyPrefix = "", jitterSecondsMax = 0 } = options;
    const complete = completeOptions(options);
    this.#target = target;
    this.#keyPrefix = keyPrefix;
    this.#tags = new ClusterTags(options.tags, keyPrefix);
    this.#options = { ...complete, scripts: loadScripts(), jitterSecondsMax, tags: this.#tags };
    const key = `${keyPrefix}headgate:cluster-tags`;
    this.#tagCount = new TagCount(this.#tags.count, key, () => this.#owners[keySlot(key)]?.node);
    this.#topology = new ClusterTopology({
      target,
      nodes: () => [...this.#nodes.values()],
      onSlots: (ranges) => this.#onSlots(ranges),
      isWell: () => this.trouble() === undefined,
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
    this.#topology.start();
  }

  /** The node that serves the slot, as far as known. Undefined while other processes may use another number of tags. */
  ownerOf(slot: number): RedisNode | undefined {
    return this.#tagCount.wasAgreed ? this.#owners[slot]?.node : undefined;
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    return this.#calls.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.#calls.giveBack(group);
  }

  /** Undefined if every slot is served; otherwise the reason, in one sentence. */
  trouble(): string | undefined {
    if (this.#nodes.size === 0) return this.#topology.trouble ?? "no node of the Redis Cluster serves any slot";
    for (const { node } of this.#nodes.values()) {
      const trouble = node.trouble();
      if (trouble !== undefined) return trouble;
    }
    if (this.#unserved > 0)
      return `${this.#unserved} of the ${SLOTS} slots of the Redis Cluster are not served by any node`;
    return this.#tagCount.trouble;
  }

  /** Refuses new takes, and waits a moment for outstanding answers. */
  async drain(): Promise<void> {
    this.#isClosed = true;
    this.#topology.close();
    // A node may redirect what it has to a node that was idle, or new; each batch at most REDIRECTIONS_MAX times.
    let before: number;
    do {
      before = this.#redirections;
      await Promise.all([...this.#nodes.values()].map(({ node }) => node.drain()));
    } while (this.#redirections !== before);
  }

  close(): void {
    this.#topology.close();
    for (const { node } of this.#nodes.values()) node.close();
  }

  #takeAt(queue: number, group: TakeGroup, then: TakeListener): boolean {
    const node = this.ownerOf(this.#tags.slotOf(queue));
    if (node !== undefined) return node.take(group, then, queue);
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    group.verdict = Verdict.failed;
    group.failure = this.#isClosed ? CLOSED : this.#noOwner();
    this.#options.observer.failed(group.failure);
    this.#topology.askSoon();
    return true;
  }

  #giveBackAt(queue: number, group: TakeGroup): void {
    const node = this.ownerOf(this.#tags.slotOf(queue));
    if (node !== undefined) node.giveBack(group, queue);
    else this.#options.observer.keptPaid(group.size);
  }

  #addReceipt(receipt: Receipt): void {
    const node = this.ownerOf(this.#tags.slotOf(receipt.queue));
    if (node !== undefined) node.giveBacks.add(receipt);
    else this.#options.observer.keptPaid(1);
  }

  /** Sends each bucket of the batch on its own, within the times that the groups have left. */
  #sendApart(batch: RedisBatch): void {
    for (const { group, generation, then, state, answerByUs } of batch.groups) {
      if (state === "answered" || group.generation !== generation) continue;
      // Called later, so that an exception of one caller does not reach the other groups.
      if (this.#callsApart.takeBy(answerByUs, group, then)) queueMicrotask(() => then.answered(group, generation));
    }
  }

  // One object per trouble, because creating an error with its stack costs more than a take.
  #noOwner(): StoreError {
    const sentence = this.trouble() ?? "a slot of the Redis Cluster is served by nobody";
    if (this.#noOwnerError?.message !== sentence) this.#noOwnerError = new StoreError("STORE_UNREACHABLE", sentence);
    return this.#noOwnerError;
  }
  #noOwnerError: StoreError | undefined;

  #onSlots(ranges: readonly SlotRange[]): void {
    for (const one of this.#nodes.values()) {
      one.slots = 0;
      one.oneSlot = -1;
    }
    const before = [...this.#owners];
    const inUse = new Set<ClusterNode>();
    this.#owners.fill(undefined);
    this.#unserved = SLOTS;
    this.#awaited = undefined;
    for (const { first, last, primary } of ranges) {
      const named = this.#nodeAt(primary);
      if (named === undefined) continue;
      if (!isUp(named)) this.#awaited = ranges;
      for (let slot = first; slot <= last; slot++) {
        if (this.#owners[slot] === undefined) this.#unserved--;
        named.slots++;
        named.oneSlot = slot;
        // Until the new owner is connected, the old one keeps getting calls; it redirects them, and they wait for the
        // new owner.
        const last = before[slot];
        const owner = !isUp(named) && last !== undefined && isUp(last) ? last : named;
        this.#owners[slot] = owner;
        inUse.add(owner);
      }
    }
    const nowUs = this.#options.clock.nowUs();
    for (const one of [...this.#nodes.values()]) {
      if (one.slots === 0 && !inUse.has(one) && one.awaitedUntilUs <= nowUs) this.#drop(one);
    }
    void this.#tagCount.check();
  }

  #nodeAt(address: TcpAddress): ClusterNode | undefined {
    const name = nodeNameOf(address);
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    if (this.#nodes.size >= NODES_MAX) return undefined;
    const made = this.#open(name, address);
    this.#nodes.set(name, made);
    made.node.start();
    return made;
  }

  #open(name: string, address: TcpAddress): ClusterNode {
    const options = this.#options;
    const { database, login, loginFile, tls, connectTimeoutMs } = this.#target;
    const server = { database, login, loginFile, tls, connectTimeoutMs, address, called: CLUSTER_NODE };
    const node = new RedisNode({
      ...options,
      onFailed: (error) => {
        options.onFailed(error);
        this.#topology.askSoon();
      },
      name: nameOfTarget(server),
      finder: fixedServer(server),
      // A node without slots accepts no key yet.
      selfTestKeys: () => (made.oneSlot < 0 ? [] : [keyIn(made.oneSlot, `${this.#keyPrefix}headgate:self-test`)]),
      onUp: () => {
        if (this.#awaited !== undefined) this.#onSlots(this.#awaited);
        else void this.#tagCount.check();
      },
      redirect: (batch, message) => this.#redirect(made, batch, message),
    });
    const made: ClusterNode = { name, address, node, slots: 0, oneSlot: -1, awaitedUntilUs: 0 };
    return made;
  }

  /** Other nodes serve its slots now; they get its outstanding receipts. */
  #drop(one: ClusterNode): void {
    this.#nodes.delete(one.name);
    for (const receipt of one.node.giveBacks.drain()) this.#addReceipt(receipt);
    one.node.forgetBreaker();
    // If the node has only given its slots away, it still answers the calls under way.
    void one.node.drain().then(() => one.node.close());
  }

  // Nothing was run, so the batch may be sent again. MOVED is valid for the whole slot from now on, ASK for this batch
  // only.
  #redirect(from: ClusterNode, batch: RedisBatch, message: string): Redirected {
    if (message.startsWith("TRYAGAIN")) return this.#splitUp(from, batch);
    if (message.startsWith("CLUSTERDOWN")) return this.#redirectByView(from, batch);
    const redirection = readRedirection(message, from.address);
    if (redirection === undefined || batch.redirections >= REDIRECTIONS_MAX) return "refused";
    const to = this.#nodeAt(redirection.address);
    if (to === undefined) return "refused";
    // Views of other nodes may still lack this node, and it must not be dropped because of that.
    to.awaitedUntilUs = this.#options.clock.nowUs() + AWAITED_US;
    if (!redirection.isAsk) {
      if (this.#owners[redirection.slot] === undefined) this.#unserved--;
      if (isUp(to) || !isUp(this.#owners[redirection.slot])) this.#owners[redirection.slot] = to;
      to.oneSlot = redirection.slot;
      // Other slots may have moved too.
      this.#topology.askSoon();
    }
    return this.#sendOn(from, to, batch, redirection.isAsk);
  }

  /**
   * A node that has just handed its slots over may not know who serves them, for as long as until the next ping; other
   * nodes do.
   */
  #redirectByView(from: ClusterNode, batch: RedisBatch): Redirected {
    this.#topology.askAtOnce();
    const slot = this.#tags.slotOf(batch.queue);
    const awaited = this.#awaited?.find(({ first, last }) => first <= slot && slot <= last);
    const to = awaited === undefined ? this.#owners[slot] : this.#nodeAt(awaited.primary);
    if (to === undefined || to === from || batch.redirections >= REDIRECTIONS_MAX) return "refused";
    return this.#sendOn(from, to, batch, false);
  }

  #sendOn(from: ClusterNode, to: ClusterNode, batch: RedisBatch, isAsk: boolean): Redirected {
    if (!isUp(to)) {
      // Only calls are worth a retry. Their deadlines say nothing about the node that is asked.
      batch.redirections ||= 1;
      if (batch.waiting > 0) return "later";
      from.node.answers.fail(batch, this.#noOwner(), true);
      return "redirected";
    }
    this.#noteRedirection();
    from.node.answers.release(batch);
    to.node.adopt(batch, isAsk);
    return "redirected";
  }

  #noteRedirection(): void {
    this.#redirections++;
    this.#options.observer.redirected();
  }

  // A single bucket is on one node or the other, so a batch for it alone never gets TRYAGAIN.
  #splitUp(from: ClusterNode, batch: RedisBatch): Redirected {
    if (batch.bucketCount < 2) return "later";
    this.#noteRedirection();
    from.node.answers.release(batch);
    this.#sendApart(batch);
    return "redirected";
  }
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed");

function isUp(one: ClusterNode | undefined): boolean {
  return one?.node.connection !== undefined;
}

/** A key of the slot; its hash tag is found by trial. */
function keyIn(slot: number, name: string): string {
  for (let i = 0; ; i++) {
    const key = `${name}{${i}}`;
    if (keySlot(key) === slot) return key;
  }
}
