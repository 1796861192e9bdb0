// One Redis server for takes: its connection, and the dispatch of its batches. It does not know other servers; a cluster has several, and every
// batch has keys of one queue.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import type { ProbeBucket } from "../batching/breaker.ts";
import { Intake } from "../batching/intake.ts";
import type { CompleteOptions, SharedStoreOptions } from "../batching/options.ts";
import type { Backend } from "../batching/shared-store.ts";
import { RedisBatch } from "./batch.ts";
import { type ClusterTags, keySlot } from "./cluster-tags.ts";
import type { RedisConnection } from "./connect.ts";
import { isReadOnlyReply } from "./connect-trouble.ts";
import { Dispatch } from "./dispatch.ts";
import { RedisLink, type ServerFinder } from "./link.ts";
import type { Scripts } from "./scripts.ts";

/** Most redirected batches that wait for this node's connection. */
const ADOPTED_MAX = 1_024;
/** Most calls of receipts alone under way. */
const RECEIPTS_ALONE_MAX = 8;

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
  readonly onUp?: () => void;
  /** See DispatchOptions; undefined outside a cluster. */
  readonly redirect?: (batch: RedisBatch, message: string) => boolean;
}

/** Takes on one Redis. A take is answered in a later turn, except one that can't be sent at all. */
export class RedisNode extends Intake<RedisBatch> implements Backend {
  readonly #options: RedisNodeOptions;
  readonly #link: RedisLink;
  readonly #dispatch: Dispatch;
  /** Redirected batches that wait for the connection. Their groups are answered by their deadlines all the same. */
  #adopted: { readonly batch: RedisBatch; readonly isAsking: boolean }[] = [];

  constructor(options: RedisNodeOptions) {
    super(options, {
      name: options.name ?? "Redis",
      receiptsAloneMax: RECEIPTS_ALONE_MAX,
      sendsFullBatches: true,
    });
    this.#options = options;
    const link = new RedisLink({
      ...options,
      serverTime: this.serverTime,
      onUp: () => this.#onUp(),
      onLost: () => {
        this.serverTime.forget();
        this.settler.loseSent(this.unreachable());
      },
    });
    this.#link = link;
    this.#dispatch = new Dispatch({
      ...options,
      intake: this,
      describe: (error) => link.describe(error),
      onRefusal: (error, sentence) => this.#onRefused(error, sentence),
      onTrouble: (reason) => link.reconnect(`${link.name} ${reason}`),
      redirect: options.redirect,
    });
  }

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
    return Math.floor(this.serverTime.estimateUs(this.options.clock.nowUs()) / MICROS_PER_MILLI);
  }

  /** Gives up a batch that this server has redirected, unpaid; another node gets it by `adopt`. */
  release(batch: RedisBatch): void {
    this.settler.release(batch);
  }

  /** Sends a batch that another node has released, within its groups' deadlines. `isAsking`: after an ASK. */
  adopt(batch: RedisBatch, isAsking: boolean): void {
    this.settler.adopt(batch);
    const { connection } = this.#link;
    if (connection !== undefined) {
      connection.together(() => this.#dispatch.sendAgain(batch, connection, isAsking));
      return;
    }
    // Without groups no deadline ends the batch. Waiting here, receipts are bounded and counted, and passed on if this node is dropped.
    for (const receipt of batch.receipts.splice(0)) this.addReceipt(receipt, batch.queue);
    if (batch.waiting > 0 && this.#hasRoomToAdopt()) this.#adopted.push({ batch, isAsking });
    else this.settler.fail(batch, this.unreachable());
  }

  close(): void {
    this.#link.close();
    this.end();
  }

  protected get isUp(): boolean {
    return this.#link.connection !== undefined;
  }

  protected get downSentence(): string {
    return this.#link.trouble ?? "Redis is not connected";
  }

  protected newBatch(queue: number): RedisBatch {
    return new RedisBatch(queue, this.#options.tags);
  }

  protected send(): void {
    const { connection } = this.#link;
    connection?.together(() => {
      for (let batch = this.next(); batch !== undefined; batch = this.next()) this.#dispatch.send(batch, connection);
    });
  }

  protected onSilence(_batch: RedisBatch, trouble: string): void {
    this.#link.reconnect(`${this.#link.name} ${trouble}`);
  }

  protected probeBucket(): ProbeBucket | undefined {
    const [bucketKey] = this.#options.selfTestKeys();
    if (bucketKey === undefined) return undefined;
    return { bucketKey, queue: this.#options.tags === undefined ? 0 : keySlot(bucketKey) };
  }

  // Waiting batches whose groups have all been answered by their deadlines are dropped.
  #hasRoomToAdopt(): boolean {
    if (this.#adopted.length >= ADOPTED_MAX)
      this.#adopted = this.#adopted.filter(({ batch }) => batch.state !== "done");
    return this.#adopted.length < ADOPTED_MAX;
  }

  #onUp(): void {
    const { connection, refusal } = this.#link;
    this.onUp();
    if (refusal !== undefined) this.onRefusal(refusal);
    connection?.together(() => {
      for (const { batch, isAsking } of this.#adopted.splice(0)) this.#dispatch.sendAgain(batch, connection, isAsking);
    });
    this.#options.onUp?.();
  }

  #onRefused(error: unknown, sentence: string): void {
    this.onRefusal(sentence);
    if (isReadOnlyReply(error)) this.#link.reconnect(`${this.#link.name} is a read-only replica`);
  }
}
