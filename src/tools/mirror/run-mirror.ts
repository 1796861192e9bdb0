// Builds and connects the parts of a running mirror: the gRPC port, the two targets, the recording, the HTTP pages. The command line
// starts and stops it.

import { cannotListen } from "../../engine/base/cannot-listen.ts";
import type { Clock } from "../../engine/base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { RelayServer } from "../../grpc/transport/relay/relay-server.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import { mirrorText } from "../../operate/telemetry/mirror-metrics.ts";
import { nodeText, openNodeMetrics } from "../../operate/telemetry/node-metrics.ts";
import { openPages } from "./pages.ts";
import { MESSAGE_BYTES_MAX, openPair, type PairFlags } from "./pair.ts";
import { Recording } from "./recording.ts";
import type { Report } from "./report.ts";

interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/** Options of `headgate mirror`. */
export interface MirrorFlags extends PairFlags {
  /** Not given where a mirror only replays. */
  readonly answerFrom?: string;
  readonly listen: ListenAddress;
  readonly http: ListenAddress;
  readonly comparisonsMax: number;
  /** In bytes, as is `recordMax`. */
  readonly memoryMax: number;
  /** In milliseconds. */
  readonly compareTimeout: number;
  readonly record?: string;
  readonly recordMax: number;
}

export interface RunMirrorOptions extends MirrorFlags {
  readonly answerFrom: string;
  /** HTTP_HOSTS. */
  readonly httpHosts: readonly string[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A running mirror. */
export interface RunningMirror {
  readonly grpcPort: number;
  readonly httpPort: number;
  /** The report of everything so far. */
  report(): Report;
  /** Waits for calls under way, closes everything and returns the last report. */
  stop(): Promise<Report>;
}

const IN_FLIGHT_MAX = 20_000;
/** Longest call, for callers without a deadline. Envoy's default timeout is 20 ms. */
const CALL_MS_MAX = 30_000;
const GRACE_MS = 5_000;

/** Starts a mirror, even if targets are not reachable. Throws ConfigError if it can't listen or record. */
export async function runMirror(options: RunMirrorOptions): Promise<RunningMirror> {
  const { clock, logger, record: file, recordMax: bytesMax } = options;
  const onEnded = (why: string) => logger.error(`${why}; calls pass on unrecorded`);
  const recording = file === undefined ? undefined : await Recording.open({ file, bytesMax, clock, onEnded });
  const onFault = (error: unknown) => logger.error({ err: error }, "a comparison failed");
  const pair = openPair({ ...options, recorder: recording, onFault });
  const { answering, compared, mirror, memory, report } = pair;
  const relay = new RelayServer({
    ...options.listen,
    path: SHOULD_RATE_LIMIT_PATH,
    handle: (call) => mirror.handle(call),
    passOn: answering,
    messageBytesMax: MESSAGE_BYTES_MAX,
    memory,
    inFlightMax: IN_FLIGHT_MAX,
    callMsMax: CALL_MS_MAX,
  });
  // A recording that has no call yet would keep the next start from its name.
  const forgetRecording = async (error: unknown): Promise<never> => {
    await recording?.abandon();
    throw error;
  };
  const ofNode = openNodeMetrics();
  const pages = openPages(options.http, {
    report,
    hosts: options.httpHosts,
    metrics: async () => `${await nodeText([await ofNode()])}\n${mirrorText(mirrorNumbers(pair, recording))}`,
    isReady: () => {
      answering.connect();
      return answering.isConnected;
    },
    onError: (error) => logger.error({ err: error }, "a page failed"),
  });
  const { host, port } = options.http;
  const httpPort = await pages.listen().catch((error: Error) => {
    return forgetRecording(cannotListen("HTTP", `${host}:${port}`, "--http", error));
  });
  const grpcPort = await relay.listen().catch(async (error: unknown) => {
    await pages.close(0);
    return await forgetRecording(error);
  });
  answering.connect();
  compared?.connect();
  logger.info(
    { grpc: `${options.listen.host}:${grpcPort}`, http: `${host}:${httpPort}`, from: options.answerFrom },
    "mirroring",
  );
  const stop = async () => {
    await relay.close(GRACE_MS);
    await mirror.finish(options.compareTimeout);
    pair.close();
    await recording?.close();
    await pages.close(0);
    return report();
  };
  return { grpcPort, httpPort, report, stop };
}

function mirrorNumbers(
  { mirror, book }: ReturnType<typeof openPair>,
  recording: Recording | undefined,
): Parameters<typeof mirrorText>[0] {
  const { relayed, notCompared, answeringFailures: notAnswered, comparisons, heldBytes } = mirror;
  return {
    relayed,
    same: book.same,
    different: book.different,
    notCompared,
    notAnswered,
    differencesByField: book.fields,
    rules: book.rules(),
    comparisons,
    heldBytes,
    recorded: recording?.calls ?? 0,
    notRecorded: recording?.leftOut ?? 0,
    latency: { answering: mirror.answeringLatency, compared: mirror.comparedLatency },
  };
}
