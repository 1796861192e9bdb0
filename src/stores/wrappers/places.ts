// What is asked of places that keep buckets, none of which can settle a call alone.

import type { Take, TakeGroup } from "../../core/take.ts";
import type { Settled } from "../store.ts";

/** Places that keep buckets. What is taken at one place at a time is settled there as one. */
export interface Places {
  /** Number of the place that keeps the take's bucket. */
  placeOf(take: Take): number;
  /** As Store.take, for a group whose buckets are all kept there. */
  takeAt(place: number, group: TakeGroup, then: Settled): boolean;
  /** As Store.giveBack, for a group whose buckets are all kept there. Keeps nothing of the group. */
  giveBackAt(place: number, group: TakeGroup): void;
  /** Hears of each take of a call that was paid and is given back, because another part refused or failed. */
  onUndone?(take: Take): void;
}
