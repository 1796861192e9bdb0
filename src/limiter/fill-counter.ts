// Fills takes of counters (COMPATIBILITY_MODE): the key contains the current window, and the cost is the hits as sent.

import { Algorithm, type Limit } from "../core/limit.ts";
import type { Descriptor } from "../core/request.ts";
import { Mode, type Take, type TakeGroup } from "../core/take.ts";
import { hashBucketKey, shownValue } from "../rules/bucket-key.ts";

/** The parts of a counter's take beside its limit. */
interface CounterAsk {
  /** Key of the descriptor's counters without the window (counter-key.ts). */
  readonly key: string;
  readonly hits: number;
  /** The current second of the clock that defines windows. */
  readonly nowS: number;
}

/** Adds the take. A charge of 0 hits is over only if the count is above the limit already, as in the reference service. */
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

/** The limit as a counter. For overrides, which the rule compiler does not make. */
export function asCounter(limit: Limit): Limit {
  return { ...limit, algorithm: Algorithm.fixedWindow, isCounter: true };
}

/** The stat path of an override: one element per entry. */
export function entryPath({ keys, values, entryCount }: Descriptor, hashesValues: boolean): string[] {
  return keys.slice(0, entryCount).map((key, i) => {
    const value = shownValue(values[i] as string, hashesValues);
    return value === "" ? key : `${key}_${value}`;
  });
}
