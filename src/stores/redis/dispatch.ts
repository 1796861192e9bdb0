// Sends batches to Redis and reads what comes back. A batch is sent once; only NOSCRIPT, which Redis gives before it runs
// anything, makes it go out again. Whose answer is whose is the settler's business.

import { StoreError } from "../../core/errors.ts";
import type { CompleteOptions } from "../batching/options.ts";
import { isReplyTo, ReplyReader } from "../batching/reply.ts";
import type { Settler } from "../batching/settler.ts";
import type { RedisBatch } from "./batch.ts";
import { isReplyError, type RedisConnection, wasNeverSent } from "./connect.ts";
import type { Script } from "./scripts.ts";

export interface DispatchOptions extends Pick<CompleteOptions, "injectedTime"> {
  readonly script: Script;
  readonly settler: Settler<RedisBatch>;
  /** EXPIRATION_JITTER_MAX_SECONDS, for counters. */
  readonly jitterSecondsMax: number;
  /** Redis refused a call; the sentence says how. */
  readonly describe: (error: unknown) => string;
  /** Redis refused a call or sent something unreadable. */
  readonly onRefusal: (error: unknown, sentence: string) => void;
  /** Redis settled a call. */
  readonly onAnswer: () => void;
  /** The connection should be given up, because it has that trouble. */
  readonly onTrouble: (trouble: string) => void;
}

/** The way of a batch to one Redis and back. */
export class Dispatch {
  readonly #options: DispatchOptions;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** Sends the batch; every group is settled by its deadline at the latest. */
  send(batch: RedisBatch, connection: RedisConnection): void {
    const { settler, script, injectedTime, jitterSecondsMax } = this.#options;
    if (!settler.begin(batch)) return;
    const args = batch.encode(injectedTime?.nowUs() ?? 0, settler.latestOf, jitterSecondsMax);
    const reply = (value: unknown) => this.#onReply(batch, value);
    connection.command("evalsha", [script.sha, ...args]).then(reply, (error: unknown) => {
      if (batch.isDone || !isReplyError(error) || !error.message.startsWith("NOSCRIPT")) {
        this.#onError(batch, error);
        return;
      }
      connection.command("eval", [script.text, ...args]).then(reply, (again: unknown) => this.#onError(batch, again));
    });
  }

  #onReply(batch: RedisBatch, reply: unknown): void {
    if (batch.isDone) return;
    const { settler, onTrouble, onAnswer } = this.#options;
    if (!isReplyTo(batch, reply)) {
      const trouble = "sent a reply that is none to a take";
      settler.lose(batch, new StoreError("STORE_REPLY", `Redis ${trouble}`, { transient: true }));
      onTrouble(trouble);
      return;
    }
    onAnswer();
    settler.settle(batch, new ReplyReader(reply));
  }

  #onError(batch: RedisBatch, error: unknown): void {
    if (batch.isDone) return;
    const { settler, describe, onRefusal } = this.#options;
    const sentence = describe(error);
    // A ReplyError holds the whole command, keys and all: it is described, never passed on.
    if (isReplyError(error)) {
      settler.fail(batch, new StoreError("STORE_COMMAND", sentence, { transient: true }));
      onRefusal(error, sentence);
      return;
    }
    const lost = new StoreError("STORE_UNREACHABLE", sentence, { transient: true, cause: error });
    if (wasNeverSent(error)) settler.fail(batch, lost);
    else settler.lose(batch, lost);
  }
}
