// Never more than the rule says, on each store that processes share: many callers through two stores with connections of
// their own are granted what one caller would be, and calls over several buckets leave in them exactly what was granted.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { hashBucketKey } from "../../src/engine/domain/key-bytes.ts";
import type { Limit } from "../../src/engine/domain/limit.ts";
import type { Store } from "../../src/engine/domain/store.ts";
import { Mode, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { SHARED_STORES, type SharedServers } from "../support/shared-stores.ts";
import { groupOn, Reports, settle, until } from "./store-rig.ts";

const STORES = 2;
const CALLERS = 64;
const SECONDS = 1;
const CALLS_EACH = 25;

/**
 * Buckets that never refill, in slots of their own; those of a window of a second lie on the second of two servers. Every
 * kind runs out: some users first, all tenants and everybody at last.
 */
const USERS = Array.from({ length: 8 }, (_, i) => ({ key: `{user${i}}`, limit: ledgerOf(i < 4 ? 60 : 250, 3_600) }));
const TENANTS = Array.from({ length: 3 }, (_, i) => ({ key: `{tenant${i}}`, limit: ledgerOf(380, 1) }));
const EVERYBODY = { key: "{everybody}", limit: ledgerOf(1_000, 3_600) };
const BUCKETS: readonly Bucket[] = [...USERS, ...TENANTS, EVERYBODY];
/** A bucket is made once, by one of those who come first; every other call may have to be made again for it. */
const REPEATS_MAX: Readonly<Record<string, number>> = {
  PostgreSQL: BUCKETS.length * STORES * 4,
};

interface Bucket {
  readonly key: string;
  readonly limit: Limit;
}

describe.each(SHARED_STORES)("on $name", ({ name, start }) => {
  let servers: SharedServers;
  let stores: Store[];
  const reports = new Reports();
  beforeAll(async () => {
    servers = await start();
    stores = await Promise.all(Array.from({ length: STORES }, () => servers.open(reports)));
  }, 60_000);
  const storeOf = (caller: number) => stores[caller % STORES] as Store;

  // Promise(limits): Callers in several processes get burst + rate x time by the server's clock, and not one more, on every shared store.
  test("64 callers on one key get burst + rate x time, by the server's clock, and not one more", async () => {
    const limit = makeLimit({ amount: 10, burst: 10 });
    const endMs = performance.now() + SECONDS * 1_000;
    const paidAtUs: number[] = [];
    const call = async (caller: number) => {
      while (performance.now() < endMs) {
        const take = (await settle(storeOf(caller), groupOn("hot", limit))).takes[0];
        if (take?.paid === true) paidAtUs.push(take.paidAtUs);
        await sleep(1); // a caller's pause
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
    const seconds = (Math.max(...paidAtUs) - Math.min(...paidAtUs)) / 1_000_000;
    expect(seconds).toBeGreaterThan(SECONDS / 2);
    expect(paidAtUs.length).toBeLessThanOrEqual(limit.burst + limit.amount * seconds);
    expect(paidAtUs.length).toBeGreaterThan(limit.burst + limit.amount * seconds - 2);
    expect([...new Set(reports.failures.map(String))]).toEqual([]);
  });

  // Promise(limits): Each bucket holds exactly what was granted, over several buckets, slots and servers.
  // Promise(limits): Calls over several limits in two processes get each limit to the last hit.
  test("calls over three buckets get each to the last hit and not one more, and leave in each what was granted", async () => {
    const repeatsBefore = reports.repeats;
    const granted = new Map<string, number>();
    let refused = 0;
    const call = async (caller: number) => {
      for (let i = 0; i < CALLS_EACH; i++) {
        const cost = 1 + ((caller + i) % 3);
        const buckets = [at(USERS, caller + 3 * i), at(TENANTS, caller * 5 + i), EVERYBODY];
        const { verdict } = await settle(storeOf(caller + i), groupOver(buckets, cost));
        if (verdict === Verdict.refused) refused++;
        if (verdict !== Verdict.allowed) continue;
        for (const { key } of buckets) granted.set(key, (granted.get(key) ?? 0) + cost);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));

    for (const { key, limit } of BUCKETS) expect(granted.get(key)).toBeLessThanOrEqual(limit.burst);
    expect(refused).toBeGreaterThan(CALLERS);
    await until("refused calls hold nothing any more", async () => {
      const left = await Promise.all(BUCKETS.map((bucket) => leftIn(storeOf(0), bucket)));
      return BUCKETS.every(({ key, limit }, i) => left[i] === limit.burst - (granted.get(key) ?? 0));
    });
    // A refused call may have held for a moment what another would have got.
    let last = granted.get(EVERYBODY.key) ?? 0;
    while ((await settle(storeOf(last), groupOver([EVERYBODY], 1))).verdict === Verdict.allowed) last++;
    expect(last).toBe(EVERYBODY.limit.burst);
    expect([...new Set(reports.failures.map(String))]).toEqual([]);
    const repeats = reports.repeats - repeatsBefore;
    expect(repeats).toBeLessThanOrEqual(REPEATS_MAX[name] ?? 0);
    process.stdout.write(`${name}: ${granted.get(EVERYBODY.key)} granted, ${refused} refused, ${repeats} repeated\n`);
  });
});

function ledgerOf(burst: number, windowSeconds: number): Limit {
  return makeLimit({ amount: 0, burst, debtMax: burst, windowSeconds });
}

function at(buckets: readonly Bucket[], place: number): Bucket {
  return buckets[place % buckets.length] as Bucket;
}

function groupOver(buckets: readonly Bucket[], cost: number, mode: Mode = Mode.pay): TakeGroup {
  const group = new TakeGroup();
  for (const [descriptor, { key, limit }] of buckets.entries()) {
    const take = group.add(limit);
    take.bucketKey = key;
    take.keyHash = hashBucketKey(key);
    take.descriptor = descriptor;
    take.cost = cost;
    take.mode = mode;
  }
  return group;
}

async function leftIn(store: Store, bucket: Bucket): Promise<number> {
  return (await settle(store, groupOver([bucket], 1, Mode.peek))).takes[0]?.remaining ?? -1;
}
