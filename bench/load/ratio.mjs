// Calls per second on one core as a ratio to an empty grpc-js handler: the same load on each server in turn, over several
// rounds, so that a machine that slows down slows all of them. Usage:
//   node bench/load/ratio.mjs [--rounds 5] [--seconds 3] [--connections 4] [--streams 50] [--only TEXT] [--profile] [--header 'name: value']
// --profile writes CPU profiles to .cache/profiles (open them in Chrome's DevTools; the widest frames cost most).

import { parseArgs } from "node:util";
import { isPinned } from "../harness/pin.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { checkAnswer, load, requireH2load, startServer } from "./h2load.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    connections: { type: "string", default: "4" },
    streams: { type: "string", default: "50" },
    only: { type: "string", default: "" },
    header: { type: "string", multiple: true, default: [] },
    profile: { type: "boolean", default: false },
  },
});
const rounds = Number(values.rounds);
const shape = {
  seconds: Number(values.seconds),
  connections: Number(values.connections),
  streams: Number(values.streams),
  headers: values.header,
};

/** Least ratios that a server is meant to reach: with many calls at once, and one at a time. */
const GOALS = { "4x50": { "memory, fast lane": 9 }, "1x1": { "memory, fast lane": 2.5 } };
const KINDS = ["yardstick", "empty, grpc-js", "empty, fast lane", "memory, grpc-js", "memory, fast lane"].filter(
  (kind) => kind === "yardstick" || kind.includes(values.only),
);

requireH2load();
const rates = Object.fromEntries(KINDS.map((kind) => [kind, []]));
// On a machine that others use too, CPU time says more than calls per second.
const cpuPerCall = Object.fromEntries(KINDS.map((kind) => [kind, []]));
const latencies = {};
for (let round = 1; round <= rounds; round++) {
  for (const kind of KINDS) {
    progress(`round ${round} of ${rounds}: ${kind}`);
    const server = await startServer(kind, { profile: values.profile });
    await checkAnswer(server.port);
    const { cpuMicrosPerCall, perSecond, meanLatency } = await load(server, shape);
    cpuPerCall[kind].push(cpuMicrosPerCall);
    await server.stop();
    rates[kind].push(Math.round(perSecond));
    latencies[kind] = meanLatency;
  }
}
progress("");

const results = KINDS.map((kind) => {
  const ratios = rates[kind].map((rate, round) => rate / rates.yardstick[round]);
  return {
    server: kind,
    perSecond: median(rates[kind]),
    ratio: median(ratios),
    ratioLeast: Math.min(...ratios),
    ratioMost: Math.max(...ratios),
    cpuMicrosPerCall: median(cpuPerCall[kind]),
    cpuRatio: median(cpuPerCall[kind].map((micros, round) => cpuPerCall.yardstick[round] / micros)),
    meanLatency: latencies[kind],
    goal: GOALS[`${shape.connections}x${shape.streams}`]?.[kind],
    rates: rates[kind],
  };
});
printTable(
  `${shape.connections} connections x ${shape.streams} streams, hot key, ${rounds} rounds of ${shape.seconds} s${isPinned() ? ", pinned" : ""}`,
  results.map((row) => ({
    server: row.server,
    "calls/s": row.perSecond.toLocaleString("en"),
    ratio: row.ratio.toFixed(1),
    spread: `${row.ratioLeast.toFixed(1)}..${row.ratioMost.toFixed(1)}`,
    "CPU/call": `${row.cpuMicrosPerCall.toFixed(1)} us`,
    "CPU ratio": row.cpuRatio.toFixed(1),
    mean: row.meanLatency,
    goal: row.goal === undefined ? "" : `>= ${row.goal}`,
  })),
);
const isUsual = shape.connections === 4 && shape.streams === 50 && shape.headers.length === 0;
const name = isUsual
  ? "load"
  : `load-${shape.connections}x${shape.streams}${shape.headers.length > 0 ? "-headers" : ""}`;
process.stdout.write(
  `\n${writeResults(name, `node bench/load/ratio.mjs ${process.argv.slice(2).join(" ")}`, { shape, servers: results })}\n`,
);
