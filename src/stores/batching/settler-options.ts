// What a settler is made with, and what it calls when a batch has an outcome.

import type { Batch, BatchedGroup } from "./batch.ts";
import type { Breaker } from "./breaker.ts";
import type { CompleteOptions } from "./options.ts";
import type { Receipt } from "./receipts.ts";
import type { ServerTime } from "./server-time.ts";

export interface SettlerOptions<B extends Batch> extends Omit<CompleteOptions, "breaker"> {
  /** The server in sentences: Redis. */
  readonly serverName: string;
  readonly serverTime: ServerTime;
  readonly breaker: Breaker;
  /** What was paid for groups that had been answered without the store. */
  readonly giveBack: (receipt: Receipt, lane: number) => void;
  /** The server ran a batch that gave something back. */
  readonly onGivenBack: () => void;
  /** The server did not run what should have given these back: they have still to be. */
  readonly onNotGivenBack: (receipts: readonly Receipt[], lane: number) => void;
  /** A group was passed over because somebody holds that key: the lane that it waits in now, undefined if it waits no more. */
  readonly onHeld: (bucketKey: string, holder: number) => number | undefined;
  /** Has a group travel again, in that lane. */
  readonly again: (batched: BatchedGroup, lane: number) => void;
  /** All groups of a batch were answered before it could be sent; it need not be sent any more. */
  readonly onUnsent: (batch: B) => void;
  /** A batch that was sent has its outcome: there is room on the way to the server. */
  readonly onRoom: () => void;
  /** The batch was sent and got no answer for so long that its connection should be given up. */
  readonly onSilence: (batch: B, trouble: string) => void;
}
