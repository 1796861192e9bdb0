// The settlement over a plain Map: what memory and Redis are compared with. It never sweeps and never evicts, so it
// answers right also after time has stepped back.

import type { Clock } from "../../src/base/clock.ts";
import { HeldSettlement } from "../../src/engine/algorithms/held-settlement.ts";
import { HoldBook } from "../../src/engine/algorithms/hold-book.ts";
import type { BucketAccess, WorkingBucket } from "../../src/engine/algorithms/working-bucket.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import type { TakeGroup } from "../../src/engine/domain/take.ts";

interface Numbers {
  readonly atUs: number;
  readonly used: number;
  readonly previous: number;
}

class MapAccess implements BucketAccess {
  readonly hasRoomForPayment = () => true;
  readonly #numbers = new Map<string, Numbers>();
  readonly #logs = new Map<string, Float64Array>();

  load(bucket: WorkingBucket): boolean {
    const numbers = this.#numbers.get(bucket.bucketKey);
    const log = this.#logs.get(bucket.bucketKey);
    if (numbers !== undefined) Object.assign(bucket.state, numbers);
    if (log !== undefined) bucket.useLog().restore(log);
    return numbers !== undefined || log !== undefined;
  }

  save(bucket: WorkingBucket): void {
    if (bucket.log === undefined) this.#numbers.set(bucket.bucketKey, { ...bucket.state });
    else this.#logs.set(bucket.bucketKey, bucket.log.kept());
  }

  extend(): void {
    // Nothing here expires.
  }

  remove(bucket: WorkingBucket): void {
    this.#numbers.delete(bucket.bucketKey);
    this.#logs.delete(bucket.bucketKey);
  }
}

/** A store that is as simple as one can be. */
export class ReferenceStore implements Store {
  readonly #clock: Clock;
  readonly #settlement = new HeldSettlement(new MapAccess(), new HoldBook());

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(group: TakeGroup): boolean {
    this.#settlement.settle(group, this.#clock.nowUs());
    return true;
  }

  giveBack(group: TakeGroup): void {
    this.#settlement.giveBack(group, this.#clock.nowUs());
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
