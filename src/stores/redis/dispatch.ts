// Sends batches to Redis and reads what comes back. A batch is sent once; only what Redis answers before it runs anything
// makes it go out again: NOSCRIPT, and in a cluster MOVED, ASK, TRYAGAIN and for a moment CLUSTERDOWN. Whose answer is whose is the settler's business.

import { StoreError } from "../../core/errors.ts";
import type { ServerTimes } from "../batching/batch.ts";
import type { CompleteOptions } from "../batching/options.ts";
import { isReplyTo, ReplyReader } from "../batching/reply.ts";
import type { Settler } from "../batching/settler.ts";
import type { RedisBatch } from "./batch.ts";
import { isReplyError, type RedisConnection, wasNeverSent } from "./connect.ts";
import { ranNothing } from "./connect-trouble.ts";
import { unpackNumbers } from "./packed-numbers.ts";
import type { Scripts } from "./scripts.ts";

interface DispatchOptions extends Pick<CompleteOptions, "injectedTime"> {
  readonly scripts: Scripts;
  readonly settler: Settler<RedisBatch>;
  /** What the clock that buckets live by most likely shows. */
  readonly bucketTimeUs: () => number;
  /** EXPIRATION_JITTER_MAX_SECONDS, for counters. */
  readonly jitterSecondsMax: number;
  /** What went wrong, in one sentence. */
  readonly describe: (error: unknown) => string;
  /** Redis refused a call or sent something unreadable. */
  readonly onRefusal: (error: unknown, sentence: string) => void;
  /** Redis settled a call. */
  readonly onAnswer: () => void;
  /** The connection should be given up, because it has that trouble. */
  readonly onTrouble: (trouble: string) => void;
  /** Another node should get the batch; true if it does, and then it is no longer ours. In a cluster only. */
  readonly redirect: ((batch: RedisBatch, message: string) => boolean) | undefined;
}

/** What a node refuses in passing is sent again after this long. */
const TRY_AGAIN_MS = 3;
/**
 * A node that hands its slots over says for a moment that nobody serves them, so a batch is sent again this often. Beyond
 * that, some 30 ms, the cluster is down, and calls should not wait for it.
 */
const CLUSTER_DOWNS_MAX = 10;

/** The way of a batch to one Redis and back. */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #times: ServerTimes;

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#times = { latestOf: options.settler.latestOf, bucketTimeUs: options.bucketTimeUs };
  }

  /** Sends the batch; every group is settled by its deadline at the latest. `isAsking`: an ASK led here. */
  send(batch: RedisBatch, connection: RedisConnection, isAsking = false): void {
    const { settler, scripts, injectedTime, jitterSecondsMax } = this.#options;
    if (!settler.begin(batch)) return;
    const script = batch.isOfPlainTakes() ? scripts.takeEach : scripts.takeAll;
    const args = batch.encode(injectedTime?.nowUs() ?? 0, this.#times, jitterSecondsMax);
    const reply = (value: unknown) => this.#onReply(batch, value);
    const fail = (error: unknown) => this.#onError(batch, error, connection, isAsking);
    if (isAsking) ask(connection);
    connection.commandOfBytes("evalsha", [script.sha, ...args]).then(reply, (error: unknown) => {
      if (batch.isDone || !isReplyError(error) || !error.message.startsWith("NOSCRIPT")) {
        fail(error);
        return;
      }
      if (isAsking) ask(connection);
      connection.commandOfBytes("eval", [script.text, ...args]).then(reply, fail);
    });
  }

  #onReply(batch: RedisBatch, reply: unknown): void {
    if (batch.isDone) return;
    const { settler, onTrouble, onAnswer } = this.#options;
    const numbers = unpackNumbers(reply);
    if (!isReplyTo(batch, numbers)) {
      const trouble = "sent a reply that does not fit the take";
      settler.lose(batch, new StoreError("STORE_REPLY", `Redis ${trouble}`));
      onTrouble(trouble);
      return;
    }
    onAnswer();
    settler.settle(batch, new ReplyReader(numbers));
  }

  #onError(batch: RedisBatch, error: unknown, connection: RedisConnection, isAsking: boolean): void {
    if (batch.isDone) return;
    const { settler, describe, onRefusal, redirect } = this.#options;
    if (redirect !== undefined && isReplyError(error)) {
      if (redirect(batch, error.message)) return;
      if (error.message.startsWith("CLUSTERDOWN")) batch.clusterDowns++;
      if (batch.waiting > 0 && isPassing(batch, error.message)) {
        setTimeout(() => {
          if (!batch.isDone) this.send(batch, connection, isAsking);
        }, TRY_AGAIN_MS);
        return;
      }
    }
    const sentence = describe(error);
    // A ReplyError holds the whole command, keys and all: it is described, never passed on.
    if (isReplyError(error)) {
      const code = error.message.startsWith("CLUSTERDOWN") ? "STORE_UNREACHABLE" : "STORE_COMMAND";
      const refused = new StoreError(code, sentence);
      if (ranNothing(error)) settler.fail(batch, refused);
      else settler.lose(batch, refused);
      onRefusal(error, sentence);
      return;
    }
    const lost = new StoreError("STORE_UNREACHABLE", sentence, error);
    if (wasNeverSent(error)) settler.fail(batch, lost);
    else settler.lose(batch, lost);
  }
}

// Nothing was run, and a moment later it may be.
function isPassing(batch: RedisBatch, message: string): boolean {
  if (message.startsWith("CLUSTERDOWN")) return batch.clusterDowns <= CLUSTER_DOWNS_MAX;
  return message.startsWith("TRYAGAIN");
}

// The next command may touch a slot that is on its way here. Its own answer says nothing that the next one's does not.
function ask(connection: RedisConnection): void {
  connection.command("asking", []).catch(() => undefined);
}
