// A Redis store whose every report is counted, short ways to take from it, and a steady load that remembers all answers.

import { type IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { StoreError } from "../../src/base/errors.ts";
import { hashBucketKey } from "../../src/engine/domain/key-bytes.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { unpackNumbers } from "../../src/stores/redis/redis-batch.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import type { StoreObserver } from "../../src/stores/store-observer.ts";
import { makeLimit } from "../support/builders.ts";
import { closedWithTest } from "../support/ends.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { whenUp } from "../support/when-up.ts";

type RedisStoreOptions = Parameters<typeof openRedisStore>[0];

/** A bucket that never refills: its debt is the sum of all that was ever paid. */
export const LEDGER = makeLimit({ amount: 0, burst: 4_000_000_000, debtMax: 4_000_000_000, windowSeconds: 3_600 });

/** Counts what a store reports. */
export class Reports implements StoreObserver {
  answers = 0;
  readonly failures: StoreError[] = [];
  repeats = 0;
  redirections = 0;
  damagedBuckets = 0;
  lateGroups = 0;
  unknownGroups = 0;
  takesGivenBack = 0;
  takesKeptPaid = 0;
  readonly breakerStates: string[] = [];

  answered(): void {
    this.answers++;
  }
  repeated(): void {
    this.repeats++;
  }
  redirected(): void {
    this.redirections++;
  }
  failed(error: StoreError): void {
    this.failures.push(error);
  }
  damaged(buckets: number): void {
    this.damagedBuckets += buckets;
  }
  evicted(): void {
    throw new Error("a shared store evicts nothing");
  }
  loopLate(groups: number): void {
    this.lateGroups += groups;
  }
  outcomeUnknown(groups: number): void {
    this.unknownGroups += groups;
  }
  gaveBack(takes: number): void {
    this.takesGivenBack += takes;
  }
  keptPaid(takes: number): void {
    this.takesKeptPaid += takes;
  }
  breakerChanged(_server: string, state: string): void {
    this.breakerStates.push(state);
  }
}

/** A store, what it reports, and its connection awaited. */
export async function openRig(
  options: Omit<RedisStoreOptions, "observer">,
): Promise<{ store: SharedStore; reports: Reports }> {
  const reports = new Reports();
  const store = closedWithTest(openRedisStore({ ...options, observer: reports }));
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  return { store, reports };
}

/** A group of one take on each of these buckets, of descriptors of their own. */
export function groupOn(bucketKeys: string | readonly string[], limit: Limit = LEDGER, cost = 1): TakeGroup {
  const group = new TakeGroup();
  for (const [descriptor, bucketKey] of [bucketKeys].flat().entries()) {
    Object.assign(group.add(limit), { bucketKey, keyHash: hashBucketKey(bucketKey), cost, descriptor });
  }
  return group;
}

/** Takes, and resolves with the group once it is settled. */
export async function settle(store: Pick<Store, "take">, group: TakeGroup): Promise<TakeGroup> {
  await new Promise<void>((resolve) => {
    if (store.take(group, { answered: () => resolve() })) resolve();
  });
  return group;
}

/** Waits until `isSo`, looking every few milliseconds; throws after `ms`. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> {
  const endMs = performance.now() + ms;
  while (!(await isSo())) {
    if (performance.now() > endMs) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(5);
  }
}

/** Takes at a steady pace, whatever becomes of them. */
export class Load {
  readonly #store: Pick<Store, "take">;
  readonly #timer: NodeJS.Timeout;
  readonly #loopDelay: IntervalHistogram = monitorEventLoopDelay({ resolution: 1 });
  #number = 0;
  sent = 0;
  allowed = 0;
  failed = 0;
  slowestMs = 0;
  /** What was answered as paid, by bucket key. */
  readonly paid = new Map<string, number>();

  /** `perTick` takes every five milliseconds on `keys` keys named `load:0` and on. */
  constructor(store: Pick<Store, "take">, options: { readonly perTick: number; readonly keys: number }) {
    this.#store = store;
    this.#loopDelay.enable();
    this.#timer = setInterval(() => {
      for (let i = 0; i < options.perTick; i++) this.#takeOne(`load:${this.#number++ % options.keys}`);
    }, 5);
  }

  /**
   * How late this process itself may have been with an answer: its event loop at worst, once for the deadline's timer and once
   * for the turn in which sockets are read after it.
   */
  get loopLateMs(): number {
    return (2 * this.#loopDelay.max) / 1_000_000;
  }

  /** Stops, and resolves once every take was answered. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await until("every take is answered", () => this.allowed + this.failed === this.sent);
  }

  #takeOne(key: string): void {
    const group = groupOn(key);
    const startMs = performance.now();
    const settled = () => {
      this.slowestMs = Math.max(this.slowestMs, performance.now() - startMs);
      if (group.verdict === Verdict.failed) this.failed++;
      else this.allowed++;
      if (group.takes[0]?.paid === true) this.paid.set(key, (this.paid.get(key) ?? 0) + 1);
    };
    this.sent++;
    if (this.#store.take(group, { answered: settled })) settled();
  }
}

/** What all ledgers on that server hold, by bucket key. */
export async function ledgersOn(server: RedisServer): Promise<Map<string, number>> {
  const keys = ((await server.command("KEYS", "*")) as string[]).filter((key) => !key.startsWith("headgate:"));
  return new Map(await Promise.all(keys.map(async (key) => [key, await ledgerOn(server, key)] as const)));
}

/** What the ledger under `bucketKey` holds on that server. */
export async function ledgerOn(server: RedisServer, bucketKey: string): Promise<number> {
  const [debt = 0] = unpackNumbers(await server.commandForBytes("GET", bucketKey)) ?? [];
  return debt / 1_000_000;
}

/** Stops the server until the breaker is open, and lets it go on; resolves when the store, whom nobody asks, has found it well again. */
export async function hangAndHeal(
  server: { pause(): void; resume(): void },
  store: SharedStore,
  reports: Reports,
): Promise<void> {
  server.pause();
  await until("the breaker is open", async () => {
    await Promise.all(Array.from({ length: 30 }, (_, i) => settle(store, groupOn(`k${i}`))));
    return reports.breakerStates.at(-1) === "open";
  });
  server.resume();
  await until("it is well again", () => store.trouble() === undefined);
  expect(reports.breakerStates.at(-1)).toBe("closed");
}
