// What is asked of places that keep buckets, none of which can settle a call alone.

import { copyAnswer, copyQuestion, type Take, TakeGroup } from "../../core/take.ts";
import type { Settled } from "../store.ts";

/** Places that keep buckets. What is taken at one place at a time is settled there as one. */
export interface Places {
  /** Number of the place that keeps the take's bucket. */
  placeOf(take: Take): number;
  /** As Store.take, for a group whose buckets are all kept there. */
  takeAt(place: number, group: TakeGroup, then: Settled): boolean;
  /** As Store.giveBack, for a group whose buckets are all kept there. Keeps nothing of the group. */
  giveBackAt(place: number, group: TakeGroup): void;
  /** Hears of each take of a call that was paid and is given back, because another part refused or nobody heard of it. */
  onUndone?(take: Take): void;
}

/** As Store.giveBack, for a group whose buckets may be kept anywhere. */
export function giveBackAtPlaces(places: Places, group: TakeGroup): void {
  const parts = new Map<number, TakeGroup>();
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (!take.paid) continue;
    const place = places.placeOf(take);
    let part = parts.get(place);
    if (part === undefined) {
      part = new TakeGroup();
      parts.set(place, part);
    }
    copyAnswer(take, copyQuestion(take, part));
  }
  for (const [place, part] of parts) places.giveBackAt(place, part);
}
