// Measures one shape: yardstick and service in turn, round by round, and what the rounds come to.

import { requireEnvoy, startEnvoy } from "../harness/envoy.mjs";
import { busyness, median, progress } from "../harness/report.mjs";
import { call, load } from "./h2load.mjs";
import { RULE_COUNTS } from "./shapes.mjs";

const WARM_UP_SECONDS = 1;
/** For a process that has been under load before. */
const WARM_UP_AGAIN_SECONDS = 0.3;
const RULE_ROUNDS = 8;

/** Figures of a shape over `rounds` rounds of `seconds`: medians, and least and most of the ratios. */
export async function measureShape(shape, { servers, rounds, seconds }) {
  const runs = { yardstick: [], service: [] };
  for (let round = 1; round <= rounds; round++) {
    for (const who of Object.keys(runs)) {
      progress(`${shape.name}: ${who}, round ${round} of ${rounds}`);
      runs[who].push(await measureOnce(who, shape, { servers, seconds }));
    }
  }
  await servers.endShape();
  return summaryOf(shape, runs);
}

/** One run of a shape on one of its servers. */
export async function measureOnce(who, shape, { servers, seconds }) {
  const server = await servers.take(who, shape);
  const warmUpSeconds = server.isWarm ? WARM_UP_AGAIN_SECONDS : WARM_UP_SECONDS;
  const all = { ...shape, seconds, warmUpSeconds };
  try {
    if (shape.by === "envoy") return await throughEnvoy(server, all);
    if (shape.by === "caller")
      return checked(await call(server, { ...all, ...(await placesOf(servers, who, shape)) }), shape);
    // h2load looks at HTTP statuses, which errors of gRPC have too, so a caller that reads answers goes first.
    if (!server.isWarm)
      checked(await call(server, { ...shape, connections: 1, seconds: 0.3, warmUpSeconds: 0 }), shape);
    return await load(server, all);
  } finally {
    await servers.giveBack(server);
  }
}

/** What caller.mjs has to know of a shape's store and certificates. */
export async function placesOf(servers, who, shape) {
  const tls = servers.tls(shape);
  if (shape.store === undefined || who === "yardstick") return { tls };
  const { ports, pids } = await servers.store(shape);
  const isRedis = shape.store !== "postgres";
  return { tls, storePids: pids, ...(isRedis ? { redisPorts: ports, redisPids: pids } : {}) };
}

async function throughEnvoy(server, shape) {
  requireEnvoy();
  const envoy = await startEnvoy(server.port);
  try {
    const report = await load(server, { ...shape, through: envoy.port });
    const { decided, failed } = await envoy.questions();
    if (failed > 0 || decided < report.perSecond * shape.seconds)
      throw new Error(`${shape.name}: Envoy got ${decided} decisions and ${failed} failures`);
    return report;
  } finally {
    await envoy.stop();
  }
}

function checked(report, { name }) {
  const { calls, errors } = report;
  if (calls === 0 || errors > 0)
    throw new Error(`${name}: ${errors} of ${calls} calls were not answered by a decision`);
  return report;
}

function summaryOf({ name, goal, by }, { yardstick, service }) {
  const of = (runs, field) => runs.map((run) => run[field]);
  const rates = (runs) => of(runs, "perSecond").map(Math.round);
  const ratios = service.map(({ perSecond }, round) => perSecond / yardstick[round].perSecond);
  const cpuRatios = service.map((run, round) => yardstick[round].cpuMicrosPerCall / run.cpuMicrosPerCall);
  const [one] = service;
  return {
    name,
    goal,
    by,
    load1: busyness().load1,
    yardstickPerSecond: Math.round(median(rates(yardstick))),
    perSecond: Math.round(median(rates(service))),
    ...spreadOf("ratio", ratios),
    yardstickCpuMicros: median(of(yardstick, "cpuMicrosPerCall")),
    cpuMicros: median(of(service, "cpuMicrosPerCall")),
    ...spreadOf("cpuRatio", cpuRatios),
    rounds: { yardstick: rates(yardstick), service: rates(service) },
    ...(one.p99Us === undefined
      ? {}
      : {
          refusedShare: one.overLimit / one.calls,
          yardstickP99Us: median(of(yardstick, "p99Us")),
          p50Us: median(of(service, "p50Us")),
          p99Us: median(of(service, "p99Us")),
          p999Us: median(of(service, "p999Us")),
          bytesSentPerCall: one.bytesSentPerCall,
          bytesReadPerCall: one.bytesReadPerCall,
          redis: one.redis,
        }),
  };
}

/** Median, least and most of the rounds, under names that begin with `name`. */
export function spreadOf(name, values) {
  return { [name]: median(values), [`${name}Least`]: Math.min(...values), [`${name}Most`]: Math.max(...values) };
}

/** CPU time per call with many rules over that with few; the keys asked for are the same. */
export async function measureRuleCounts({ servers, seconds }) {
  const { few, many, keys, goalMost } = RULE_COUNTS;
  const micros = { [few]: [], [many]: [] };
  for (let round = 1; round <= RULE_ROUNDS; round++) {
    for (const rules of [few, many]) {
      progress(`rules: ${rules}, round ${round} of ${RULE_ROUNDS}`);
      const shape = { name: rules, rules, message: "rules", keys, connections: 4, streams: 50, seconds };
      const server = await servers.take("service", shape);
      const warmUpSeconds = server.isWarm ? WARM_UP_AGAIN_SECONDS : WARM_UP_SECONDS;
      micros[rules].push(checked(await call(server, { ...shape, warmUpSeconds }), shape).cpuMicrosPerCall);
      await servers.giveBack(server);
    }
  }
  await servers.endShape();
  const growth = micros[many].map((of, round) => of / micros[few][round]);
  return {
    few,
    many,
    goalMost,
    fewCpuMicros: median(micros[few]),
    manyCpuMicros: median(micros[many]),
    ...spreadOf("growth", growth),
  };
}
