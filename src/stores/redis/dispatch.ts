// Sends batches to Redis and reads the replies. A batch is sent again only if Redis refused it before it ran anything: after NOSCRIPT, and in a
// cluster after MOVED, ASK, TRYAGAIN, and for a short time CLUSTERDOWN. The settler passes replies to their groups.

import type { Clock } from "../../engine/base/clock.ts";
import { StoreError } from "../../engine/base/errors.ts";
import type { ServerTimes } from "../batching/batch.ts";
import type { Intake } from "../batching/intake.ts";
import { isReplyTo, ReplyReader } from "../batching/reply.ts";
import type { RedisBatch } from "./batch.ts";
import { isReplyError, type RedisConnection, wasNeverSent } from "./connect.ts";
import { ranNothing } from "./connect-trouble.ts";
import { unpackNumbers } from "./packed-numbers.ts";
import type { Script } from "./scripts.ts";

interface DispatchOptions {
  readonly script: Script;
  readonly intake: Intake<RedisBatch>;
  readonly clock: Clock;
  /** The clock of the buckets, in place of the server's; for tests. */
  readonly injectedTime: Clock | undefined;
  /** EXPIRATION_JITTER_MAX_SECONDS; only for counters. */
  readonly jitterSecondsMax: number;
  /** Describes an error in one sentence. */
  readonly describe: (error: unknown) => string;
  /** Redis refused a call, or sent a reply that can't be read. */
  readonly onRefusal: (error: unknown, sentence: string) => void;
  /** The connection should be replaced, for this reason. */
  readonly onTrouble: (reason: string) => void;
  /** Passes the batch to another node of a cluster, if the error says so. */
  readonly redirect: ((batch: RedisBatch, message: string) => Redirected) | undefined;
}

/** What a cluster does with a batch that a node refused: it is no longer ours; or it is to be sent again a moment later; or it fails. */
export type Redirected = "redirected" | "later" | "refused";

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
    const { intake, injectedTime, clock } = options;
    this.#options = options;
    this.#times = {
      latestOf: intake.settler.latestOf,
      bucketTimeUs: () => injectedTime?.nowUs() ?? intake.serverTime.estimateUs(clock.nowUs()),
    };
  }

  /** Sends a batch again, or for another node, unless it is over. */
  sendAgain(batch: RedisBatch, connection: RedisConnection, isAsking: boolean): void {
    if (batch.state !== "done" && this.#options.intake.settler.begin(batch)) this.send(batch, connection, isAsking);
  }

  /** Sends a batch that the settler has begun. `isAsking`: another node has answered with ASK. */
  send(batch: RedisBatch, connection: RedisConnection, isAsking = false): void {
    const { script, injectedTime, jitterSecondsMax } = this.#options;
    const args = batch.encode(injectedTime?.nowUs() ?? 0, this.#times, jitterSecondsMax);
    const reply = (value: unknown) => this.#onReply(batch, value);
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

  #onReply(batch: RedisBatch, reply: unknown): void {
    if (batch.state === "done") return;
    const { intake, onTrouble } = this.#options;
    const numbers = unpackNumbers(reply);
    if (!isReplyTo(batch, numbers)) {
      const trouble = "sent a reply that does not fit the take";
      intake.settler.lose(batch, new StoreError("STORE_REPLY", `Redis ${trouble}`));
      onTrouble(trouble);
      return;
    }
    intake.onAnswer();
    intake.settler.settle(batch, new ReplyReader(numbers));
  }

  #onError(batch: RedisBatch, error: unknown, connection: RedisConnection, isAsking: boolean): void {
    if (batch.state === "done") return;
    const { describe, onRefusal, redirect } = this.#options;
    const { settler } = this.#options.intake;
    if (redirect !== undefined && isReplyError(error)) {
      const redirected = redirect(batch, error.message);
      if (redirected === "redirected") return;
      if (batch.waiting > 0 && (redirected === "later" || isPassing(batch, error.message))) {
        setTimeout(() => this.sendAgain(batch, connection, isAsking), TRY_AGAIN_MS);
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

/** A node that hands its slots over says that the cluster is down, for a moment. */
function isPassing(batch: RedisBatch, message: string): boolean {
  if (!message.startsWith("CLUSTERDOWN")) return false;
  batch.clusterDowns++;
  return batch.clusterDowns <= CLUSTER_DOWNS_MAX;
}

// Allows the next command to use a slot that is moving here. The reply is ignored: the next command's own reply tells everything.
function ask(connection: RedisConnection): void {
  connection.command("asking", []).catch(() => undefined);
}
