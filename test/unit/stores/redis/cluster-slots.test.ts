// What nodes of a cluster say of it, as bytes off the wire may have it.

import { afterEach, expect, test, vi } from "vitest";
import {
  type ClusterTarget,
  ClusterTopology,
  readEpoch,
  readRedirection,
  readSlots,
} from "../../../../src/stores/redis/cluster-topology.ts";
import type { RedisConnection } from "../../../../src/stores/redis/connect.ts";

const asked = { kind: "tcp", host: "10.0.0.1", port: 7000 } as const;
const at = (host: string, port: number) => ({ kind: "tcp", host, port }) as const;

test("ranges are read with their primaries, whatever follows those", () => {
  const reply = [
    [0, 5460, [Buffer.from("10.0.0.2"), 7001, Buffer.from("id"), []], [Buffer.from("10.0.0.9"), 7009]],
    [5461, 16_383, ["::1", 7002]],
  ];
  expect(readSlots(reply, asked)).toEqual([
    { first: 0, last: 5460, primary: at("10.0.0.2", 7001) },
    { first: 5461, last: 16_383, primary: at("::1", 7002) },
  ]);
});

test.each([
  { name: "none", host: null },
  { name: "an empty one", host: "" },
  { name: "an unknown one", host: "?" },
])("a node with $name as its address is where it was asked", ({ host }) => {
  expect(readSlots([[0, 1, [host, 7001]]], asked)[0]?.primary).toEqual(at("10.0.0.1", 7001));
});

test.each([
  { name: "no list", reply: "OK" },
  { name: "invalid slots", reply: [[0, 16_384, ["a", 1]]] },
  { name: "slots the wrong way round", reply: [[5, 4, ["a", 1]]] },
  { name: "text for slots", reply: [["0", "1", ["a", 1]]] },
  { name: "a node without a port", reply: [[0, 1, ["a"]]] },
  { name: "a port out of range", reply: [[0, 1, ["a", 70_000]]] },
  { name: "no node", reply: [[0, 1]] },
])("$name is refused", ({ reply }) => {
  expect(() => readSlots(reply, asked)).toThrow(TypeError);
});

test("the epoch is read where there is one", () => {
  expect(readEpoch(Buffer.from("cluster_state:ok\r\ncluster_current_epoch:17\r\ncluster_my_epoch:2\r\n"))).toBe(17);
  expect(readEpoch("")).toBe(0);
});

test.each([
  { message: "MOVED 3999 10.0.0.2:6381", expected: { isAsk: false, slot: 3999, address: at("10.0.0.2", 6381) } },
  { message: "ASK 1 ::1:6381", expected: { isAsk: true, slot: 1, address: at("::1", 6381) } },
  { message: "MOVED 1 :6381", expected: { isAsk: false, slot: 1, address: at("10.0.0.1", 6381) } },
  { message: "MOVED 99999 a:1", expected: undefined },
  { message: "NOSCRIPT No matching script", expected: undefined },
])("$message leads where it says", ({ message, expected }) => {
  expect(readRedirection(message, asked)).toEqual(expected);
});

afterEach(() => void vi.useRealTimers());

// Promise(redis): Who serves a slot is asked within 5 ms of a node that hands over, whatever else has made a question due.
test.each([
  { name: "nothing", before: () => undefined },
  { name: "a redirection", before: (topology: ClusterTopology) => topology.askSoon() },
  { name: "another call", before: (topology: ClusterTopology) => topology.askAtOnce() },
])("a hand-over is asked about at once, after $name", async ({ before }) => {
  vi.useFakeTimers();
  const asked: unknown[] = [];
  const command = async (_name: string, args: readonly unknown[]) => {
    asked.push(args);
    return args[0] === "slots" ? [[0, 16_383, ["10.0.0.1", 7000]]] : "cluster_current_epoch:1";
  };
  const connection = { command } as unknown as RedisConnection;
  const address = at("10.0.0.1", 7000);
  const topology = new ClusterTopology({
    target: { seeds: [], connectTimeoutMs: 1_000 } as unknown as ClusterTarget,
    nodes: () => [{ address, node: { connection } }],
    onSlots: () => undefined,
    isWell: () => true,
  });
  topology.start();
  await vi.advanceTimersByTimeAsync(0);
  before(topology);
  topology.askAtOnce();
  asked.length = 0;
  await vi.advanceTimersByTimeAsync(5);
  expect(asked).toEqual([["slots"], ["info"]]);
  topology.close();
});
