// Every fault of a network, between a store and its server, under load: each take is answered by its deadline, those that were
// answered as paid are paid once, and the store is used again by itself.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { Verdict } from "../../src/engine/domain/take.ts";
import { FaultProxy, type NetworkFault } from "../support/fault-proxy.ts";
import { type KindServer, SERVER_KINDS } from "./server-kinds.ts";
import { groupOn, Load, settle, until } from "./store-rig.ts";

const DEADLINE_MS = 50;
/** A little: the timer's grain, and the turn in which sockets are read once more. */
const LITTLE_MS = 15;
const KEYS = 10;
const FAULT_MS = 1_000;
/** A connection on which nothing is heard for this long is given up; the default is 5 s. */
const SILENCE_MS_MAX = 1_000;

const FAULTS: readonly NetworkFault[] = [
  { kind: "delay", ms: 5, jitterMs: 10 },
  { kind: "delay", ms: 60, jitterMs: 40 },
  { kind: "slow drip", bytes: 3, everyMs: 5 },
  { kind: "black hole" },
  { kind: "half-open" },
  { kind: "cut" },
  { kind: "reset" },
  { kind: "reorder", ms: 10 },
];

/** Deposits in all buckets. */
function sum(debts: ReadonlyMap<string, number>): number {
  let total = 0;
  for (const [key, debt] of debts) if (key.startsWith("load:")) total += debt;
  return total;
}

describe.each(SERVER_KINDS)("between the service and $name", ({ start }) => {
  let server: KindServer;
  let proxy: FaultProxy;
  beforeAll(async () => {
    server = await start();
    proxy = await FaultProxy.start(server.port);
  }, 60_000);

  // Promise(outages): Whatever the network does, each call is answered by its deadline, and paid once if its answer says paid.
  test.each(FAULTS)("$kind for a second costs no call more than its deadline, and no bucket a call", async (fault) => {
    await server.flush();
    const options = { port: proxy.port, deadlineMs: DEADLINE_MS, silenceMsMax: SILENCE_MS_MAX };
    const { store, reports } = await server.open(options);
    const load = new Load(store, { perTick: 2, keys: KEYS });
    await sleep(300); // so that takes are under way when it begins
    proxy.begin(fault);
    await sleep(FAULT_MS);
    proxy.end();
    const answersAgain = async () => (await settle(store, groupOn("probe"))).verdict === Verdict.allowed;
    await until("the store is used again", answersAgain);
    await sleep(500); // so that the load runs on what has healed
    await load.stop();
    expect(load.allowed + load.failed).toBe(load.sent);
    expect(load.slowestMs).toBeLessThan(DEADLINE_MS + LITTLE_MS + load.loopLateMs);
    // All that was answered as paid is there. More only where a reply was lost: nobody can know what became of that. It may have been the
    // reply to what was given back.
    const paid = sum(load.paid);
    await until("what came late is given back", async () => {
      const extra = sum(await server.debts()) - paid;
      return extra >= 0 && extra <= reports.unknownGroups + reports.takesKeptPaid;
    });
  });
});
