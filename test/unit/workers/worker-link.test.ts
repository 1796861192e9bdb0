// A worker's end of what it shares: what it does with what the main thread says, without threads.

import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import type { MessagePort } from "node:worker_threads";
import { beforeEach, expect, test } from "vitest";
import { reserveCounts } from "../../../src/engine/base/count-layout.ts";
import { HealthState } from "../../../src/engine/base/health.ts";
import { newRuntimeTable } from "../../../src/engine/runtime/runtime-table.ts";
import { NO_SUMMARY } from "../../../src/operate/telemetry/top/summary.ts";
import type { FromWorker, ToWorker } from "../../../src/process/workers/messages.ts";
import { SharedNumbers } from "../../../src/process/workers/shared-numbers.ts";
import { WorkerLink } from "../../../src/process/workers/worker-link.ts";

let told: FromWorker[];
let numbers: SharedNumbers;
let say: (message: ToWorker) => void;
let link: WorkerLink;

beforeEach(() => {
  told = [];
  numbers = new SharedNumbers(2);
  const port = Object.assign(new EventEmitter(), { postMessage: (message: FromWorker) => void told.push(message) });
  say = (message) => port.emit("message", message);
  const data = {
    number: 2,
    ports: { http: 8080, grpc: 0 },
    version: "1",
    numbers: numbers.buffer,
    counts: reserveCounts(2),
    runtime: newRuntimeTable(1),
  };
  link = new WorkerLink(port as unknown as MessagePort, data, { reload: () => undefined, stop: () => undefined });
});

test("what was said of all before the service was built counts once it is", () => {
  const health = new HealthState();
  say({ kind: "health", troubles: { store: "in worker 1 of 2: away" }, notes: {} });
  link.attach({
    health,
    answer: () => NO_SUMMARY,
    note: () => undefined,
  });
  expect([...health.troubles()]).toEqual([["store", "in worker 1 of 2: away"]]);
});

test("sockets go to the listener that they came for; those of a listener that is closed are ended, and all count until they end", async () => {
  const taken: Socket[] = [];
  const sockets = link.socketSource("grpc");
  const port = sockets?.open((socket) => taken.push(socket));
  say({ kind: "opened", listener: "grpc", port: 8081 });
  expect(await port).toBe(8081);
  const [first, late] = [new Socket(), new Socket()];
  numbers.add(2, "grpc", 2);
  say({ kind: "connection", listener: "grpc", socket: first });
  sockets?.close();
  say({ kind: "connection", listener: "grpc", socket: late });
  expect(taken).toEqual([first]);
  expect([first.destroyed, late.destroyed, numbers.of(2, "grpc")]).toEqual([false, true, 1]);
  first.emit("close");
  expect(numbers.of(2, "grpc")).toBe(0);
  expect(told.map(({ kind }) => kind)).toEqual(["open", "close"]);
  expect(link.socketSource("debug")).toBeUndefined();
});
