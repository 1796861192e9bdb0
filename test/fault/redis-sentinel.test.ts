// Redis under Sentinel: the primary is found, and found again when it changes, dies or hangs under load.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import type { SentinelTarget } from "../../src/stores/redis/sentinel-finder.ts";
import { closedWithTest } from "../support/ends.ts";
import { replicasWith, writtenIn } from "../support/redis-replicas.ts";
import { SentinelRig } from "../support/redis-sentinel.ts";
import type { RedisServer } from "../support/redis-server.ts";
import { freePort, RedisServer as Server } from "../support/redis-server.ts";
import { LateWatch } from "../support/turn-watch.ts";
import { whenUp } from "../support/when-up.ts";
import { troubleOf } from "./connect-rig.ts";
import { groupOn, Load, ledgerOn, openRig, settle, until } from "./store-rig.ts";

const DEADLINE_MS = 100;
/** A little: the timer's grain, and the turn in which sockets are read once more. */
const LITTLE_MS = 15;
const KEYS = 10;
/**
 * From the moment at which the sentinels name the new primary until takes are paid there: a second, and what other
 * processes of a busy machine take to pass their word on and to answer.
 */
const HEAL_MS_MAX = 1_500;
/** Payments that a primary may get after it is relieved: a tenth of a second's. Its successor is named a second later. */
const LOST_MAX = 200;

let rig: SentinelRig;
beforeEach(async () => {
  rig = await SentinelRig.start();
});

const access = { database: 0, login: undefined, loginFile: undefined, tls: undefined, connectTimeoutMs: 2_000 };

function targetOf(sentinels: readonly RedisServer[], overrides: Partial<SentinelTarget> = {}): SentinelTarget {
  return {
    ...access,
    primaryName: rig.primaryName,
    sentinels: sentinels.map(({ port }) => ({ kind: "tcp", host: "127.0.0.1", port })),
    sentinelAccess: access,
    ...overrides,
  };
}

async function pays(store: SharedStore): Promise<boolean> {
  return (await settle(store, groupOn("probe"))).verdict === Verdict.allowed;
}

const troubleWith = (target: SentinelTarget) => troubleOf(openRedisStore({ target, deadlineMs: 200 }));

/** Sum of all ledgers of a load, on that server. */
async function ledgers(server: RedisServer): Promise<number> {
  let sum = 0;
  for (let i = 0; i < KEYS; i++) sum += await ledgerOn(server, `load:${i}`);
  return sum;
}

const sumOf = (paid: ReadonlyMap<string, number>) => [...paid.values()].reduce((sum, one) => sum + one, 0);

/** Loads a store while `change` gives it another primary; how long it took to pay again, and what was lost. */
async function underLoad(change: (old: RedisServer) => Promise<void>) {
  const old = await rig.primary();
  const { store, reports } = await openRig({ target: targetOf(rig.sentinels), deadlineMs: DEADLINE_MS });
  const load = new Load(store, { perTick: 4, keys: KEYS });
  await sleep(500); // so that takes are under way when it happens
  // How far replicas lag behind is Redis's matter, and that of a busy machine. What they have by now must be kept.
  const copied = sumOf(load.paid);
  const written = writtenIn(await old.command("ROLE")) ?? Number.POSITIVE_INFINITY;
  await until("the replicas have it", async () => replicasWith(await old.command("ROLE"), written) === 2);
  await change(old);
  const primary = await rig.whenFailedOver(old);
  const namedMs = performance.now();
  const late = new LateWatch();
  await until("it pays again", () => pays(store));
  const healMs = performance.now() - namedMs;
  const lateMs = late.stop();
  const healed = sumOf(load.paid);
  await sleep(300); // so that the load runs on what has healed
  await load.stop();
  const paid = sumOf(load.paid);
  return { store, reports, load, primary, healMs, lateMs, paid, keptMin: copied + paid - healed };
}

/** Has the primary changed under load. Resolves to how many payments were answered, and to how many of them the new one has. */
async function expectReplaced(change: (old: RedisServer) => Promise<void>): Promise<{ paid: number; kept: number }> {
  const { store, reports, load, primary, healMs, lateMs, paid, keptMin } = await underLoad(change);
  const kept = await ledgers(primary);
  expect(healMs).toBeLessThan(HEAL_MS_MAX + lateMs);
  expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
  expect(load.allowed + load.failed).toBe(load.sent);
  expect(store.trouble()).toBeUndefined();
  expect(reports.breakerStates.at(-1) ?? "closed").toBe("closed");
  // Nothing is paid twice: what the new primary holds beyond what was answered as paid, nobody could know of.
  expect(kept).toBeLessThanOrEqual(paid + reports.unknownGroups);
  // What the replicas had before, and all since it pays again.
  expect(kept).toBeGreaterThanOrEqual(keptMin);
  return { paid, kept };
}

describe("failover under load", () => {
  // Promise(redis): A Sentinel primary that dies, hangs or hands over is left as soon as a replica is promoted.
  test.each([
    { name: "a primary that is killed", change: (old: RedisServer) => old.kill() },
    { name: "a primary that hangs", change: async (old: RedisServer) => old.pause() },
  ])("$name is replaced without a word from anybody", async ({ change }) => {
    await expectReplaced(change);
  });

  test("a primary that is relieved by hand is left at once", async () => {
    const { paid, kept } = await expectReplaced(() => rig.failOver());
    expect(paid - kept).toBeLessThan(LOST_MAX);
  });

  test("a primary that comes back as a replica is left alone", async () => {
    const { store, load } = await underLoad((old) => old.kill());
    const failed = load.failed;
    await rig.heal();
    expect(await pays(store)).toBe(true);
    expect(load.failed).toBe(failed);
    expect(store.trouble()).toBeUndefined();
  }, 60_000);
});

describe("finding", () => {
  test("sentinels that are dead or hang are passed over, and others are learnt of", async () => {
    const [dead, hanging, alive] = rig.sentinels as [RedisServer, RedisServer, RedisServer];
    const store = closedWithTest(openRedisStore({ target: targetOf([dead]), deadlineMs: 200 }));
    expect(await whenUp(store, 20_000)).toBe(true);
    await dead.kill();
    hanging.pause();
    const target = targetOf([dead, hanging, alive]);
    const another = closedWithTest(openRedisStore({ target, deadlineMs: 200 }));
    expect(await whenUp(another, 20_000)).toBe(true);
    // The first store was told of one sentinel only, which is dead by now.
    await (await rig.primary()).command("CLIENT", "KILL", "TYPE", "normal");
    await until("it is connected again", () => pays(store));
    hanging.resume();
  });

  // Promise(redis): The primary in use stays in use while no sentinel answers.
  test("the primary that was in use stays in use while no sentinel is there", async () => {
    const { store } = await openRig({ target: targetOf(rig.sentinels), deadlineMs: 200 });
    for (const sentinel of rig.sentinels) await sentinel.kill();
    const [primary] = rig.servers as [RedisServer];
    await primary.command("CLIENT", "KILL", "TYPE", "normal");
    await until("it is connected again", () => pays(store));
    expect(store.trouble()).toBeUndefined();
  });

  // Promise(redis): A server that calls itself a replica is not used, even if a sentinel names it.
  test("a server that was named but is no primary is not used", async () => {
    const [, replica] = rig.servers as [RedisServer, RedisServer];
    const liar = await Server.startSentinel("sentinel monitor gate 127.0.0.1 1 2");
    await liar.command("SENTINEL", "REMOVE", "gate");
    await liar.command("SENTINEL", "MONITOR", "other", "127.0.0.1", replica.port, 5);
    expect(await troubleWith(targetOf([liar], { primaryName: "other" }))).toBe(
      `Redis at 127.0.0.1:${replica.port} was named as the primary, but says that it is not`,
    );
  });
});

describe("one sentence says that", () => {
  test("the name is another, no sentinel is there, or a Redis server was taken for one", async () => {
    const [sentinel] = rig.sentinels as [RedisServer];
    const [primary, port] = [await rig.primary(), await freePort()];
    const nowhere = { kind: "tcp", host: "127.0.0.1", port } as const;
    const troubles = [
      await troubleWith(targetOf([sentinel], { primaryName: "mymaster" })),
      await troubleWith(targetOf([], { sentinels: [nowhere] })),
      await troubleWith(targetOf([primary])),
    ];
    expect(troubles).toEqual([
      `Sentinel at 127.0.0.1:${sentinel.port} knows no primary called mymaster`,
      `Sentinel at 127.0.0.1:${port} refuses connections: nothing listens there`,
      `Sentinel at 127.0.0.1:${primary.port} is a Redis server, not a sentinel`,
    ]);
  });

  test("a sentinel was taken for a Redis server", async () => {
    const [sentinel] = rig.sentinels as [RedisServer];
    expect(await troubleOf(openRedisStore({ target: sentinel.target(), deadlineMs: 200 }))).toMatch(
      /use redis-sentinel:\/\//,
    );
  });
});
