// A server killed, and a server hanging, under load: every take is answered in time, none is paid after it was answered.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { whenUp } from "../support/when-up.ts";
import { type KindServer, SERVER_KINDS } from "./server-kinds.ts";
import { groupOn, hangAndHeal, Load, settle, until } from "./store-rig.ts";

const DEADLINE_MS = 30;
/** A little: the timer's grain, and the turn in which sockets are read once more. */
const LITTLE_MS = 15;
const LOAD = { perTick: 2, keys: 10 } as const;

async function answersAgain(store: SharedStore): Promise<boolean> {
  return (await settle(store, groupOn("probe"))).verdict === Verdict.allowed;
}

describe.each(SERVER_KINDS)("$name", ({ name, start }) => {
  let server: KindServer;
  beforeAll(async () => {
    server = await start();
  }, 60_000);
  beforeEach(() => server.flush());

  test("that hangs for two seconds costs no call more than its deadline, and no bucket a call", async () => {
    const { store, reports } = await server.open({ deadlineMs: DEADLINE_MS });
    const load = new Load(store, LOAD);
    await sleep(300); // so that takes are under way when it stops
    server.pause();
    await sleep(2_000); // how long it hangs
    const failedWhilePaused = load.failed;
    server.resume();
    await until("it answers again", () => answersAgain(store));
    await sleep(300); // so that the load runs on what has healed
    await load.stop();

    expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
    // Before, meanwhile and after; how many is the machine's affair.
    expect(failedWhilePaused).toBeGreaterThan(20);
    expect(load.allowed).toBeGreaterThan(20);
    expect(load.allowed + load.failed).toBe(load.sent);
    expect(reports.breakerStates.slice(0, 2)).toEqual(["open", "probing"]);
    expect(reports.unknownGroups).toBe(0);
    // Takes that waited in a hanging Redis came too late to pay; at most the batch it was at when it stopped did.
    expect(reports.takesGivenBack).toBeLessThanOrEqual(name === "Redis" ? 8 : load.failed);
    await until("the breaker has closed", async () => (await answersAgain(store)) && store.trouble() === undefined);
    // What came late and was paid is given back; then the buckets hold what was answered as paid, to the token.
    await until("the buckets hold what was answered as paid", async () => {
      const found = await server.debts();
      return [...load.paid].every(([key, paid]) => found.get(key) === paid);
    });
  });

  test("that has hung is found well again by a process that gets no calls meanwhile", async () => {
    const { store, reports } = await server.open({ deadlineMs: DEADLINE_MS });
    await hangAndHeal(server, store, reports);
  });

  // Promise(outages): A store that comes back is used again without help.
  test("that is killed costs no call more than its deadline, and is found again", async () => {
    const { store, reports } = await server.open({ deadlineMs: DEADLINE_MS });
    const load = new Load(store, LOAD);
    await sleep(300); // so that takes are under way when it dies
    await server.kill();
    await sleep(1_000); // how long it is away
    const trouble = store.trouble();
    const failedWhileAway = load.failed;
    await server.restart();
    await until("it answers again", () => answersAgain(store));
    await sleep(200); // so that the load runs on what has healed
    await load.stop();

    expect(trouble).toContain(`${name} at 127.0.0.1:${server.port}`);
    expect(failedWhileAway).toBeGreaterThan(20);
    expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
    expect(load.allowed + load.failed).toBe(load.sent);
    expect(reports.failures.length).toBeGreaterThanOrEqual(load.failed);
    expect(reports.breakerStates[0]).toBe("open");
    await until("all is well", async () => (await answersAgain(store)) && store.trouble() === undefined);
  });

  test("that comes up after the store is waited for, and the store says so", async () => {
    await server.kill();
    const store = server.openLater({ deadlineMs: 5_000 });
    const trouble = `${name} at 127.0.0.1:${server.port} refuses connections: nothing listens there`;
    await until("it says so", () => store.trouble() === trouble);
    expect((await settle(store, groupOn("early"))).failure?.code).toBe("STORE_UNREACHABLE");
    await server.restart();
    expect(await whenUp(store, 20_000)).toBe(true);
    expect(store.trouble()).toBeUndefined();
    expect(await answersAgain(store)).toBe(true);
  });

  test("answers the takes under way of a store that closes, which then refuses", async () => {
    const { store } = await server.open({ deadlineMs: 2_000 });
    const underWay = settle(store, groupOn("closing"));
    const closed = store.close();
    expect((await underWay).verdict).toBe(Verdict.allowed);
    await closed;
    expect((await settle(store, groupOn("closing"))).failure?.code).toBe("STORE_CLOSED");
  });
});
