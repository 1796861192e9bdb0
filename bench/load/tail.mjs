// Latencies of the service at half of the load that saturates it. The load is open: calls are due at even distances whether
// or not earlier ones were answered, and each is timed from when it was due. How late the caller itself was is measured too,
// because on a machine that others use it is the caller who stands still as often as the server.

import { median, progress } from "../harness/report.mjs";
import { call, load } from "./h2load.mjs";
import { spreadOf } from "./measure.mjs";
import { TAIL_GOAL_MS } from "./shapes.mjs";

const SHAPE = { rules: "hot", connections: 4 };
/** Enough calls under way that none has to wait for a place while the server is quick. */
const STREAMS_MAX = 2_000;

/** Percentiles in milliseconds over `rounds` rounds of `seconds`, and the rates they were measured at. */
export async function measureTail({ servers, rounds, seconds }) {
  const runs = [];
  for (let round = 1; round <= rounds; round++) {
    progress(`tail at half load: round ${round} of ${rounds}`);
    const server = await servers.take("service", SHAPE);
    const most = await load(server, { ...SHAPE, streams: 50, seconds });
    const rate = Math.round(most.perSecond / 2);
    const { p50Us, p99Us, p999Us, ownLateP99Us, perSecond, serverCpu, errors } = await call(server, {
      ...SHAPE,
      streams: STREAMS_MAX,
      rate,
      seconds,
    });
    await servers.giveBack(server);
    runs.push({ rate, perSecond, p50Us, p99Us, p999Us, ownLateP99Us, serverCpu, errors });
  }
  await servers.endShape();
  const ms = (field) => runs.map((run) => run[field] / 1_000);
  return {
    goalMs: TAIL_GOAL_MS,
    rate: median(runs.map(({ rate }) => rate)),
    p50Ms: median(ms("p50Us")),
    ...spreadOf("p99Ms", ms("p99Us")),
    p999Ms: median(ms("p999Us")),
    ownLateP99Ms: median(ms("ownLateP99Us")),
    runs,
  };
}
