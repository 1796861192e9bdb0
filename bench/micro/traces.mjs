// What spans add to a call, without sockets to callers: CPU of this process, packing and sending to a collector on this machine
// included; and for how long packing a batch holds up everybody. `node --expose-gc bench/micro/traces.mjs` after a build.

import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { median, printTable } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";
import { openService } from "../load/service.mjs";

const CALLS = 20_480;
const ROUNDS = 9;
const WARM_UP_ROUNDS = 2;
const TRACE = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";
// domain "edge", one descriptor, one entry tenant=acme.
const MESSAGE = Buffer.from("0a0465646765121" + "00a0e0a0674656e616e74120461636d65", "hex");
const BATCH = 64;
const BATCHES = 200;

if (process.argv[2] === "collector") collect();
else await main();

/** Takes whatever is posted. */
function collect() {
  process.once("disconnect", () => process.exit());
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(200).end());
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
}

async function main() {
  const collector = fork(import.meta.filename, ["collector"]);
  const [port] = await once(collector, "message");
  const { openTraces } = await loadDist("operate/telemetry/traces/open-traces.js");
  const { rpcCalls } = await loadDist("operate/telemetry/traces/call-tracer.js");
  const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
  const env = {
    TRACING_ENABLED: "true",
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
  };
  let traces;
  const untraced = await openService();
  const traced = await openService(env, "hot", async (parts) => {
    traces = await openTraces(parts);
    return traces.tracerOf(rpcCalls(SHOULD_RATE_LIMIT_PATH));
  });
  const cases = [
    { what: "not traced", handler: untraced, traceparent: undefined },
    { what: "not traced, though the caller is", handler: untraced, traceparent: `00-${TRACE}-01` },
    { what: "traced, not recorded: the caller's span is not", handler: traced, traceparent: `00-${TRACE}-00` },
    { what: "traced and recorded", handler: traced, traceparent: `00-${TRACE}-01`, isRecorded: true },
  ];
  const figures = cases.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    // One after the other in every round: what else the machine does falls on all of them.
    for (const [i, one] of cases.entries()) figures[i].push(await nanosPerCall(one, traces));
  }
  const rows = cases.map(({ what }, i) => ({
    what,
    "ns of CPU": Math.round(median(figures[i].slice(WARM_UP_ROUNDS))),
  }));
  printTable("a call from message to answer, memory store, hot key", rows);
  const holds = [];
  for (let batch = 0; batch < BATCHES; batch++) holds.push(await holdOfBatch(cases.at(-1), traces));
  printTable(`packing ${BATCH} spans`, [{ what: "time in which no call is answered", ms: median(holds).toFixed(1) }]);
  const { failed, dropped } = traces.counts;
  if (failed + dropped > 0) throw new Error(`spans were lost: ${failed} failed, ${dropped} dropped`);
  collector.kill();
  process.exit(0);
}

function ask({ handler, traceparent }, times) {
  const reply = { traceparent, isGone: false, ok: () => undefined, fail: (_, text) => console.error(text) };
  for (let i = 0; i < times; i++) handler.handle(MESSAGE, Number.POSITIVE_INFINITY, reply);
}

/** Of one round, in which all spans arrive. */
async function nanosPerCall(one, traces) {
  const before = process.cpuUsage();
  const sentBefore = traces.counts.sent;
  for (let i = 0; i < CALLS; i += BATCH) {
    ask(one, BATCH);
    await nextTurn();
    // More than 2048 spans that wait would be dropped.
    if (one.isRecorded && i % 1_024 === 0) await untilSent(traces, sentBefore + i);
  }
  if (one.isRecorded) await untilSent(traces, sentBefore + CALLS);
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1_000) / CALLS;
}

/** A full batch is packed in the turn after the one that fills it. */
async function holdOfBatch(one, traces) {
  const sentBefore = traces.counts.sent;
  ask(one, BATCH);
  const beganMs = performance.now();
  await nextTurn();
  const ms = performance.now() - beganMs;
  await untilSent(traces, sentBefore + BATCH);
  return ms;
}

async function untilSent(traces, count) {
  for (let waitedMs = 0; traces.counts.sent < count; waitedMs += 5) {
    if (waitedMs > 20_000) throw new Error(`only ${traces.counts.sent} of ${count} spans arrived`);
    await sleep(5);
  }
}
