// The room's door. `runMirror` builds and connects the parts of a running mirror: the gRPC port, the two targets, the
// recording, the HTTP pages. `replay` sends the calls of a recording again: at the recorded pace, a multiple of it, or
// as fast as answers come; with two targets the mirror compares their answers.

import { setTimeout as sleep } from "node:timers/promises";
import { cannotListen } from "../../base/cannot-listen.ts";
import type { Clock } from "../../base/clock.ts";
import { HealthState } from "../../base/health.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { startFastLane } from "../../grpc/transport/fast-lane.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { refuseForeign } from "../../operate/http/cross-site.ts";
import { json, listOf, notFound, type Page, PageServer, READ, text } from "../../operate/http/page-server.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import { METRICS_TYPE } from "../../operate/telemetry/metric-text.ts";
import { openNodeMetrics } from "../../operate/telemetry/node-metrics.ts";
import { mirrorText } from "./metrics.ts";
import { MESSAGE_BYTES_MAX, openPair, type PairFlags } from "./pair.ts";
import { readRecording } from "./read-recording.ts";
import { Recording } from "./recording.ts";
import { type MirrorReport, reportText } from "./report.ts";

type Pair = ReturnType<typeof openPair>;

/** Options of `headgate mirror`. */
export interface MirrorFlags extends PairFlags {
  /** Not given where a mirror only replays. */
  readonly answerFrom?: string;
  /** Port 0: any free port. */
  readonly listen: { readonly host: string; readonly port: number };
  readonly http: MirrorFlags["listen"];
  readonly comparisonsMax: number;
  /** In bytes, as is `recordMax`. */
  readonly memoryMax: number;
  /** In milliseconds. */
  readonly compareTimeout: number;
  readonly record?: string;
  readonly recordMax: number;
}

interface RunMirrorOptions extends MirrorFlags {
  readonly answerFrom: string;
  /** HTTP_HOSTS. */
  readonly httpHosts: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Options of `headgate mirror replay`. */
export interface ReplayFlags extends PairFlags {
  /** `host:port` of the service. */
  readonly target: string;
  /** Factor of the recorded pace; Infinity: as fast as answers come. */
  readonly speed: number;
  /** Most calls under way at once. With 1 both targets get the calls in the order of the file. */
  readonly inFlight?: number;
  /** How long a call may take, in milliseconds. */
  readonly timeout: number;
  /** Called if the file is cut off in the middle, with its number of whole lines. */
  readonly onCutOff?: (lines: number) => void;
}

const IN_FLIGHT_MAX = 20_000;
const STREAMS_MAX = 4_096;
const KEEPALIVE_MS = 60_000;
/** Longest call, for callers without a deadline. Envoy's default timeout is 20 ms. */
const CALL_MS_MAX = 30_000;
const GRACE_MS = 5_000;
/** Of calls that a replay compares. */
const HELD_BYTES_MAX = 67_108_864;
/** Most calls under way at once if the recording sets the pace. */
const PACED_IN_FLIGHT = 256;

/** Starts a mirror, even if targets are not reachable. Throws ConfigError if it can't listen or record. */
export async function runMirror(options: RunMirrorOptions) {
  const { clock, logger, record: file, recordMax: bytesMax } = options;
  const onFault = (error: unknown) => logger.error({ err: error }, "a comparison failed");
  const pair = openPair({ ...options, callMsMax: CALL_MS_MAX, onFault });
  const { answering, compared, mirror, report } = pair;
  const pages = openPages(options, pair);
  const { host, port } = options.http;
  const httpPort = await pages.listen().catch((error: Error) => {
    throw cannotListen("HTTP", `${host}:${port}`, "--http", error);
  });
  const grpc = await openGrpc(options, pair).catch(async (error: unknown) => {
    await pages.close(0);
    throw error;
  });
  /** Waits for calls under way, closes everything and returns the last report. */
  const stop = async () => {
    await grpc.drain(GRACE_MS);
    await mirror.finish(options.compareTimeout);
    pair.close();
    await mirror.recorder?.close();
    await pages.close(0);
    return report();
  };
  const onEnded = (why: string) => logger.error(`${why}; calls pass on unrecorded`);
  // Last, so that a mirror that can't listen leaves no file.
  if (file !== undefined) {
    mirror.recorder = await Recording.open({ file, bytesMax, clock, onEnded }).catch(async (error: unknown) => {
      await stop();
      throw error;
    });
  }
  answering.connect();
  compared?.connect();
  logger.info(
    { grpc: `${options.listen.host}:${grpc.port}`, http: `${host}:${httpPort}`, from: options.answerFrom },
    "mirroring",
  );
  return { grpcPort: grpc.port, httpPort, report, stop };
}

/** The gRPC port. It has the bounds of the service's own. */
function openGrpc({ listen, clock, logger }: RunMirrorOptions, { mirror }: Pair) {
  return startFastLane({
    ...listen,
    portOption: "--listen",
    methods: [{ path: SHOULD_RATE_LIMIT_PATH, handler: mirror }],
    clock,
    health: new HealthState(),
    reflection: false,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    maxConnectionAgeGraceMs: 0,
    keepaliveMs: KEEPALIVE_MS,
    maxConcurrentStreams: STREAMS_MAX,
    maxMessageBytes: MESSAGE_BYTES_MAX,
    inFlightMax: IN_FLIGHT_MAX,
    observer: {
      handlerFailed: (path, error) => logger.error({ err: error }, `a call of ${path} failed`),
      overloaded: () => undefined,
      unserved: (reason, path) => logger.warn({ reason, path }, "a call got UNIMPLEMENTED"),
    },
  });
}

/** The HTTP port, which does not listen yet: report, metrics, health. */
function openPages({ http, httpHosts, logger }: RunMirrorOptions, pair: Pair): PageServer {
  const { answering, report } = pair;
  const ofNode = openNodeMetrics();
  const pages = new Map<string, Page>();
  const add = (path: string, help: string, answer: Page["answer"]) => pages.set(path, { methods: READ, help, answer });
  add("/", "this list", () => text(200, listOf(pages)));
  add("/report", "what differed, as text, or as JSON with Accept: application/json or ?format=json", (request) => {
    const query = request.url?.split("?", 2)[1] ?? "";
    const wantsJson = query.split("&").includes("format=json") || request.headers.accept?.includes("application/json");
    return refuseForeign(request, httpHosts) ?? (wantsJson ? json(200, report()) : text(200, reportText(report())));
  });
  add("/metrics", "metrics for Prometheus", async () => ({
    status: 200,
    headers: { "content-type": METRICS_TYPE },
    body: `${await ofNode()}\n${mirrorText(pair)}`,
  }));
  add("/healthcheck", "200 while the answering target is connected, else 500", () => {
    answering.connect();
    return answering.isConnected ? text(200, "OK") : text(500, "the answering target is not connected\n");
  });
  add("/livez", "200 as long as the mirror works at all", () => text(200, "OK\n"));
  const onError = (error: unknown) => logger.error({ err: error }, "a page failed");
  return new PageServer({ ...http, pages, otherPage: notFound, onError });
}

/** Replays the whole file and returns the report. Throws ConfigError if the file can't be read. */
export async function replay(file: string, flags: ReplayFlags, clock: Clock): Promise<MirrorReport> {
  const { speed, timeout, onCutOff } = flags;
  const inFlightMax = flags.inFlight ?? (Number.isFinite(speed) ? PACED_IN_FLIGHT : 1);
  let inFlight = 0;
  let wake: () => void = () => undefined;
  const someEnd = () =>
    new Promise<void>((resolve) => {
      wake = resolve;
    });
  const { mirror, report, close } = openPair({
    ...flags,
    answerFrom: flags.target,
    clock,
    comparisonsMax: inFlightMax,
    memoryMax: HELD_BYTES_MAX,
    compareTimeout: timeout,
    callMsMax: timeout,
    onFault: (error) => {
      throw error;
    },
    onSettled: () => wake(),
  });
  const ended = () => {
    inFlight--;
    wake();
  };
  try {
    const startUs = clock.nowUs();
    let firstUs: number | undefined;
    for await (const calls of readRecording(file, onCutOff === undefined ? {} : { onCutOff })) {
      for (const { atUs, message } of calls) {
        firstUs ??= atUs;
        const waitMs = Math.floor((startUs + (atUs - firstUs) / speed - clock.nowUs()) / 1_000);
        if (waitMs > 0) await sleep(waitMs);
        // A call is under way until both targets have answered it.
        while (Math.max(inFlight, mirror.comparisons) >= inFlightMax) await someEnd();
        inFlight++;
        // Without its timeout, a target that hangs would stop the replay.
        mirror.handle(message, clock.nowUs() + timeout * MICROS_PER_MILLI, { ok: ended, fail: ended });
      }
    }
    while (inFlight > 0) await someEnd();
    await mirror.finish(timeout + 1_000);
  } finally {
    close();
  }
  return report();
}
