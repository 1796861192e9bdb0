// Takes and settlements are linearizable: what many callers of three processes were answered has an order, with each call between its
// beginning and its end, in which every answer is right. The buckets of these never refill, because time is in no history (docs/proof.md);
// those that refill are checked by intervals. LINEARIZABLE_RUNS makes more of them, LINEARIZABLE_SEED draws one again.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { Caller, requestAbout } from "../support/callers.ts";
import { endWithTest } from "../support/ends.ts";
import { seeded } from "../support/fault-schedule.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { FAULTY_STORES, type FaultyStore } from "./faulty-stores.ts";
import { buildChecker, grantedTooMuch, notLinearizable, type RecordedCall, type Recording, record } from "./history.ts";

const RUNS = Number(process.env.LINEARIZABLE_RUNS ?? 1);
const SEED = Number(process.env.LINEARIZABLE_SEED ?? Math.floor(Math.random() * 2 ** 32));
const PROCESSES = 3;
const LIMIT = 60;
const BURST = 20;
const PER_SECOND = 20;
const CALLERS = 12;
const CALLS = 1_000;
const PAUSE_MS = 150;
const BACK_MS_MAX = 30_000;
/** Only for what never ends. */
const TEST_MS_MAX = 180_000 * RUNS;

const BUCKETS: Recording["buckets"] = [
  { entry: "who", keys: 5, hasHolds: false },
  { entry: "window", keys: 2, hasHolds: false },
  { entry: "budget", keys: 4, hasHolds: true },
  { entry: "year", keys: 2, hasHolds: true },
  { entry: "refills", keys: 2, hasHolds: false },
];
const year = `unit: year, requests_per_unit: ${LIMIT}`;
const hold = "hold: { id: request_id, estimate: tokens, ttl: 1h }";
const RULES = `domain: edge
descriptors:
  - { key: probe, on_store_failure: error, rate_limit: { unit: second, requests_per_unit: 1000 } }
  - { key: who, on_store_failure: error, rate_limit: { ${year}, algorithm: token_bucket } }
  - { key: window, on_store_failure: error, rate_limit: { ${year}, algorithm: fixed_window } }
  - { key: budget, on_store_failure: error, rate_limit: { ${year}, algorithm: token_bucket }, ${hold} }
  - { key: year, on_store_failure: error, rate_limit: { ${year}, algorithm: fixed_window }, ${hold} }
  - { key: refills, on_store_failure: error, rate_limit: { tokens_per_second: ${PER_SECOND}, burst: ${BURST} } }
`;
/** A remembered refusal may be a second old: after a settlement, or a take that was given back, it would be too late. */
const ENV = { DENIALS_MAX: "0", STORE_DEADLINE: "5s" };

const isThere = buildChecker();

function chances(seed: number): (end: number) => number {
  const random = seeded(seed);
  return (end) => Math.floor(random() * end);
}

function started(env: Readonly<Record<string, string>>, count: number): Promise<ServiceProcess[]> {
  return Promise.all(Array.from({ length: count }, () => startService({ ...ENV, ...env }, { rules: RULES })));
}

const portsOf = (services: readonly ServiceProcess[]) => services.map(({ grpcPort }) => grpcPort);

function expectLinearizable(calls: readonly RecordedCall[], seed: number): void {
  const answers = ["ok", "over", "already", "unknown"] as const;
  const counts = answers.map((one) => calls.filter(({ answer }) => answer === one).length);
  const said = answers.map((one, i) => `${counts[i]} ${one}`).join(", ");
  const settled = calls.filter(({ settles }) => settles !== undefined).length;
  process.stdout.write(`seed ${seed}: ${calls.length} calls, of these ${settled} settlements; ${said}\n`);
  const [refilling, others] = [true, false].map((refills) =>
    calls.filter(({ key }) => key.startsWith("refills") === refills),
  ) as [RecordedCall[], RecordedCall[]];
  expect(notLinearizable(others, LIMIT)).toBe("");
  expect(grantedTooMuch(refilling, BURST, PER_SECOND)).toBeUndefined();
  for (const count of [counts[0], counts[1], settled]) expect(count).toBeGreaterThan(CALLS / 20);
}

/** What goes wrong before which call: by the chances of the run. */
function faults(store: FaultyStore, services: readonly ServiceProcess[], chance: Recording["chance"]) {
  const [dies] = services;
  const plan = { stands: 100 + chance(150), cut: 300 + chance(150), fails: 500 + chance(150), dies: 700 + chance(150) };
  let isDead = false;
  let failing: Promise<void> | undefined;
  const before = (call: number): Promise<void> | undefined => {
    if (call === plan.stands) void store.standStill(PAUSE_MS);
    if (call === plan.cut) void store.cut();
    if (call === plan.fails) failing = store.fail().then(() => whenServing(portsOf(services)));
    if (call === plan.dies) {
      isDead = true;
      dies?.signal("SIGKILL");
    }
    return failing;
  };
  return { before, isUp: (port: number) => !isDead || port !== dies?.grpcPort };
}

/** Resolves once each process is answered by the store. */
async function whenServing(ports: readonly number[]): Promise<void> {
  for (const port of ports) {
    const caller = new Caller(`127.0.0.1:${port}`);
    const endMs = performance.now() + BACK_MS_MAX;
    while ((await caller.ask(requestAbout("probe", "any"))).message === undefined) {
      if (performance.now() > endMs) throw new Error(`the service on port ${port} does not serve again`);
      await sleep(20);
    }
    caller.close();
  }
}

describe.skipIf(!isThere)("takes and settlements are linearizable", () => {
  const recording = { callers: CALLERS, calls: CALLS, buckets: BUCKETS };

  // Promise(limits): Takes of many callers are linearizable in memory.
  // Promise(holds): Reservations and settlements of many callers are linearizable in memory.
  test(
    "in memory",
    async () => {
      for (let run = 0; run < RUNS; run++) {
        const services = await started({}, 1);
        const [chance, ports] = [chances(SEED + run), portsOf(services)];
        const before = () => undefined;
        expectLinearizable(await record({ ...recording, ports, chance, before, isUp: () => true }), SEED + run);
        for (const service of services) await service.stop();
      }
    },
    TEST_MS_MAX,
  );

  describe.each(FAULTY_STORES)("on $name", ({ start }) => {
    let store: FaultyStore;
    beforeAll(async () => {
      store = await start();
      endWithTest(() => store.stop());
    }, 60_000);

    // Promise(limits): Takes of three processes are linearizable on every shared store, though one dies and the store fails over.
    // Promise(holds): Reservations and settlements of three processes are linearizable on every shared store, under the same faults.
    // Promise(limits): Refilling buckets of three processes grant at most burst + rate x time in any interval, under the same faults.
    test(
      "of three processes, one of which dies, while the store stands still, loses connections and a server",
      async () => {
        for (let run = 0; run < RUNS; run++) {
          const chance = chances(SEED + run);
          const services = await started(store.env, PROCESSES);
          const calls = await record({
            ...recording,
            ...faults(store, services, chance),
            ports: portsOf(services),
            chance,
          });
          expectLinearizable(calls, SEED + run);
          await Promise.all(services.map((service) => service.stop()));
          await store.renew();
        }
      },
      TEST_MS_MAX,
    );
  });

  test("an answer that is wrong is found", () => {
    const call = (beganNs: number, cost: number, answer: RecordedCall["answer"], settles?: string): RecordedCall => ({
      key: "k0",
      client: 0,
      beganNs,
      endedNs: beganNs + 1,
      cost,
      answer,
      ...(settles === undefined ? {} : { settles }),
    });
    const right = [
      call(0, LIMIT - 1, "ok"),
      call(2, 2, "over"),
      call(4, 1, "ok"),
      call(6, 1, "over"),
      call(8, -3, "unknown", "a"),
      call(10, -3, "already", "a"),
      call(12, 3, "ok"),
      call(14, 1, "over"),
    ];
    expect(notLinearizable(right, LIMIT)).toBe("");
    const wrong = [
      [0, call(0, LIMIT - 1, "over")],
      [1, call(2, 2, "ok")],
      [2, call(4, 1, "over")],
      [3, call(6, 1, "ok")],
      [4, call(8, -3, "ok", "a")],
      [5, call(10, -3, "already", "b")],
      [6, call(12, 4, "ok")],
      [7, call(14, 1, "ok")],
    ] as const;
    for (const [i, one] of wrong) expect(notLinearizable(right.with(i, one), LIMIT)).toContain("k0: Illegal");
  });

  test("a bucket that refills and grants too much in an interval is found", () => {
    const call = (beganNs: number, cost: number): RecordedCall => ({
      key: "k0",
      client: 0,
      beganNs,
      endedNs: beganNs + 1e8,
      cost,
      answer: "ok",
    });
    expect(grantedTooMuch([call(0, BURST), call(1e8, 4)], BURST, PER_SECOND)).toBeUndefined();
    expect(grantedTooMuch([call(0, BURST), call(1e8, 5)], BURST, PER_SECOND)).toContain("k0 granted 25");
    expect(grantedTooMuch([call(0, 1), call(1e8, BURST + 3)], BURST, PER_SECOND)).toContain("k0 granted 23");
  });
});
