// One Redis server for takes: sends batches over its connection, and reads what it replies or refuses. It does not know
// other servers; a cluster has several, and every batch has keys of one queue. A batch is sent again only if Redis
// refused it before it ran anything: after NOSCRIPT, and in a cluster after MOVED, ASK, TRYAGAIN, and for a short time
// CLUSTERDOWN.

import { StoreError } from "../../base/errors.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import type { TakeGroup } from "../../engine/domain/take.ts";
import type { ServerTimes } from "../batching/batch.ts";
import { Intake, type ProbeBucket } from "../batching/intake.ts";
import type { BatchingOptions, CompleteOptions } from "../batching/options.ts";
import { isReplyTo, ReplyReader } from "../batching/reply.ts";
import type { Backend } from "../batching/shared-store.ts";
import type { ClusterTags } from "./cluster-tags.ts";
import type { RedisConnection } from "./connect.ts";
import { COUNTERS_QUEUE, CounterBatch } from "./counter-batch.ts";
import { RedisBatch, unpackNumbers } from "./redis-batch.ts";
import { RedisLink, type ServerFinder } from "./redis-link.ts";
import { isReadOnlyReply, isReplyError, ranNothing, wasNeverSent } from "./refusals.ts";
import type { Scripts } from "./scripts.ts";

/** Options of stores with one node or with many. */
export interface RedisOptions extends BatchingOptions {
  /** Most seconds that counters live longer than their window. Default: 0. */
  readonly jitterSecondsMax?: number;
}

export interface RedisNodeOptions extends CompleteOptions {
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
  /** Passes the batch to another node of a cluster, if the error says so; undefined outside a cluster. */
  readonly redirect?: (batch: RedisBatch, message: string) => Redirected;
}

/**
 * What a cluster does with a batch that a node refused: it is no longer ours; or it is to be sent again a moment later;
 * or it fails.
 */
export type Redirected = "redirected" | "later" | "refused";

/** Pause before a batch is sent again after a refusal that may pass. */
const TRY_AGAIN_MS = 3;
/**
 * A node that hands its slots over answers CLUSTERDOWN for a moment, so a batch is sent again this often, for some 30
 * ms. After that the cluster counts as down, and calls should not wait for it.
 */
const CLUSTER_DOWNS_MAX = 10;

/** Takes on one Redis. A take is answered in a later turn, except one that can't be sent at all. */
export class RedisNode extends Intake<RedisBatch> implements Backend {
  readonly #options: RedisNodeOptions;
  readonly #link: RedisLink;
  readonly #times: ServerTimes;

  constructor(options: RedisNodeOptions) {
    super(options, options.name ?? "Redis", true);
    this.#options = options;
    const link = new RedisLink({
      ...options,
      script: options.scripts.takes,
      serverTime: this.serverTime,
      onUp: () => this.#onUp(),
      onLost: () => {
        this.serverTime.forget();
        this.answers.loseSent(this.unreachable());
      },
    });
    this.#link = link;
    const { injectedTime, clock } = options;
    this.#times = {
      latestOf: this.answers.latestOf,
      bucketTimeUs: () => injectedTime?.nowUs() ?? this.serverTime.estimateUs(clock.nowUs()),
    };
  }

  start(): void {
    this.#link.start();
  }

  /** A group has counters or other limits, never both. */
  override take(
    group: TakeGroup,
    then: TakeListener,
    queue = group.takes[0]?.limit.isCounter ? COUNTERS_QUEUE : 0,
  ): boolean {
    return super.take(group, then, queue);
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

  /**
   * Sends a batch that another node has released (answers.ts), within its groups' deadlines. `isAsking`: after an ASK.
   */
  adopt(batch: RedisBatch, isAsking: boolean): void {
    const { connection } = this.#link;
    this.answers.adopt(batch);
    if (connection === undefined) this.answers.fail(batch, this.unreachable());
    else connection.together(() => this.#sendAgain(batch, connection, isAsking));
  }

  close(): void {
    this.#link.close();
    this.end();
  }

  protected get down(): string | undefined {
    return this.#link.trouble;
  }

  protected newBatch(queue: number, group: TakeGroup): RedisBatch {
    const { tags, jitterSecondsMax } = this.#options;
    return group.takes[0]?.limit.isCounter === true
      ? new CounterBatch(queue, tags, jitterSecondsMax)
      : new RedisBatch(queue, tags);
  }

  protected send(): void {
    const { connection } = this.#link;
    connection?.together(() => {
      for (let batch = this.next(); batch !== undefined; batch = this.next()) this.#sendOver(connection, batch);
    });
  }

  onSilence(_batch: RedisBatch, trouble: string): void {
    this.#link.reconnect(`${this.#link.name} ${trouble}`);
  }

  protected probeBucket(): ProbeBucket | undefined {
    const [bucketKey] = this.#options.selfTestKeys();
    if (bucketKey === undefined) return undefined;
    return { bucketKey, queue: this.#options.tags?.queueUntagged(bucketKey) ?? 0 };
  }

  #onUp(): void {
    const { refusal } = this.#link;
    this.onUp();
    if (refusal !== undefined) this.onRefusal(refusal);
    this.#options.onUp?.();
  }

  /** Sends a batch again, or for another node, unless it is over. */
  #sendAgain(batch: RedisBatch, connection: RedisConnection, isAsking: boolean): void {
    if (batch.state !== "done" && this.answers.begin(batch)) this.#sendOver(connection, batch, isAsking);
  }

  /** Sends a batch that has begun to wait for its reply. `isAsking`: another node has answered with ASK. */
  #sendOver(connection: RedisConnection, batch: RedisBatch, isAsking = false): void {
    const { scripts, injectedTime } = this.#options;
    const script = scripts[batch.script];
    const args = batch.encode(injectedTime?.nowUs() ?? 0, this.#times);
    const reply = (value: unknown) => {
      const numbers = batch.state === "done" ? undefined : unpackNumbers(value);
      this.onReply(batch, isReplyTo(batch, numbers) ? new ReplyReader(numbers) : undefined, this.#link);
    };
    const fail = (error: unknown) => this.#onError(batch, error, connection, isAsking);
    if (isAsking) ask(connection);
    connection.commandOfBytes("evalsha", [script.sha, ...args]).then(reply, (error: unknown) => {
      if (batch.state === "done" || !isReplyError(error) || !error.message.startsWith("NOSCRIPT")) {
        fail(error);
        return;
      }
      if (isAsking) ask(connection);
      connection.commandOfBytes("eval", [script.text, ...args]).then(reply, fail);
    });
  }

  #onError(batch: RedisBatch, error: unknown, connection: RedisConnection, isAsking: boolean): void {
    if (batch.state === "done") return;
    const { redirect } = this.#options;
    const { answers } = this;
    if (redirect !== undefined && isReplyError(error)) {
      const redirected = redirect(batch, error.message);
      if (redirected === "redirected") return;
      if (batch.waiting > 0 && (redirected === "later" || isPassing(batch, error.message))) {
        setTimeout(() => this.#sendAgain(batch, connection, isAsking), TRY_AGAIN_MS);
        return;
      }
    }
    const sentence = this.#link.describe(error);
    // A ReplyError contains the whole command with its keys, so it is described and not passed on.
    if (isReplyError(error)) {
      const code = error.message.startsWith("CLUSTERDOWN") ? "STORE_UNREACHABLE" : "STORE_COMMAND";
      const refused = new StoreError(code, sentence);
      if (ranNothing(error)) answers.fail(batch, refused);
      else answers.lose(batch, refused);
      this.onRefusal(sentence);
      if (isReadOnlyReply(error)) this.#link.reconnect(`${this.#link.name} is a read-only replica`);
      return;
    }
    const lost = new StoreError("STORE_UNREACHABLE", sentence, error);
    if (wasNeverSent(error)) answers.fail(batch, lost);
    else answers.lose(batch, lost);
  }
}

/** A node that hands its slots over says that the cluster is down, for a moment. */
function isPassing(batch: RedisBatch, message: string): boolean {
  if (!message.startsWith("CLUSTERDOWN")) return false;
  batch.clusterDowns++;
  return batch.clusterDowns <= CLUSTER_DOWNS_MAX;
}

// Allows the next command to use a slot that is moving here. The reply is ignored: the next command's reply says all.
function ask(connection: RedisConnection): void {
  connection.command("asking", []).catch(() => undefined);
}
