// Fills takes of counters (COMPATIBILITY_MODE): the key with the window that is open now, and the hits as they came.

import { Algorithm, type Limit } from "../core/limit.ts";
import type { Descriptor } from "../core/request.ts";
import { Mode, type Take, type TakeGroup } from "../core/take.ts";
import { hashBucketKey, shownValue } from "../rules/bucket-key.ts";

/** What a counter's take is made of, beside its limit. */
interface CounterAsk {
  /** Key of the descriptor's counters but for the window (counter-key.ts). */
  readonly key: string;
  readonly hits: number;
  /** Seconds of the clock that windows are cut by. */
  readonly nowS: number;
}

/** Adds the take. Zero hits charge nothing and are over only above the limit, as in the reference service. */
export function addCounter(group: TakeGroup, limit: Limit, descriptor: Descriptor, ask: CounterAsk): Take {
  const take = group.add(limit);
  const secondsIn = ask.nowS % limit.windowSeconds;
  take.bucketKey = ask.key + (ask.nowS - secondsIn);
  take.keyHash = hashBucketKey(take.bucketKey);
  take.windowSecondsLeft = limit.windowSeconds - secondsIn;
  take.mode = descriptor.isRefund ? Mode.refund : Mode.charge;
  take.cost = ask.hits;
  group.hasCounters = true;
  return take;
}

/** The same limit as a counter; for overrides, which are made without rules. */
export function asCounter(limit: Limit): Limit {
  return { ...limit, algorithm: Algorithm.fixedWindow, isCounter: true };
}

/** What an override's hits are counted under: its entries, one element each. */
export function entryPath({ keys, values, entryCount }: Descriptor, hashesValues: boolean): string[] {
  return keys.slice(0, entryCount).map((key, i) => {
    const value = shownValue(values[i] as string, hashesValues);
    return value === "" ? key : `${key}_${value}`;
  });
}
