// What a decision costs when two processes share one Redis instead of one having it alone, at the same rate of calls in all:
// CPU of the processes and of Redis, by the scheduler's count, so that cores which the load shares don't matter.
//   node bench/load/processes.mjs [--rounds 5] [--seconds 3] [--rate 10000]

import { parseArgs } from "node:util";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { busyness, median, printTable } from "../harness/report.mjs";
import { call } from "./h2load.mjs";
import { Servers } from "./servers.mjs";
import { SHAPES } from "./shapes.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    rate: { type: "string", default: "10000" },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const rate = Number(values.rate);
const shape = SHAPES.find(({ name }) => name === "Redis, exact, 10,000 keys");
const PROCESSES = [1, 2];

/** Microseconds of CPU that a decision costs the processes together, and Redis. */
async function measure(servers, count) {
  const processes = [];
  try {
    for (let i = 0; i < count; i++) processes.push(await servers.take("service", shape));
    const { pids } = await servers.store(shape);
    const ask = (ofRate, forSeconds) =>
      Promise.all(
        processes.map((server) =>
          call(server, { ...shape, rate: ofRate / count, seconds: forSeconds, warmUpSeconds: 0 }),
        ),
      );
    await ask(rate, 1);
    const used = () =>
      [processes.map(({ pid }) => pid), pids].map((all) => all.reduce((sum, pid) => sum + cpuMicrosOf(pid), 0));
    const [serviceBefore, redisBefore] = used();
    const reports = await ask(rate, seconds);
    const [service, redis] = used();
    const calls = reports.reduce((sum, report) => sum + report.calls, 0);
    if (reports.some(({ errors }) => errors > 0))
      throw new Error(`${count} processes: calls were not answered by a decision`);
    return { calls, service: (service - serviceBefore) / calls, redis: (redis - redisBefore) / calls };
  } finally {
    for (const server of processes) await servers.giveBack(server);
  }
}

const { load1, cores } = busyness();
const servers = new Servers();
const found = new Map(PROCESSES.map((count) => [count, []]));
try {
  for (let round = 0; round < rounds; round++)
    for (const count of PROCESSES) found.get(count).push(await measure(servers, count));
} finally {
  await servers.stop();
}
const of = (count, field) => median(found.get(count).map((run) => run[field]));
printTable(
  `${rate} exact takes a second through processes on one Redis, medians of ${rounds} rounds in turn of ${seconds} s; load on the machine ${load1} of ${cores} cores before the start`,
  PROCESSES.map((count) => ({
    processes: count,
    "calls/s": Math.round(of(count, "calls") / seconds),
    "us of their CPU a call": of(count, "service").toFixed(1),
    "us of Redis's CPU a call": of(count, "redis").toFixed(1),
    "to one process": ["service", "redis"].map((field) => (of(count, field) / of(1, field)).toFixed(2)).join(", "),
  })),
);
