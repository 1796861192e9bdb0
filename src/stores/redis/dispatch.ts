// Sends batches to Redis and reads the replies. A batch is sent again only if Redis refused it before it ran anything: after NOSCRIPT, and in a
// cluster after MOVED, ASK, TRYAGAIN, and for a short time CLUSTERDOWN. The settler passes replies to their groups.

import { StoreError } from "../../engine/base/errors.ts";
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
  /** The time that the clock of the buckets most likely shows, in microseconds since the epoch. */
  readonly bucketTimeUs: () => number;
  /** EXPIRATION_JITTER_MAX_SECONDS; only for counters. */
  readonly jitterSecondsMax: number;
  /** Describes an error in one sentence. */
  readonly describe: (error: unknown) => string;
  /** Redis refused a call, or sent a reply that can't be read. */
  readonly onRefusal: (error: unknown, sentence: string) => void;
  /** Redis has settled a call. */
  readonly onAnswer: () => void;
  /** The connection should be replaced, for this reason. */
  readonly onTrouble: (trouble: string) => void;
  /** Passes the batch to another node of a cluster; true if it did, and then the batch is no longer ours. */
  readonly redirect: ((batch: RedisBatch, message: string) => boolean) | undefined;
}

/** Pause before a batch is sent again after a refusal that may pass. */
const TRY_AGAIN_MS = 3;
/**
 * A node that hands its slots over answers CLUSTERDOWN for a moment, so a batch is sent again this often, for some 30 ms. After that the
 * cluster counts as down, and calls should not wait for it.
 */
const CLUSTER_DOWNS_MAX = 10;

/** Sends batches to one Redis, and reads their replies. */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #times: ServerTimes;

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#times = { latestOf: options.settler.latestOf, bucketTimeUs: options.bucketTimeUs };
  }

  /** Sends the batch; every group is settled by its deadline at the latest. `isAsking`: another node has answered with ASK. */
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
    // A ReplyError contains the whole command with its keys, so it is described and not passed on.
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

// Nothing was run, and the batch may succeed a moment later.
function isPassing(batch: RedisBatch, message: string): boolean {
  if (message.startsWith("CLUSTERDOWN")) return batch.clusterDowns <= CLUSTER_DOWNS_MAX;
  return message.startsWith("TRYAGAIN");
}

// Allows the next command to use a slot that is moving here. The reply is ignored: the next command's own reply tells everything.
function ask(connection: RedisConnection): void {
  connection.command("asking", []).catch(() => undefined);
}
