// Counters that travel in one call of lua/counters.lua, which explains the arguments.

import type { ServerTimes } from "../batching/batch.ts";
import type { ClusterTags } from "./cluster-tags.ts";
import { packNumbers, RedisBatch } from "./redis-batch.ts";

/** The queue of counters outside a cluster. In a cluster each hash slot has its own. */
export const COUNTERS_QUEUE = 1;

/** Groups of counters for one script call. */
export class CounterBatch extends RedisBatch {
  readonly #jitterSecondsMax: number;

  /** Counters live up to `jitterSecondsMax` longer than their window. */
  constructor(queue: number, tags: ClusterTags | undefined, jitterSecondsMax: number) {
    super(queue, tags);
    this.#jitterSecondsMax = jitterSecondsMax;
  }

  override get script(): "counters" {
    return "counters";
  }

  override encode(timeUs: number, { latestOf }: ServerTimes): string[] {
    this.writeLatest(latestOf);
    const limits: number[] = [];
    for (const { amount, windowSeconds } of this.limits) {
      limits.push(amount, windowSeconds + Math.floor(Math.random() * this.#jitterSecondsMax));
    }
    const packed = [packNumbers([timeUs]), packNumbers(limits), packNumbers(this.numbers)];
    return [String(this.keys.length), ...this.storedKeys(), ...packed];
  }
}
