// One Redis server for takes: its connection, and the dispatch of its batches. It does not know other servers; a cluster has several, and every
// batch has keys of one queue.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import type { ProbeBucket } from "../batching/breaker.ts";
import { Intake } from "../batching/intake.ts";
import type { BatchingOptions, CompleteOptions } from "../batching/options.ts";
import type { Backend } from "../batching/shared-store.ts";
import { RedisBatch } from "./batch.ts";
import { type ClusterTags, keySlot } from "./cluster-tags.ts";
import type { RedisConnection } from "./connect.ts";
import { isReadOnlyReply } from "./connect-trouble.ts";
import { Dispatch, type Redirected } from "./dispatch.ts";
import { RedisLink, type ServerFinder } from "./link.ts";
import type { Script } from "./scripts.ts";

/** Most calls of receipts alone under way. */
const RECEIPTS_ALONE_MAX = 8;

/** Options of stores with one node or with many. */
export interface RedisOptions extends BatchingOptions {
  /** Most seconds that counters live longer than their window. Default: 0. */
  readonly jitterSecondsMax?: number;
}

interface RedisNodeOptions extends CompleteOptions {
  readonly finder: ServerFinder;
  /** The server's name in sentences about its queue. Default: Redis. */
  readonly name?: string;
  readonly script: Script;
  /** See LinkOptions. */
  readonly selfTestKeys: () => readonly string[];
  /** Most seconds that counters live longer than their window. */
  readonly jitterSecondsMax: number;
  /** The tags of its cluster; undefined outside a cluster. */
  readonly tags?: ClusterTags;
  /** Called when the connection is up and tested. */
  readonly onUp?: () => void;
  /** See DispatchOptions; undefined outside a cluster. */
  readonly redirect?: (batch: RedisBatch, message: string) => Redirected;
}

/** Takes on one Redis. A take is answered in a later turn, except one that can't be sent at all. */
export class RedisNode extends Intake<RedisBatch> implements Backend {
  readonly #options: RedisNodeOptions;
  readonly #link: RedisLink;
  readonly #dispatch: Dispatch;

  constructor(options: RedisNodeOptions) {
    super(options, {
      name: options.name ?? "Redis",
      receiptsAloneMax: RECEIPTS_ALONE_MAX,
      isPipelined: true,
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

  /** Sends a batch that another node has released (settler.ts), within its groups' deadlines. `isAsking`: after an ASK. */
  adopt(batch: RedisBatch, isAsking: boolean): void {
    const { connection } = this.#link;
    this.settler.adopt(batch);
    if (connection === undefined) this.settler.fail(batch, this.unreachable());
    else connection.together(() => this.#dispatch.sendAgain(batch, connection, isAsking));
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

  #onUp(): void {
    const { refusal } = this.#link;
    this.onUp();
    if (refusal !== undefined) this.onRefusal(refusal);
    this.#options.onUp?.();
  }

  #onRefused(error: unknown, sentence: string): void {
    this.onRefusal(sentence);
    if (isReadOnlyReply(error)) this.#link.reconnect(`${this.#link.name} is a read-only replica`);
  }
}
