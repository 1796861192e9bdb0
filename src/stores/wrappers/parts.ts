// Takes from buckets that lie in several places, none of which can settle a call alone: the nodes of a cluster, or two
// stores. Each place settles its part of the call as a group of its own, all at the same time; then the call is settled by
// receipts: what a part paid is given back, by what it was paid, if the call is refused. What becomes of the parts'
// answers is part-call.ts.

import type { Take, TakeGroup } from "../../core/take.ts";
import type { Settled } from "../store.ts";
import { PartCall } from "./part-call.ts";
import { giveBackAtPlaces, type Places } from "./places.ts";

/**
 * Settles calls over places. Never grants more than one store that kept all the buckets would, and refuses for the same
 * reasons; but while a call is under way, one that will be refused holds what its parts paid, so that another call at
 * that moment may find less (test/property/parts.test.ts). A call with all its buckets in one place is that place's alone.
 *
 * A place that gives no answer leaves its own takes unanswered. What the others say stands, and what they were paid.
 */
export class Parts {
  readonly #places: Places;
  readonly #idle: PartCall[] = [];

  constructor(places: Places) {
    this.#places = places;
  }

  /** As Store.take. */
  take(group: TakeGroup, then: Settled): boolean {
    const first = group.takes[0];
    if (first === undefined || group.size === 0) return this.#places.takeAt(0, group, then);
    const place = this.#places.placeOf(first);
    if (this.#isAllAt(place, group)) return this.#places.takeAt(place, group, then);
    const call = this.#idle.pop() ?? new PartCall(this.#places, (done) => this.#idle.push(done));
    return call.begin(group, then);
  }

  /** As Store.giveBack. */
  giveBack(group: TakeGroup): void {
    giveBackAtPlaces(this.#places, group);
  }

  #isAllAt(place: number, group: TakeGroup): boolean {
    for (let i = 1; i < group.size; i++) {
      if (this.#places.placeOf(group.takes[i] as Take) !== place) return false;
    }
    return true;
  }
}
