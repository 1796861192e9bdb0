// The service at half of the load that saturates it: latencies, and what a call costs when there are few of them per turn. The
// load is open: calls are due at even distances whether or not earlier ones were answered, and each is timed from when it was
// due, and from when it was sent. Two figures say what the machine adds: how late the caller itself was, and what calls at the same rate take
// with a handler that does nothing.

import { median, progress } from "../harness/report.mjs";
import { call, load } from "./h2load.mjs";
import { placesOf, spreadOf } from "./measure.mjs";

/** Enough calls under way that none has to wait for a place while the server is quick. */
const STREAMS_MAX = 2_000;

/** Percentiles in milliseconds of `shape` over `rounds` rounds of `seconds`, the rate, and CPU times per call in microseconds. */
export async function measureTail(shape, { servers, rounds, seconds }) {
  const runs = [];
  const emptyRuns = [];
  for (let round = 1; round <= rounds; round++) {
    progress(`${shape.name} at half load: round ${round} of ${rounds}`);
    const server = await servers.take("service", shape);
    const ask = { ...shape, seconds };
    const most = shape.by === "h2load" ? await load(server, ask) : await call(server, ask);
    const rate = Math.round(most.perSecond / 2);
    const counters = await placesOf(servers, "service", shape);
    runs.push(await call(server, { ...ask, ...counters, streams: STREAMS_MAX, rate }));
    runs.at(-1).rate = rate;
    await servers.giveBack(server);
    const empty = await servers.take("empty", shape);
    emptyRuns.push(await call(empty, { ...ask, streams: STREAMS_MAX, rate }));
    await servers.giveBack(empty);
  }
  await servers.endShape();
  const of = (field) => runs.map((run) => run[field]);
  const ms = (field, of = runs) => of.map((run) => run[field] / 1_000);
  return {
    name: shape.name,
    goalMs: shape.goalMs,
    rate: Math.round(median(of("rate"))),
    p50Ms: median(ms("p50Us")),
    ...spreadOf("p99Ms", ms("p99Us")),
    p999Ms: median(ms("p999Us")),
    ...spreadOf("sentP99Ms", ms("sentP99Us")),
    emptySentP99Ms: median(ms("sentP99Us", emptyRuns)),
    ownLateP99Ms: median(ms("ownLateP99Us")),
    cpuMicros: median(of("cpuMicrosPerCall")),
    redis: runs.at(-1).redis,
    errors: Math.max(...of("errors")),
  };
}
