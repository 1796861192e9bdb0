// Every fault of a network between callers and the service: it costs those callers their answers and nobody else anything, they
// are served again by themselves, and nothing of it stays behind in the service.

import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { Figures } from "../soak/figures.ts";
import { FaultProxy, type NetworkFault } from "../support/fault-proxy.ts";
import { type ServiceProcess, startService } from "../support/service-process.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { until } from "./store-rig.ts";

const RULES = "domain: edge\ndescriptors:\n  - { key: k, rate_limit: { requests_per_unit: 4000000000, unit: year } }\n";
const REQUEST = { domain: "edge", descriptors: [{ entries: [{ key: "k", value: "a" }] }] };
const FAULT_MS = 1_000;
const DEADLINE_MS = 500;
/** Whom the fault does not concern waits no longer than a busy machine makes everybody wait. */
const OTHERS_DEADLINE_MS = 5_000;

const FAULTS: readonly NetworkFault[] = [
  { kind: "delay", ms: 100, jitterMs: 200 },
  { kind: "slow drip", bytes: 2, everyMs: 5 },
  { kind: "black hole" },
  { kind: "half-open" },
  { kind: "cut" },
  { kind: "reset" },
  { kind: "reorder", ms: 50 },
];
/** What becomes of connections is the library's part with grpc-js: a silent one and one that breaks. */
const TRANSPORTS = [
  { transport: "fast-lane", faults: FAULTS },
  { transport: "grpc-js", faults: FAULTS.filter(({ kind }) => kind === "black hole" || kind === "reset") },
];

describe.each(TRANSPORTS)("between callers and the service, on $transport", ({ transport, faults }) => {
  let service: ServiceProcess;
  let proxy: FaultProxy;
  beforeAll(async () => {
    service = await startService({ GRPC_TRANSPORT: transport }, { rules: RULES });
    proxy = await FaultProxy.start(service.grpcPort);
  });

  // Promise(turns): Network trouble of some callers affects no others.
  test.each(faults)("$kind for a second concerns nobody else, and nothing of it stays", async (fault) => {
    const spoilt = openClient(`127.0.0.1:${proxy.port}`, {
      "grpc.keepalive_time_ms": 500,
      "grpc.keepalive_timeout_ms": 300,
      "grpc.initial_reconnect_backoff_ms": 50,
      "grpc.max_reconnect_backoff_ms": 200,
    });
    const other = openClient(`127.0.0.1:${service.grpcPort}`);
    await askOnce(other, REQUEST);
    await askOnce(spoilt, REQUEST);
    let isOver = false;
    let answers = 0;
    const asking = async (ask: () => Promise<unknown>) => {
      while (!isOver) await ask();
    };
    const callers = [
      ...Array.from({ length: 4 }, () =>
        asking(() =>
          askOnce(spoilt, REQUEST, DEADLINE_MS).then(
            () => sleep(1),
            () => sleep(5),
          ),
        ),
      ),
      asking(async () => {
        await askOnce(other, REQUEST, OTHERS_DEADLINE_MS);
        answers++;
        await sleep(5); // a pace that leaves the machine to others
      }),
    ];
    await sleep(100); // so that calls are under way when it begins
    proxy.begin(fault);
    await sleep(FAULT_MS);
    proxy.end();
    isOver = true;
    // A call of the other caller that failed would reject here.
    await Promise.all(callers);
    // At the pace that the machine allowed: each of its calls was answered, and it was not kept waiting through the fault.
    expect(answers).toBeGreaterThan(2);
    await until("its callers are served again", () =>
      askOnce(spoilt, REQUEST, DEADLINE_MS).then(
        () => true,
        () => false,
      ),
    );
    await until("no call is left", async () => (await Figures.of(service)).sum("headgate_calls_in_flight") === 0);
  });
});
