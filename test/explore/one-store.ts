// One server of a small world: the real settlement over a map of buckets.

import type { BucketAccess, BucketNumbers, WorkingBucket } from "../../src/engine/algorithms/working-bucket.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import type { TakeGroup } from "../../src/engine/domain/take.ts";
import type { Load } from "./code.ts";

export type StoreCode = typeof import("../../src/engine/domain/take.ts") &
  typeof import("../../src/engine/domain/limit.ts") &
  typeof import("../../src/engine/algorithms/held-settlement.ts") &
  typeof import("../../src/engine/algorithms/hold-book.ts");

/** Makes stores one after another, with one memory of holds: a new one ends the one before. */
export class OneStore {
  readonly #book: InstanceType<StoreCode["HoldBook"]>;
  readonly #code: StoreCode;

  constructor(code: StoreCode) {
    this.#code = code;
    this.#book = new code.HoldBook(100);
  }

  static async load(load: Load): Promise<StoreCode> {
    return {
      ...(await load<typeof import("../../src/engine/domain/take.ts")>("engine/domain/take.ts")),
      ...(await load<typeof import("../../src/engine/domain/limit.ts")>("engine/domain/limit.ts")),
      ...(await load<typeof import("../../src/engine/algorithms/held-settlement.ts")>(
        "engine/algorithms/held-settlement.ts",
      )),
      ...(await load<typeof import("../../src/engine/algorithms/hold-book.ts")>("engine/algorithms/hold-book.ts")),
    };
  }

  /** An empty store. Times are in microseconds. */
  begin() {
    const { HeldSettlement, TakeGroup, Mode } = this.#code;
    this.#book.clear();
    const buckets = new Map<string, BucketNumbers>();
    const access: BucketAccess = {
      hasRoomForPayment: () => true,
      load: (bucket) => {
        const kept = buckets.get(bucket.bucketKey);
        if (kept !== undefined) Object.assign(bucket.state, kept);
        return kept !== undefined;
      },
      save: ({ bucketKey, state: { atUs, used, previous } }: WorkingBucket) => {
        buckets.set(bucketKey, { atUs, used, previous });
      },
      extend: () => undefined,
      remove: ({ bucketKey }) => void buckets.delete(bucketKey),
    };
    const settlement = new HeldSettlement(access, this.#book);
    const take = (group: TakeGroup, nowUs: number): void => {
      for (let i = 0; i < group.size; i++) group.takes[i]?.needKeyBytes();
      settlement.settle(group, nowUs);
    };
    return {
      take,
      giveBack: (group: TakeGroup, nowUs: number): void => {
        for (let i = 0; i < group.size; i++) group.takes[i]?.needKeyBytes();
        settlement.giveBack(group, nowUs);
      },
      /** What is used of a limit's bucket. */
      used: (key: string, limit: Limit, nowUs: number): number => {
        const group = new TakeGroup();
        const peek = Object.assign(group.add(limit), { bucketKey: key, keyHash: 1, mode: Mode.peek, cost: 1 });
        take(group, nowUs);
        return limit.burst - peek.remaining;
      },
      /** What is kept of an id: when its live hold was paid, or that it was settled. */
      hold: (key: string, limit: Limit, id: string, nowUs: number) => {
        const take = Object.assign(new TakeGroup().add(limit), { bucketKey: key, keyHash: 1 });
        take.needKeyBytes();
        const paidAtUs = this.#book.find(take, id, nowUs)?.paidAtUs;
        return { paidAtUs, isSettled: this.#book.forgetAtUs(take, id) > nowUs };
      },
      /** All numbers that are kept. */
      kept: () => [...buckets],
    };
  }
}
