// One Redis server that takes travel to: its link, its breaker, its bound of takes in flight, its receipts. Knows nothing of
// other servers; in a cluster there are several, and every batch holds keys of one lane.

import type { TakeGroup } from "../../core/take.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
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
import { Link } from "./link.ts";
import type { Scripts } from "./scripts.ts";
import type { ServerFinder } from "./server-finder.ts";

/** Most batches that wait for a connection to a node that they were sent on to. */
const ADOPTED_MAX = 1_024;

/** What a store of one node and a store of many can be told. */
export interface RedisOptions extends SharedStoreOptions {
  /** Seconds, at most, that counters live longer than their window. Default: none. */
  readonly jitterSecondsMax?: number;
}

interface RedisNodeOptions extends CompleteOptions {
  readonly finder: ServerFinder;
  /** The server in sentences about its queue. Default: Redis. */
  readonly name?: string;
  readonly scripts: Scripts;
  /** As LinkOptions says. */
  readonly selfTestKeys: () => readonly string[];
  /** Seconds, at most, that counters live longer than their window. */
  readonly jitterSecondsMax: number;
  /** Of the cluster that the server is a node of. Default: none, because it is no cluster's. */
  readonly tags?: ClusterTags;
  /** The connection is up and tested. */
  readonly onUp: () => void;
  /** As DispatchOptions says. Default: none, because there is no other node. */
  readonly redirect?: (batch: RedisBatch, message: string) => boolean;
}

/** Takes on one Redis. Always answers later, but for a take that can't be sent at all. */
export class RedisNode implements Backend {
  readonly #options: RedisNodeOptions;
  readonly #intake: Intake<RedisBatch>;
  readonly #link: Link;
  readonly #dispatch: Dispatch;
  /** What was sent here by another node before this one was connected to; each is answered in its time all the same. */
  #adopted: { readonly batch: RedisBatch; readonly isAsking: boolean }[] = [];

  constructor(options: RedisNodeOptions) {
    const { finder, scripts, clock, injectedTime } = options;
    this.#options = options;
    this.#intake = new Intake<RedisBatch>(options, {
      name: options.name ?? "Redis",
      newBatch: (lane) => new RedisBatch(lane, options.tags),
      isUp: () => this.#link.connection !== undefined,
      downSentence: () => this.#link.trouble ?? "Redis is not connected",
      send: () => this.#send(),
      onSilence: (_batch, trouble) => this.#link.reconnect(trouble),
    });
    const { settler, serverTime } = this.#intake;
    this.#link = new Link({
      finder,
      scripts,
      selfTestKeys: options.selfTestKeys,
      clock,
      serverTime,
      onUp: () => this.#onUp(),
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
      onAnswer: () => this.#onAnswer(),
      onTrouble: (trouble) => this.#link.reconnect(trouble),
      redirect: options.redirect,
    });
  }

  /** Begins to connect. Once. */
  start(): void {
    this.#link.start();
  }

  /** The connection, if it is up. Takes have their own way over it. */
  get connection(): RedisConnection | undefined {
    return this.#link.connection;
  }

  /** Why Redis can't be used, as a sentence. */
  describe(error: unknown): string {
    return this.#link.describe(error);
  }

  /** What the server's clock shows, in milliseconds. */
  serverTimeMs(): number {
    return Math.floor(this.#intake.serverTime.estimateUs(this.#options.clock.nowUs()) / MICROS_PER_MILLI);
  }

  /** As Store.take. All takes of the group are of that lane. */
  take(group: TakeGroup, then: SettleListener, lane = 0): boolean {
    return this.#intake.take(group, then, lane);
  }

  /** As Store.giveBack. All takes of the group are of that lane. */
  giveBack(group: TakeGroup, lane = 0): void {
    this.#intake.giveBack(group, lane);
  }

  /** Has a payment undone with the next call of that lane. */
  addReceipt(receipt: Receipt, lane: number): void {
    this.#intake.addReceipt(receipt, lane);
  }

  /** Hands over the payments that still have to be undone: other nodes keep their buckets now. */
  drainReceipts(each: (receipt: Receipt, lane: number) => void): void {
    this.#intake.drainReceipts(each);
  }

  /** Gives up a batch that this server refused with MOVED or ASK, unpaid; another node gets it by `adopt`. */
  release(batch: RedisBatch): void {
    this.#intake.settler.release(batch);
  }

  /** Sends a batch that another node released, within the times its groups have left. `isAsking`: an ASK led here. */
  adopt(batch: RedisBatch, isAsking: boolean): void {
    const { settler } = this.#intake;
    settler.adopt(batch);
    const { connection } = this.#link;
    if (connection !== undefined) connection.together(() => this.#dispatch.send(batch, connection, isAsking));
    else if (this.#hasRoomToAdopt()) this.#adopted.push({ batch, isAsking });
    else settler.fail(batch, this.#intake.unreachable());
  }

  /** Undefined while takes are sent and settled, otherwise why not, in one sentence. */
  trouble(): string | undefined {
    return this.#intake.trouble() ?? this.#link.trouble;
  }

  /** Refuses new takes and waits a moment for the answers that are due. */
  async drain(): Promise<void> {
    await this.#intake.close();
  }

  /** Closes the connection. */
  close(): void {
    this.#link.close();
    this.#intake.end();
  }

  // Batches whose groups were all answered without this server take no room.
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

  #onUp(): void {
    this.#intake.onUp();
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

  #onAnswer(): void {
    this.#intake.onAnswer();
    this.#link.forgetTrouble();
  }
}
