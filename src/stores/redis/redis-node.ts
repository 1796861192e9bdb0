// One Redis server for takes: its link, its breaker, its bound on takes in flight, its receipts. It does not know other servers; a cluster has
// several, and every batch has keys of one queue.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import type { TakeGroup } from "../../engine/domain/take.ts";
import { Intake } from "../batching/intake.ts";
import type { CompleteOptions, SharedStoreOptions } from "../batching/options.ts";
import type { Receipt } from "../batching/receipts.ts";
import type { Backend } from "../batching/shared-store.ts";
import type { SettleListener } from "../store.ts";
import { RedisBatch } from "./batch.ts";
import type { ClusterTags } from "./cluster-tags.ts";
import type { RedisConnection } from "./connect.ts";
import { isReadOnlyReply } from "./connect-trouble.ts";
import { Dispatch } from "./dispatch.ts";
import { keySlot } from "./key-slot.ts";
import { Link } from "./link.ts";
import type { Scripts } from "./scripts.ts";
import type { ServerFinder } from "./server-finder.ts";

/** Most redirected batches that wait for this node's connection. */
const ADOPTED_MAX = 1_024;

/** Options of stores with one node or with many. */
export interface RedisOptions extends SharedStoreOptions {
  /** Most seconds that counters live longer than their window. Default: 0. */
  readonly jitterSecondsMax?: number;
}

interface RedisNodeOptions extends CompleteOptions {
  readonly finder: ServerFinder;
  /** The server's name in sentences about its queue. Default: Redis. */
  readonly name?: string;
  readonly scripts: Scripts;
  /** See LinkOptions. */
  readonly selfTestKeys: () => readonly string[];
  /** Most seconds that counters live longer than their window. */
  readonly jitterSecondsMax: number;
  /** The tags of its cluster; undefined outside a cluster. */
  readonly tags?: ClusterTags;
  /** Called when the connection is up and tested. */
  readonly onUp: () => void;
  /** See DispatchOptions; undefined outside a cluster. */
  readonly redirect?: (batch: RedisBatch, message: string) => boolean;
}

/** Takes on one Redis. A take is answered in a later turn, except one that can't be sent at all. */
export class RedisNode implements Backend {
  readonly #options: RedisNodeOptions;
  readonly #intake: Intake<RedisBatch>;
  readonly #link: Link;
  readonly #dispatch: Dispatch;
  /** Redirected batches that wait for the connection. Their groups are answered by their deadlines all the same. */
  #adopted: { readonly batch: RedisBatch; readonly isAsking: boolean }[] = [];

  constructor(options: RedisNodeOptions) {
    const { finder, scripts, clock, injectedTime } = options;
    this.#options = options;
    this.#intake = new Intake<RedisBatch>(options, {
      name: options.name ?? "Redis",
      newBatch: (queue) => new RedisBatch(queue, options.tags),
      isUp: () => this.#link.connection !== undefined,
      downSentence: () => this.#link.trouble ?? "Redis is not connected",
      send: () => this.#send(),
      onSilence: (_batch, trouble) => this.#link.reconnect(trouble),
      probeBucket: () => {
        const [bucketKey] = options.selfTestKeys();
        if (bucketKey === undefined) return undefined;
        return { bucketKey, queue: options.tags === undefined ? 0 : keySlot(bucketKey) };
      },
    });
    const { settler, serverTime } = this.#intake;
    this.#link = new Link({
      finder,
      scripts,
      selfTestKeys: options.selfTestKeys,
      clock,
      serverTime,
      onUp: (refusal) => this.#onUp(refusal),
      onLost: () => settler.loseSent(this.#intake.unreachable()),
    });
    this.#dispatch = new Dispatch({
      scripts,
      settler,
      injectedTime,
      bucketTimeUs: () => injectedTime?.nowUs() ?? serverTime.estimateUs(clock.nowUs()),
      jitterSecondsMax: options.jitterSecondsMax,
      describe: (error) => this.#link.describe(error),
      onRefusal: (error, sentence) => this.#onRefusal(error, sentence),
      onAnswer: () => this.#intake.onAnswer(),
      onTrouble: (trouble) => this.#link.reconnect(trouble),
      redirect: options.redirect,
    });
  }

  /** Begins to connect; to be called once. */
  start(): void {
    this.#link.start();
  }

  /** The connection, if it is up; for commands other than takes. */
  get connection(): RedisConnection | undefined {
    return this.#link.connection;
  }

  /** Describes an error of Redis in one sentence. */
  describe(error: unknown): string {
    return this.#link.describe(error);
  }

  /** The server's time in milliseconds since the epoch. */
  serverTimeMs(): number {
    return Math.floor(this.#intake.serverTime.estimateUs(this.#options.clock.nowUs()) / MICROS_PER_MILLI);
  }

  /** Like Store.take; all takes of the group belong to `queue`. */
  take(group: TakeGroup, then: SettleListener, queue = 0): boolean {
    return this.#intake.take(group, then, queue);
  }

  /** Like Store.giveBack; all takes of the group belong to `queue`. */
  giveBack(group: TakeGroup, queue = 0): void {
    this.#intake.giveBack(group, queue);
  }

  /** Gives a payment back with the next call of its queue. */
  addReceipt(receipt: Receipt, queue: number): void {
    this.#intake.addReceipt(receipt, queue);
  }

  /** Passes on the outstanding receipts, because other nodes keep their buckets now. */
  drainReceipts(each: (receipt: Receipt, queue: number) => void): void {
    this.#intake.drainReceipts(each);
  }

  /** Gives up a batch that this server has redirected, unpaid; another node gets it by `adopt`. */
  release(batch: RedisBatch): void {
    this.#intake.settler.release(batch);
  }

  /** Sends a batch that another node has released, within its groups' deadlines. `isAsking`: after an ASK. */
  adopt(batch: RedisBatch, isAsking: boolean): void {
    const { settler } = this.#intake;
    settler.adopt(batch);
    const { connection } = this.#link;
    if (connection !== undefined) {
      connection.together(() => this.#dispatch.send(batch, connection, isAsking));
      return;
    }
    // Without groups no deadline ends the batch. Waiting here, receipts are bounded and counted, and passed on if this node is dropped.
    for (const receipt of batch.receipts.splice(0)) this.#intake.addReceipt(receipt, batch.queue);
    if (batch.waiting > 0 && this.#hasRoomToAdopt()) this.#adopted.push({ batch, isAsking });
    else settler.fail(batch, this.#intake.unreachable());
  }

  /** Undefined while takes are sent and settled; otherwise the reason, in one sentence. */
  trouble(): string | undefined {
    return this.#intake.trouble();
  }

  /** Refuses new takes, and waits a moment for outstanding answers. */
  async drain(): Promise<void> {
    await this.#intake.close();
  }

  /** Closes the connection. */
  close(): void {
    this.#link.close();
    this.#intake.end();
  }

  // Waiting batches whose groups have all been answered by their deadlines are dropped.
  #hasRoomToAdopt(): boolean {
    if (this.#adopted.length >= ADOPTED_MAX) this.#adopted = this.#adopted.filter(({ batch }) => !batch.isDone);
    return this.#adopted.length < ADOPTED_MAX;
  }

  #send(): void {
    const { connection } = this.#link;
    if (connection === undefined) return;
    connection.together(() => {
      for (const batch of this.#intake.takeReady()) this.#dispatch.send(batch, connection);
    });
  }

  #onUp(refusal: string | undefined): void {
    this.#intake.onUp();
    if (refusal !== undefined) this.#intake.onRefusal(refusal);
    const { connection } = this.#link;
    connection?.together(() => {
      for (const { batch, isAsking } of this.#adopted.splice(0)) {
        if (!batch.isDone) this.#dispatch.send(batch, connection, isAsking);
      }
    });
    this.#options.onUp();
  }

  #onRefusal(error: unknown, sentence: string): void {
    this.#intake.onRefusal(sentence);
    if (isReadOnlyReply(error)) this.#link.reconnect("is a read-only replica");
  }
}
