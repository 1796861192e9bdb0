// Sends batches to PostgreSQL and reads the replies. Batches wait while all connections are busy, and fill up
// meanwhile. Only a call that PostgreSQL rolled back because of another transaction is sent again, a bounded number of
// times. The settler matches answers with calls.

import { setTimeout as sleep } from "node:timers/promises";
import { StoreError } from "../../engine/base/errors.ts";
import type { Intake } from "../batching/intake.ts";
import type { CompleteOptions } from "../batching/options.ts";
import type { ReplyReader } from "../batching/reply.ts";
import { type PostgresBatch, storedKey } from "./batch.ts";
import {
  isRefusal,
  isWorthRepeating,
  keyOfMade,
  type PostgresConnection,
  ranNothing,
  waitedTooLong,
} from "./connect.ts";
import type { PostgresLink } from "./link.ts";
import { NOT_PLAIN, Queue, UNKNOWN_HOLDER } from "./locked-keys.ts";
import { BatchSettlement, settleLocked } from "./locked-takes.ts";
import { readTakeEach, TAKE_EACH, takeEachArguments } from "./take-each.ts";

/** How often a call is sent at most. */
const ATTEMPTS_MAX = 6;
/** From the third attempt on there is a pause first, of a random length that may double each time. */
const PAUSE_MS = 1;

interface DispatchOptions extends Pick<CompleteOptions, "clock" | "injectedTime" | "observer"> {
  readonly intake: Intake<PostgresBatch>;
  /** How long a call waits for locked rows, unless it is one of plain takes. */
  readonly lockTimeoutMs: number;
  /** A connection that is free for a statement. */
  readonly freeLink: () => PostgresLink | undefined;
  readonly describe: (error: unknown) => string;
  /** PostgreSQL refused a call, over that connection. */
  readonly onRefusal: (error: unknown, sentence: string, link: PostgresLink) => void;
}

/** Sends batches to PostgreSQL and takes the replies, over any free connection. */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #settlement: BatchSettlement;

  constructor(options: DispatchOptions) {
    const { intake, injectedTime } = options;
    this.#options = options;
    this.#settlement = new BatchSettlement({
      latestOf: intake.settler.latestOf,
      injectedUs: () => injectedTime?.nowUs(),
    });
  }

  /** Sends waiting batches over free connections. */
  pump(): void {
    const { freeLink, intake } = this.#options;
    for (let link = freeLink(); link !== undefined; link = freeLink()) {
      const batch = intake.next();
      if (batch === undefined) return;
      void this.#send(batch, link);
    }
  }

  async #send(batch: PostgresBatch, link: PostgresLink): Promise<void> {
    batch.link = link;
    try {
      await link.use(async (connection) => {
        for (;;) {
          try {
            this.#onReply(batch, link, await this.#call(batch, connection));
            return;
          } catch (error) {
            if (!(await this.#repeats(batch, error))) {
              this.#onError(batch, link, error);
              return;
            }
          }
        }
      });
    } catch (error) {
      // Only a caller's own code throws here; failures of the connection are handled above.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** Resolves to the reply; undefined if the answer is no reply. */
  async #call(batch: PostgresBatch, connection: PostgresConnection): Promise<ReplyReader | undefined> {
    const { clock, injectedTime, lockTimeoutMs, intake } = this.#options;
    batch.attempts++;
    batch.sentUs = clock.nowUs();
    const takes = batch.plainTakes(intake.settler.latestOf);
    const each = takes && takeEachArguments(takes);
    if (takes === undefined || each === undefined) {
      return await settleLocked(batch, connection, this.#settlement, lockTimeoutMs);
    }
    const values = [...each, String(injectedTime?.nowUs() ?? 0)];
    return readTakeEach(batch, takes, await connection.query({ ...TAKE_EACH, values }));
  }

  /** Whether the batch is sent again, after a pause if it was in conflict repeatedly. */
  async #repeats(batch: PostgresBatch, error: unknown): Promise<boolean> {
    if (batch.state === "done") return false;
    if (this.#passesOver(batch, error)) return batch.waiting > 0 || batch.receipts.length > 0;
    if (batch.waits && waitedTooLong(error)) {
      // Its rows that are not locked can still be paid.
      batch.waits = false;
      return batch.waiting > 0 || batch.receipts.length > 0;
    }
    if (!isWorthRepeating(error) || batch.attempts >= ATTEMPTS_MAX) return false;
    // Nobody waits for it any more, and nothing was paid.
    if (batch.waiting === 0 && batch.receipts.length === 0) return false;
    this.#options.observer.repeated();
    if (batch.attempts > 1) await sleep(Math.random() * PAUSE_MS * 2 ** (batch.attempts - 1));
    return true;
  }

  /** True if the batch waited for rows of only some of its groups; these are passed over now. */
  #passesOver(batch: PostgresBatch, error: unknown): boolean {
    const { settler } = this.#options.intake;
    const made = keyOfMade(error);
    if (made !== undefined) {
      return settler.passOver(batch, ({ bucketKey }) => storedKey(bucketKey) === made, UNKNOWN_HOLDER) > 0;
    }
    if (batch.waits || !waitedTooLong(error)) return false;
    // Somebody holds a row of a take_each call, which does not tell which one. Under lock that row can be passed over.
    if (batch.queue === Queue.plain) return settler.passOver(batch, () => true, NOT_PLAIN) > 0;
    // A call that waits for no row waits for a table: for that of settled holds, if others can go on without it.
    return settler.passOver(batch, ({ limit }) => limit.holdSeconds > 0, UNKNOWN_HOLDER) > 0;
  }

  #onReply(batch: PostgresBatch, link: PostgresLink, reader: ReplyReader | undefined): void {
    if (batch.state === "done") return;
    const { intake } = this.#options;
    if (reader === undefined) {
      const trouble = "sent a reply that does not fit the take";
      intake.settler.lose(batch, new StoreError("STORE_REPLY", `PostgreSQL ${trouble}`));
      link.reconnect(`${link.name} ${trouble}`);
      return;
    }
    intake.onAnswer();
    intake.settler.settle(batch, reader);
  }

  #onError(batch: PostgresBatch, link: PostgresLink, error: unknown): void {
    if (batch.state === "done") return;
    const { intake, describe, onRefusal } = this.#options;
    const sentence = describe(error);
    if (!isRefusal(error)) {
      intake.settler.lose(batch, new StoreError("STORE_UNREACHABLE", sentence, error));
      link.reconnect(sentence);
      return;
    }
    // What PostgreSQL says may quote values; it is described, never passed on.
    if (waitedTooLong(error)) {
      intake.settler.fail(batch, new StoreError("STORE_TIMEOUT", sentence));
      return;
    }
    const refused = new StoreError("STORE_COMMAND", sentence);
    if (isWorthRepeating(error)) {
      intake.settler.fail(batch, refused, true);
      return;
    }
    if (ranNothing(error)) intake.settler.fail(batch, refused);
    else intake.settler.lose(batch, refused);
    onRefusal(error, sentence, link);
  }
}
