// The worker's end of the channel: what it does with what the supervisor says, without processes.

import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HealthState } from "../../../src/engine/base/health.ts";
import type { CountChanges } from "../../../src/operate/telemetry/changed-counts.ts";
import { NO_SUMMARY } from "../../../src/operate/telemetry/top/summary.ts";
import type { FromWorker, ToWorker } from "../../../src/process/workers/messages.ts";
import { type Channel, WorkerLink } from "../../../src/process/workers/worker-link.ts";

/** A supervisor that notes what it hears. */
class FakeChannel extends EventEmitter implements Channel {
  readonly heard: FromWorker[] = [];
  connected = true;

  send(message: FromWorker, _handle?: undefined, _options?: undefined, done?: () => void): boolean {
    this.heard.push(message);
    done?.();
    return true;
  }

  disconnect(): void {
    this.connected = false;
    this.emit("disconnect");
  }

  say(message: ToWorker, socket?: Socket): void {
    this.emit("message", message, socket);
  }

  heardOf<K extends FromWorker["kind"]>(kind: K): Extract<FromWorker, { kind: K }>[] {
    return this.heard.filter((message): message is Extract<FromWorker, { kind: K }> => message.kind === kind);
  }
}

let channel: FakeChannel;
let health: HealthState;
let orders: string[];
/** What the service has to tell of its counters, call by call. */
let told: CountChanges[];

beforeEach(() => {
  channel = new FakeChannel();
  health = new HealthState("worker 2: ");
  orders = [];
  told = [];
});

afterEach(() => {
  vi.useRealTimers();
});

async function connect(): Promise<WorkerLink> {
  const link = WorkerLink.connect(channel, {
    reload: () => orders.push("reload"),
    stop: (delays) => orders.push(`stop ${delays}`),
    abandoned: () => orders.push("abandoned"),
  });
  channel.say({ kind: "start", number: 2, ports: { http: 8080, grpc: 0 } });
  return (await link) as WorkerLink;
}

function attach(link: WorkerLink, page: readonly string[] = []): void {
  link.attach({
    health,
    report: () => ({ openStreams: 0, calls: 0, rules: { version: null, hash: null, lastError: null }, conditions: [] }),
    async *page() {
      yield* page;
    },
    counts: () => told.shift() ?? { text: "", isAfresh: false },
    moveAway: (surplus) => (surplus > 10 ? 4 : undefined),
    top: () => ({ ...NO_SUMMARY, fromUs: 7 }),
  });
}

test("a process without a supervisor has no link", () => {
  const { send: _, ...alone } = channel;
  const without = Object.assign(new EventEmitter(), alone, { disconnect: () => undefined, connected: false });
  const silent = { reload: () => undefined, stop: () => undefined, abandoned: () => undefined };
  expect(WorkerLink.connect(without as unknown as Channel, silent)).toBeUndefined();
});

test("what was said of the others before the service was built counts once it is", async () => {
  const link = await connect();
  channel.say({ kind: "others", troubles: { "worker 1: store": "away" }, notes: {} });
  attach(link);
  expect([...health.troubles()]).toEqual([["worker 1: store", "away"]]);
});

test("sockets go to the listener that they came for; those of a listener that is closed are ended and counted as gone", async () => {
  const link = await connect();
  const taken: Socket[] = [];
  const sockets = link.socketSource("grpc");
  const port = sockets?.open((socket) => taken.push(socket));
  channel.say({ kind: "opened", listener: "grpc", port: 8081 });
  expect(await port).toBe(8081);
  const [first, late] = [new Socket(), new Socket()];
  channel.say({ kind: "connection", listener: "grpc" }, first);
  sockets?.close();
  channel.say({ kind: "connection", listener: "grpc" }, late);
  channel.say({ kind: "connection", listener: "grpc" });
  expect(taken).toEqual([first]);
  expect([first.destroyed, late.destroyed]).toEqual([false, true]);
  expect(channel.heardOf("left")).toHaveLength(2);
  expect(channel.heardOf("close")).toHaveLength(1);
  expect(link.socketSource("debug")).toBeUndefined();
});

test("tells once a second how it fares and what has changed of its counters, if anything has", async () => {
  const link = await connect();
  vi.useFakeTimers();
  told = [
    { text: "a_total 1", isAfresh: true },
    { text: "", isAfresh: false },
    { text: "", isAfresh: true },
  ];
  attach(link);
  await vi.advanceTimersByTimeAsync(3_000);
  expect(channel.heardOf("report")).toHaveLength(3);
  expect(channel.heardOf("counts").map(({ text, isAfresh }) => [text, isAfresh])).toEqual([
    ["a_total 1", true],
    ["", true],
  ]);
  link.close();
});

test("a supervisor that ended while the worker was loading is noticed at once, though its last word still waits", () => {
  channel.connected = false;
  const link = WorkerLink.connect(channel, {
    reload: () => orders.push("reload"),
    stop: (delays) => orders.push(`stop ${delays}`),
    abandoned: () => orders.push("abandoned"),
  });
  channel.say({ kind: "start", number: 2, ports: { grpc: 0 } });
  expect(link).toBeInstanceOf(Promise);
  expect(orders).toEqual(["abandoned"]);
});

test("each question about the counts of all gets its own answer", async () => {
  const link = await connect();
  const answers = [link.fleetCounts(["a"]), link.fleetCounts(["b"])];
  const asked = channel.heardOf("fleet counts wanted");
  expect(asked.map(({ metrics }) => metrics)).toEqual([["a"], ["b"]]);
  for (const { id, metrics } of asked.toReversed()) {
    channel.say({ kind: "fleet counts", id, counts: { [metrics[0] ?? ""]: { x: 1 } } });
  }
  expect(await Promise.all(answers)).toEqual([{ a: { x: 1 } }, { b: { x: 1 } }]);
});
