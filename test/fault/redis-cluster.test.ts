// A Redis Cluster whose primaries die, hang, hand over and move their slots under load: calls are answered in time, nothing
// is paid twice, and it heals by itself.

import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { openClusterStore } from "../../src/stores/redis/cluster-store.ts";
import { ClusterTags, keySlot } from "../../src/stores/redis/cluster-tags.ts";
import type { ClusterTarget } from "../../src/stores/redis/cluster-topology.ts";
import { openRedisStore } from "../../src/stores/redis/redis-store.ts";
import { makeLimit } from "../support/builders.ts";
import { closedWithTest } from "../support/ends.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { freePort, RedisServer } from "../support/redis-server.ts";
import { LateWatch } from "../support/turn-watch.ts";
import { whenUp } from "../support/when-up.ts";
import { troubleOf } from "./connect-rig.ts";
import { groupOn, LEDGER, Load, ledgerOn, Reports, settle, until } from "./store-rig.ts";

const DEADLINE_MS = 100;
/** A little: the timer's grain, and the turn in which sockets are read once more. */
const LITTLE_MS = 15;
const KEYS = 30;
/** From the moment at which the cluster has a new primary until all takes are paid again. */
const HEAL_MS_MAX = 1_500;

let rig: ClusterRig;

async function openOn(target: ClusterTarget, deadlineMs = DEADLINE_MS, tags?: number) {
  const reports = new Reports();
  const options = { target, deadlineMs, observer: reports, ...(tags === undefined ? {} : { tags }) };
  const store = closedWithTest(openClusterStore(options));
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  return { store, reports };
}

const loadKeys = Array.from({ length: KEYS }, (_, index) => `load:${index}`);

/** What a bucket is kept under. */
function storedKey(bucketKey: string, tags = new ClusterTags()): string {
  return tags.storedKey(bucketKey, tags.queueOf({ bucketKey, limit: LEDGER }));
}

const slotOf = (bucketKey: string) => keySlot(storedKey(bucketKey));

/** What the cluster holds of a bucket, at the node that serves it now. */
async function ledger(bucketKey: string): Promise<number> {
  return await ledgerOn(await rig.ownerOf(slotOf(bucketKey)), storedKey(bucketKey));
}

/** True if every key of the load is paid now. */
async function paysAll(store: SharedStore): Promise<boolean> {
  const groups = await Promise.all(loadKeys.map((key) => settle(store, groupOn(`${key}:{probe}{${key}}`))));
  const others = await Promise.all(loadKeys.map((key) => settle(store, groupOn(`probe:{${key}}`))));
  return [...groups, ...others].every(({ verdict }) => verdict === Verdict.allowed);
}

/** What the load's ledgers hold, by key, at the nodes that serve them now. */
async function ledgers(): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  for (const key of loadKeys) found.set(key, await ledger(key));
  return found;
}

/** Moves a slot to the next node. */
async function moveOn(slot: number, pauseMs: number): Promise<void> {
  const at = rig.nodes.indexOf(await rig.ownerOf(slot));
  await rig.moveSlot(slot, rig.nodes[(at + 1) % rig.nodes.length] as RedisServer, pauseMs);
}

/** Has callers call for as long as `work` takes, or fails. */
async function whileCalling(
  count: number,
  caller: (goesOn: () => Promise<boolean>, number: number) => Promise<void>,
  work: () => Promise<void>,
): Promise<void> {
  let isWorking = true;
  // A pause between two calls: those that fail at once would leave no time for anything else.
  const goesOn = () => sleep(1).then(() => isWorking);
  const callers = Array.from({ length: count }, (_, number) => caller(goesOn, number));
  try {
    await work();
  } finally {
    isWorking = false;
  }
  await Promise.all(callers);
}

const sumOf = (numbers: ReadonlyMap<string, number>) => [...numbers.values()].reduce((sum, one) => sum + one, 0);

describe("a primary under load", () => {
  // Promise(redis): A Cluster primary that dies or hangs is replaced, and takes on other primaries pass.
  test.each([
    { name: "that is killed", change: (node: RedisServer) => node.kill() },
    { name: "that hangs", change: async (node: RedisServer) => node.pause() },
  ])("$name is replaced, the others' takes pass all the while", async ({ change }) => {
    rig = await ClusterRig.start();
    const { store, reports } = await openOn(rig.target());
    const lost = await rig.ownerOf(0);
    const load = new Load(store, { perTick: 4, keys: KEYS });
    await sleep(500); // so that takes are under way when it happens
    await change(lost);
    await sleep(300); // the cluster has not noticed yet
    const [allowed, failed] = [load.allowed, load.failed];
    await sleep(300); // takes of the others
    const shareAllowed = (load.allowed - allowed) / (load.allowed - allowed + load.failed - failed);
    await rig.whenTakenOver(lost);
    const takenOverMs = performance.now();
    const late = new LateWatch();
    await until("all takes are paid", () => paysAll(store));
    const healMs = performance.now() - takenOverMs;
    const lateMs = late.stop();
    await sleep(300); // so that the load runs on what has healed
    await load.stop();

    expect(shareAllowed).toBeGreaterThan(0.4);
    expect(healMs).toBeLessThan(HEAL_MS_MAX + lateMs);
    expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
    expect(load.allowed + load.failed).toBe(load.sent);
    expect(store.trouble()).toBeUndefined();
    const kept = await ledgers();
    expect(sumOf(kept)).toBeLessThanOrEqual(sumOf(load.paid) + reports.unknownGroups);
  });

  // Promise(redis): Calls that can wait are answered while a Cluster primary hands over, and its silence counts no failure.
  test.each([{ name: "that hands over" }, { name: "that hands over, and forgets to whom,", forgets: true }])(
    "$name costs no call its answer that can wait, and no breaker opens",
    async ({ forgets = false }) => {
      rig = await ClusterRig.start();
      const { store, reports } = await openOn(rig.target(), 5_000);
      const load = new Load(store, { perTick: 4, keys: KEYS });
      await sleep(300); // so that takes are under way when it happens
      const before = await rig.ownerOf(0);
      // On a slow machine a late packet has it do so: it says CLUSTERDOWN until the new primary's next ping.
      const forgetting = forgets ? rig.forgetSlots(before, 300) : undefined;
      await rig.failOver(before);
      await forgetting;
      await sleep(300); // so that the load runs on the new primary
      await load.stop();
      // Named, so that what a hand-over cost can be told from the log of a run.
      expect(reports.failures.map(({ code, message }) => `${code}: ${message}`)).toEqual([]);
      expect(load.failed).toBe(0);
      expect(reports.redirections).toBeGreaterThan(0);
      expect([reports.unknownGroups, reports.breakerStates]).toEqual([0, []]);
      await rig.whenWell(); // the rig asks the one that forgot
      for (const [key, kept] of await ledgers()) expect([key, kept]).toEqual([key, load.paid.get(key)]);
    },
  );
});

describe("resharding under load", () => {
  // Promise(redis): Moving slots under load lose no answer and no payment, and pay nothing twice.
  test("costs no call its answer, and no bucket a payment", async () => {
    rig = await ClusterRig.start({ replicas: false });
    const { store, reports } = await openOn(rig.target(), 5_000);
    const load = new Load(store, { perTick: 4, keys: KEYS });
    await sleep(200); // so that takes are under way when it begins
    for (let round = 0; round < 3; round++) {
      for (const key of loadKeys) await moveOn(slotOf(key), 5);
    }
    await load.stop();
    expect(load.failed).toBe(0);
    expect(reports.unknownGroups).toBe(0);
    expect(reports.redirections).toBeGreaterThan(KEYS);
    await until("what was given back has arrived", async () => {
      const kept = await ledgers();
      return loadKeys.every((key) => kept.get(key) === load.paid.get(key));
    });
  });

  // Promise(redis): A call on a moving slot does not wait until the slot has moved.
  test("of a tag costs no call its answer that names buckets here, there and nowhere yet", async () => {
    rig = await ClusterRig.start({ replicas: false });
    const { store, reports } = await openOn(rig.target(), 20_000, 1);
    const tags = new ClusterTags(1);
    // One slot has all buckets. A call that waited until it has moved would wait for as long as the move takes.
    const old = Array.from({ length: 400 }, (_, index) => `old:${index}`);
    await Promise.all(old.map((key) => settle(store, groupOn(key))));
    const paid = new Map(old.map((key) => [key, 1]));
    const failures: string[] = [];
    let made = 0;
    let slowestMs = 0;
    const caller = async (goesOn: () => Promise<boolean>, number: number) => {
      for (let round = 0; await goesOn(); round++) {
        const keys = [old[(number * 50 + round) % old.length] as string, `new:${made++}`];
        const group = groupOn(keys);
        const beganMs = performance.now();
        await settle(store, group);
        slowestMs = Math.max(slowestMs, performance.now() - beganMs);
        if (group.verdict !== Verdict.allowed) failures.push(group.failure?.message ?? "refused");
        else for (const key of keys) paid.set(key, (paid.get(key) ?? 0) + 1);
        await sleep(5); // so that what is new does not outrun what is moved
      }
    };
    const slot = keySlot(storedKey("old:0", tags));
    const beganMs = performance.now();
    await whileCalling(8, caller, () => moveOn(slot, 2));
    const tookMs = performance.now() - beganMs;
    expect(failures).toEqual([]);
    expect(slowestMs).toBeLessThan(tookMs / 2);
    expect(made).toBeGreaterThan(100);
    expect([reports.unknownGroups, reports.takesKeptPaid]).toEqual([0, 0]);
    const owner = await rig.ownerOf(slot);
    const kept = await Promise.all([...paid.keys()].map((key) => ledgerOn(owner, storedKey(key, tags))));
    expect(kept).toEqual([...paid.values()]);
  });

  test("a new node takes over slot after slot, and no call notices", async () => {
    rig = await ClusterRig.start({ replicas: false, spares: 1 });
    const { store, reports } = await openOn(rig.target(), 5_000);
    const load = new Load(store, { perTick: 4, keys: KEYS });
    await sleep(200); // so that takes are under way when it begins
    const spare = rig.nodes.at(-1) as RedisServer;
    for (const key of loadKeys) await rig.moveSlot(slotOf(key), spare, 20);
    await load.stop();
    expect(load.failed).toBe(0);
    expect(reports.redirections).toBeGreaterThan(KEYS);
    for (const key of loadKeys) expect(await ledgerOn(spare, storedKey(key))).toBe(load.paid.get(key));
  });

  test("that was left half done keeps no new process from the node", async () => {
    rig = await ClusterRig.start({ replicas: false });
    // The self-test has its key in the last slot that a node serves.
    const slot = 16_383;
    const from = await rig.ownerOf(slot);
    const to = await rig.ownerOf(0);
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", String(await from.command("CLUSTER", "MYID")));
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", String(await to.command("CLUSTER", "MYID")));
    const { store } = await openOn(rig.target(), 5_000);
    expect(await paysAll(store)).toBe(true);
  });

  // Promise(redis): Processes with different REDIS_CLUSTER_TAGS never count a bucket twice, not even during a flush.
  test("grants a bucket no more than it holds", async () => {
    rig = await ClusterRig.start({ replicas: false });
    const { store } = await openOn(rig.target(), 500);
    const limit = makeLimit({ amount: 0, burst: 500, debtMax: 500, windowSeconds: 3_600 });
    const keys = ["{a}", "{b}", "{c}"];
    let underWay = 0;
    const granted = new Map<string, number>();
    const caller = async (goesOn: () => Promise<boolean>, number: number) => {
      // A call that needs two buckets of two slots.
      const pair = [keys[number % 3] as string, keys[(number + 1) % 3] as string];
      while (await goesOn()) {
        const group = groupOn(pair, limit);
        underWay++;
        await settle(store, group);
        if (group.verdict !== Verdict.allowed) continue;
        for (const key of pair) granted.set(key, (granted.get(key) ?? 0) + 1);
      }
    };
    await whileCalling(12, caller, async () => {
      for (let round = 0; round < 20; round++) await moveOn(slotOf(keys[round % 3] as string), 2);
    });
    expect(underWay).toBeGreaterThan(500);
    expect(Math.max(...granted.values())).toBeLessThanOrEqual(500);
    // No token is lost either: two buckets that every third caller needs are empty to the last.
    expect([...granted.values()].reduce((sum, one) => sum + one, 0)).toBeGreaterThan(990);
    await until("refused calls hold nothing any more", async () => {
      for (const key of keys) {
        if ((await ledger(key)) !== (granted.get(key) ?? 0)) return false;
      }
      return true;
    });
  });
});

describe("while a slot is on two nodes", () => {
  const tags = new ClusterTags(1);
  const keys = ["one", "two"];
  const stored = keys.map((key) => storedKey(key, tags));
  const slot = keySlot(stored[0] as string);

  /** A store with both keys in one slot, each paid once by one call; and the slot's node and another. */
  async function paidOn() {
    rig = await ClusterRig.start({ replicas: false });
    const { store, reports } = await openOn(rig.target(), 5_000, 1);
    const from = await rig.ownerOf(slot);
    const to = rig.nodes.find((node) => node !== from) as RedisServer;
    const paid = groupOn(keys);
    expect((await settle(store, paid)).verdict).toBe(Verdict.allowed);
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", String(await from.command("CLUSTER", "MYID")));
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", String(await to.command("CLUSTER", "MYID")));
    const migrate = (key: string) => from.command("MIGRATE", "127.0.0.1", to.port, key, 0, 5_000);
    return { store, reports, from, to, paid, migrate };
  }

  test("what is to be given back is, though no call follows", async () => {
    const { store, reports, paid, migrate } = await paidOn();
    await migrate(stored[0] as string);
    store.giveBack(paid);
    await until("both are given back", () => reports.takesGivenBack === 2);
    expect(reports.takesKeptPaid).toBe(0);
  });

  // Promise(redis): A store that closes while a slot moves loses no answer and no give-back.
  test("a store that closes in the moment of the move answers, and gives back", async () => {
    const { store, reports, from, to, paid, migrate } = await paidOn();
    for (const key of stored) await migrate(key);
    const owner = String(await to.command("CLUSTER", "MYID"));
    for (const node of [to, from]) await node.command("CLUSTER", "SETSLOT", slot, "NODE", owner);
    const last = settle(store, groupOn(keys[0] as string));
    store.giveBack(paid);
    await store.close();
    expect((await last).verdict).toBe(Verdict.allowed);
    expect([reports.takesGivenBack, reports.takesKeptPaid]).toEqual([2, 0]);
  });
});

test("a store that closes waits for a node that hangs once, and no longer", async () => {
  rig = await ClusterRig.start({ replicas: false });
  const { store } = await openOn(rig.target());
  const hung = await rig.ownerOf(slotOf("k"));
  hung.pause();
  const call = settle(store, groupOn("k"));
  const late = new LateWatch();
  const startMs = performance.now();
  await store.close();
  // Once is 250 ms here.
  expect(performance.now() - startMs).toBeLessThan(500 + late.stop());
  expect((await call).verdict).toBe(Verdict.failed);
  hung.resume();
});

describe("a cluster that is down", () => {
  // Promise(redis): A Cluster that is down is reported as such, and used again when it is up.
  test("says so, fails no slower than its deadline, and heals when it does", async () => {
    rig = await ClusterRig.start({ replicas: false });
    const { store } = await openOn(rig.target());
    const patient = await openOn(rig.target(), 20_000);
    const lost = await rig.ownerOf(16_000); // not the node of the key that is asked for
    await lost.kill();
    await until("the cluster is down", async () => {
      const { failure } = await settle(store, groupOn("bar"));
      return failure?.message.includes("is part of a cluster that is down") === true;
    });
    // Ten tries may take longer than the deadline where the machine is busy.
    expect((await settle(store, groupOn("bar"))).failure?.code).toMatch(/STORE_(UNREACHABLE|BREAKER_OPEN|TIMEOUT)/);
    // One that could wait for long is told after some tries, too: a deadline would say STORE_TIMEOUT.
    expect((await settle(patient.store, groupOn("bar"))).failure?.code).toBe("STORE_UNREACHABLE");
    expect([patient.reports.unknownGroups, patient.reports.breakerStates]).toEqual([0, []]);
    await lost.restart();
    await rig.whenWell();
    // Without a take: a process that is not ready for it would get none.
    await until("it is well again", () => store.trouble() === undefined);
    await until("all takes are paid", () => paysAll(store));
    expect(store.trouble()).toBeUndefined();
  });
});

describe("one sentence says that", () => {
  async function troubleWith(target: ClusterTarget): Promise<string> {
    const store = closedWithTest(openClusterStore({ target, deadlineMs: DEADLINE_MS }));
    await until("somebody was asked", () => store.trouble()?.includes("are not known yet") === false);
    return store.trouble() ?? "nothing";
  }

  test("a server is no cluster, and that a node is one of a cluster", async () => {
    rig = await ClusterRig.start({ replicas: false });
    const single = await RedisServer.start();
    const seeds = [{ kind: "tcp", host: "127.0.0.1", port: single.port } as const];
    expect(await troubleWith(rig.target({ seeds }))).toBe(
      `Redis at 127.0.0.1:${single.port} is not a node of a Redis Cluster: use redis:// (or REDIS_TYPE=single)`,
    );
    const node = rig.nodes[0] as RedisServer;
    expect(await troubleOf(openRedisStore({ target: node.target(), deadlineMs: DEADLINE_MS }))).toBe(
      `Redis at 127.0.0.1:${node.port} is a node of a Redis Cluster: use redis-cluster:// (or REDIS_TYPE=cluster)`,
    );
  });

  test("nobody is there, or the password is missing", async () => {
    rig = await ClusterRig.start({ replicas: false, password: "s3cret" });
    // Asked for when the rig has its ports: it takes free ones, too.
    const port = await freePort();
    const seeds = [{ kind: "tcp", host: "127.0.0.1", port } as const];
    expect(await troubleWith(rig.target({ seeds }))).toMatch(/refuses connections: nothing listens there$/);
    expect(await troubleWith(rig.target())).toMatch(/needs a password, and none is set$/);
    const { store } = await openOn(rig.target({ login: { username: undefined, password: "s3cret" } }), 5_000);
    expect((await settle(store, groupOn("k", LEDGER))).verdict).toBe(Verdict.allowed);
  });
});

// Promise(redis): Processes with different REDIS_CLUSTER_TAGS never count a bucket twice, not even during a flush.
test("processes with another number of tags report it and are not used", async () => {
  rig = await ClusterRig.start({ replicas: false });
  const numberKey = "headgate:cluster-tags";
  const { store } = await openOn(rig.target(), 5_000, 16);
  const owner = await rig.ownerOf(keySlot(numberKey));
  expect(String(await owner.command("GET", numberKey))).toBe("16");
  const other = closedWithTest(openClusterStore({ target: rig.target(), deadlineMs: DEADLINE_MS, tags: 64 }));
  await until("the other has asked", () => other.trouble()?.startsWith("REDIS_CLUSTER_TAGS") === true);
  const sentence =
    "REDIS_CLUSTER_TAGS is 64 here, but 16 for the processes that use the Redis Cluster (its key headgate:cluster-tags): limits would be counted twice";
  expect(other.trouble()).toBe(sentence);
  expect((await settle(other, groupOn("k"))).failure?.message).toBe(sentence);
  expect((await settle(store, groupOn("k"))).verdict).toBe(Verdict.allowed);
});

test("processes are counted at one node, and seeds that are dead are passed over", async () => {
  rig = await ClusterRig.start({ replicas: false });
  const dead = { kind: "tcp", host: "127.0.0.1", port: await freePort() } as const;
  const target = rig.target({ seeds: [dead, ...rig.target().seeds] });
  const [one, other] = [await openOn(target), await openOn(target)];
  await until("they have counted each other", () => one.store.processes.count() + other.store.processes.count() === 4);
});
