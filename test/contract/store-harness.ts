// What the contract suites need of a store under test, and short ways to ask it.

import { hashBucketKey } from "../../src/engine/domain/key-bytes.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { Kind, Mode, type Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { CountersFirst } from "../../src/stores/counters/counters-first.ts";

/** A fresh store whose time is moved by hand. */
export interface StoreHarness {
  readonly store: Store;
  /** What bucket keys begin with, so that runs on one server don't meet; without braces. */
  readonly keyPrefix: string;
  nowUs(): number;
  /** Sets the time that the store takes at. */
  setUs(nowUs: number): void;
  /** Takes, and resolves once the group is settled. */
  settle(group: TakeGroup): Promise<void>;
  /** Gives back, and resolves once that has reached the buckets. */
  giveBack(group: TakeGroup): Promise<void>;
}

/** Makes a harness over an empty store, standing at 2026-01-01T00:00:00Z. */
export type HarnessFactory = () => StoreHarness | Promise<StoreHarness>;

/** 2026-01-01T00:00:00Z: a whole day, so windows up to a day begin there. */
export const START_US = Date.UTC(2026, 0, 1) * 1000;

export const SECOND_US = 1_000_000;

/** One take as tests write it; what is not named is one hit paid by an ordinary descriptor. */
export interface Ask {
  readonly limit: Limit;
  /** Tells buckets of equal limits apart. */
  readonly identity?: string;
  readonly cost?: number;
  readonly mode?: Mode;
  readonly kind?: Kind;
  readonly holdId?: string;
  /** Counted up from 0 if no take of the group names one. */
  readonly descriptor?: number;
}

/** A group of those takes, as the limiter would fill it. */
export function groupOf(asks: readonly Ask[], keyPrefix: string, hasSpareQuota = false): TakeGroup {
  const group = new TakeGroup();
  fillGroup(group, asks, keyPrefix, hasSpareQuota);
  return group;
}

/** Fills an empty group. */
export function fillGroup(group: TakeGroup, asks: readonly Ask[], keyPrefix: string, hasSpareQuota: boolean): void {
  group.hasSpareQuota = hasSpareQuota;
  asks.forEach((ask, index) => {
    const take = group.add(ask.limit);
    take.bucketKey = bucketKeyOf(ask, keyPrefix);
    take.keyHash = hashBucketKey(take.bucketKey);
    take.descriptor = ask.descriptor ?? index;
    take.kind = ask.kind ?? Kind.ordinary;
    take.mode = ask.mode ?? Mode.pay;
    take.cost = ask.cost ?? 1;
    take.holdId = ask.holdId ?? "";
  });
}

/** Key under which the bucket of an ask is kept. */
export function bucketKeyOf(ask: Ask, keyPrefix: string): string {
  return `${keyPrefix}{test|id=${ask.identity ?? "a"}${ask.limit.keySuffix}`;
}

/** Settles a group of those takes and returns it. */
export async function ask(harness: StoreHarness, asks: readonly Ask[], hasSpareQuota = false): Promise<TakeGroup> {
  const group = groupOf(asks, harness.keyPrefix, hasSpareQuota);
  await harness.settle(group);
  return group;
}

/** Settles a group of one take and returns the take. */
export async function askOne(harness: StoreHarness, one: Ask): Promise<Take> {
  return takeOf(await ask(harness, [one]), 0);
}

/** What a peek of one hit says of a bucket; changes nothing. */
export async function look(harness: StoreHarness, limit: Limit, identity = "a"): Promise<Take> {
  return askOne(harness, { limit, identity, mode: Mode.peek });
}

/** Settles a group that may have counters and other limits, as a process does under COMPATIBILITY_MODE. */
export async function settleWithCounters(harness: StoreHarness, group: TakeGroup, stopsAtOver = false): Promise<void> {
  const store: Store = {
    take(part, then) {
      const { generation } = part;
      void harness.settle(part).then(() => then.answered(part, generation));
      return false;
    },
    giveBack: (part) => void harness.giveBack(part),
    close: async () => undefined,
  };
  const all = new CountersFirst(store, store, { stopsAtOver });
  await new Promise<void>((resolve) => {
    if (all.take(group, { answered: () => resolve() })) resolve();
  });
}

export function advance(harness: StoreHarness, deltaUs: number): void {
  harness.setUs(harness.nowUs() + deltaUs);
}

export function takeOf(group: TakeGroup, index: number): Take {
  const take = group.takes[index];
  if (take === undefined || index >= group.size) throw new RangeError(`no take ${index} in a group of ${group.size}`);
  return take;
}
