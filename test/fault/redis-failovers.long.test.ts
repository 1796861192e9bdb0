// How much more than a limit passes when a primary is lost twice in a row, and when a network splits: the amounts that
// docs/hot-keys.md and docs/reliability.md state, played on real servers. The limit never refills, so that every call counts.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import type { SentinelTarget } from "../../src/stores/redis/sentinel-finder.ts";
import { makeLimit } from "../support/builders.ts";
import { FaultProxy } from "../support/fault-proxy.ts";
import { replicasWith, writtenIn } from "../support/redis-replicas.ts";
import { hurry, SentinelRig } from "../support/redis-sentinel.ts";
import { RedisServer } from "../support/redis-server.ts";
import { groupOn, ledgerOn, openRig, settle, until } from "./store-rig.ts";

const KEY = "k";
const BURST = 3_000;
const LIMIT = makeLimit({ amount: 0, burst: BURST, debtMax: BURST, windowSeconds: 3_600 });
const DEADLINE_MS = 1_000;

const access = { database: 0, login: undefined, loginFile: undefined, tls: undefined, connectTimeoutMs: 2_000 };
const sentinelTarget = (primaryName: string, sentinels: readonly RedisServer[]): SentinelTarget => ({
  ...access,
  primaryName,
  sentinels: sentinels.map(({ port }) => ({ kind: "tcp", host: "127.0.0.1", port })),
  sentinelAccess: access,
});

const open = (target: Parameters<typeof openRig>[0]["target"]) => openRig({ target, deadlineMs: DEADLINE_MS });

/** Pays as often as told, fewer if the limit refuses; calls without an answer are asked again. */
async function pay(store: SharedStore, times: number, isOver = () => false): Promise<number> {
  let paid = 0;
  let isRefused = false;
  for (let asked = 0; asked < times && !isRefused && !isOver(); ) {
    const { verdict } = await settle(store, groupOn(KEY, LIMIT));
    if (verdict === Verdict.failed) {
      await sleep(10); // what is answered at once would leave no turn for anything else
      continue;
    }
    asked++;
    if (verdict === Verdict.allowed) paid++;
    else isRefused = true;
  }
  return paid;
}

// Promise(redis): Two failovers in a row let what the replicas lacked pass once more, and nothing else.
test("two failovers in a row let pass once more what the replicas lacked, and nothing else", async () => {
  const rig = await SentinelRig.start();
  const { store, reports } = await open(sentinelTarget(rig.primaryName, rig.sentinels));
  let passed = 0;
  let lost = 0;
  for (let failover = 1; failover <= 2; failover++) {
    const old = await rig.primary();
    const others = rig.servers.filter((server) => server !== old && server.isRunning);
    const before = await ledgerOn(old, KEY);
    passed += await pay(store, 300);
    const written = writtenIn(await old.command("ROLE")) ?? Number.POSITIVE_INFINITY;
    await until("the replicas have it", async () => {
      return replicasWith(await old.command("ROLE"), written) === others.length;
    });
    // The replicas are cut off for a moment: what is paid now, they lack.
    for (const server of others) await server.command("REPLICAOF", "127.0.0.1", "1");
    passed += await pay(store, 100 * failover);
    const owed = await ledgerOn(old, KEY);
    expect(owed).toBe(before + 300 + 100 * failover);
    await old.kill();
    const primary = await rig.whenFailedOver(old);
    lost += owed - (await ledgerOn(primary, KEY));
    await until("it pays again", async () => {
      const isAllowed = (await settle(store, groupOn(KEY, LIMIT))).verdict === Verdict.allowed;
      if (isAllowed) passed++;
      return isAllowed;
    });
  }
  passed += await pay(store, 2 * BURST);
  // What was under way when the primary died may have been paid there: lost with it, and nobody's answer.
  expect([passed - BURST, reports.unknownGroups]).toEqual([lost, 0]);
  expect(lost).toBe(100 + 200);
}, 120_000);

// Promise(redis): A split network lets what was left of each limit pass once more.
test("in a split network each half grants by itself what was left, until the older primary is left", async () => {
  const older = await RedisServer.start(["--repl-diskless-sync-delay", "0"]);
  // What replicas and sentinels know of the older primary goes through here; its own half of the callers goes straight to it.
  const proxy = await FaultProxy.start(older.port);
  const replica = await RedisServer.start(["--replicaof", `127.0.0.1 ${proxy.port}`]);
  const config = [
    `sentinel monitor split 127.0.0.1 ${proxy.port} 1`,
    "sentinel down-after-milliseconds split 500",
    "sentinel failover-timeout split 3000",
  ];
  const sentinel = await RedisServer.startSentinel(config.join("\n"));
  await hurry(sentinel);
  const copied = async () => Number(await older.command("WAIT", "1", "1000")) === 1;
  await until("the replica is in step", copied, 20_000);
  const knows = async () => String(await sentinel.command("SENTINEL", "REPLICAS", "split")).includes(`${replica.port}`);
  await until("the sentinel knows it", knows, 20_000);

  const [left, right] = [await open(older.target()), await open(sentinelTarget("split", [sentinel]))];
  const shared = (await pay(left.store, 500)) + (await pay(right.store, 500));
  await until("all of it is copied", async () => (await ledgerOn(replica, KEY)) === shared);
  proxy.begin({ kind: "black hole" });
  const named = async () =>
    String(await sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "split")).includes(`${replica.port}`);
  await until("the replica is promoted", named, 20_000);
  const granted = await Promise.all([pay(left.store, 2 * BURST), pay(right.store, 2 * BURST)]);
  expect([shared, ...granted]).toEqual([1_000, BURST - 1_000, BURST - 1_000]);

  // The network is whole again: the older primary becomes a replica, and its callers are answered by policy.
  proxy.end();
  // Who makes it one ends all its connections, this one too.
  const role = () => older.command("ROLE").catch(() => "no answer");
  await until("it is a replica", async () => String(await role()).startsWith("slave"), 40_000);
  expect((await settle(left.store, groupOn(KEY, LIMIT))).verdict).not.toBe(Verdict.allowed);
  expect((await settle(right.store, groupOn(KEY, LIMIT))).verdict).toBe(Verdict.refused);
  expect(await ledgerOn(replica, KEY)).toBe(BURST);
}, 120_000);
