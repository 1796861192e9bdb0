// The options of a settler, with the functions that it calls when a batch has an outcome.

import type { TakeGroup } from "../../engine/domain/take.ts";
import type { Batch, BatchedGroup } from "./batch.ts";
import type { Breaker } from "./breaker.ts";
import type { CompleteOptions } from "./options.ts";
import type { Receipt } from "./receipts.ts";
import type { ServerTime } from "./server-time.ts";

export interface SettlerOptions<B extends Batch> extends Omit<CompleteOptions, "breaker"> {
  /** The server's name in sentences, such as Redis. */
  readonly serverName: string;
  readonly serverTime: ServerTime;
  readonly breaker: Breaker;
  /** Takes a payment of a group that had been answered without the store. */
  readonly giveBack: (receipt: Receipt, queue: number) => void;
  /** The server ran a batch that gave something back. */
  readonly onGivenBack: () => void;
  /** The server did not give these receipts back, so they have to be sent again. */
  readonly onNotGivenBack: (receipts: readonly Receipt[], queue: number) => void;
  /** A group was passed over because `holder` holds this key. Returns the queue in which it waits, or undefined if it shall fail. */
  readonly onHeld: (bucketKey: string, holder: number, group: TakeGroup) => number | undefined;
  /** Sends a group again, in this queue. */
  readonly again: (batched: BatchedGroup, queue: number) => void;
  /** All groups of a batch were answered before it was sent, so it need not be sent. */
  readonly onUnsent: (batch: B) => void;
  /** A sent batch has its outcome, or all its calls were answered without it: the queue has room for another. */
  readonly onRoom: () => void;
  /** A sent batch has had no answer for so long that its connection should be given up. */
  readonly onSilence: (batch: B, trouble: string) => void;
}
