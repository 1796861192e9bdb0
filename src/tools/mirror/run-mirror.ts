// Builds and connects the parts of a running mirror: the gRPC port, the two targets, the recording, the HTTP pages. The command line
// starts and stops it.

import { cannotListen } from "../../engine/base/cannot-listen.ts";
import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { ByteBudget } from "../../grpc/transport/relay/byte-budget.ts";
import { Http2Target } from "../../grpc/transport/relay/http2-target.ts";
import { RelayServer } from "../../grpc/transport/relay/relay-server.ts";
import type { Logger } from "../../operate/telemetry/logger.ts";
import { openProcessMetrics } from "../../operate/telemetry/metric-text.ts";
import { mirrorText } from "../../operate/telemetry/mirror-metrics.ts";
import type { CompareOptions } from "./compare.ts";
import { Differences } from "./differences.ts";
import { Mirror } from "./mirror.ts";
import { openPages } from "./pages.ts";
import { Recording } from "./recording.ts";
import { makeReport, type Report } from "./report.ts";
import { ValueGuard, type ValueMode } from "./value-guard.ts";

export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

export interface RunMirrorOptions {
  /** `host:port` of the target that answers callers. */
  readonly answerFrom: string;
  /** `host:port` of the compared target; undefined: calls are only passed on and recorded. */
  readonly compareWith: string | undefined;
  readonly grpc: ListenAddress;
  readonly http: ListenAddress;
  /** HTTP_HOSTS. */
  readonly httpHosts: readonly string[];
  readonly compare: CompareOptions;
  readonly values: ValueMode;
  readonly comparisonsMax: number;
  readonly heldBytesMax: number;
  readonly compareTimeoutMs: number;
  readonly record: { readonly file: string; readonly bytesMax: number } | undefined;
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

const MESSAGE_BYTES_MAX = 4_194_304;
const COMPARED_BYTES_MAX = 1_048_576;
const IN_FLIGHT_MAX = 20_000;
/** Longest call, for callers without a deadline. Envoy's default timeout is 20 ms. */
const CALL_MS_MAX = 30_000;
const GRACE_MS = 5_000;

/** Starts a mirror, even if targets are not reachable. Throws ConfigError if it can't listen or record. */
export async function runMirror(options: RunMirrorOptions): Promise<RunningMirror> {
  const parts = await buildMirrorParts(options);
  const { answering, compared, mirror, recording } = parts;
  const { clock, logger } = options;
  const startUs = clock.nowUs();
  const report = () => makeReport({ ...options, ...parts, seconds: (clock.nowUs() - startUs) / MICROS_PER_SECOND });
  const relay = new RelayServer({
    memory: parts.memory,
    ...options.grpc,
    path: SHOULD_RATE_LIMIT_PATH,
    handle: (call) => mirror.handle(call),
    passOn: answering,
    messageBytesMax: MESSAGE_BYTES_MAX,
    inFlightMax: IN_FLIGHT_MAX,
    callMsMax: CALL_MS_MAX,
  });
  // A recording that has no call yet would keep the next start from its name.
  const forgetRecording = async (error: unknown): Promise<never> => {
    await recording?.abandon();
    throw error;
  };
  const ofProcess = openProcessMetrics();
  const pages = openPages(options.http, {
    report,
    hosts: options.httpHosts,
    metrics: async () => `${await ofProcess()}\n${mirrorText(mirrorNumbers(parts))}`,
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
    { grpc: `${options.grpc.host}:${grpcPort}`, http: `${host}:${httpPort}`, from: options.answerFrom },
    "mirroring",
  );
  const stop = async () => {
    await relay.close(GRACE_MS);
    await mirror.finish(options.compareTimeoutMs);
    answering.close();
    compared?.close();
    await recording?.close();
    await pages.close(0);
    return report();
  };
  return { grpcPort, httpPort, report, stop };
}

/** The parts of a running mirror, without its two ports. */
interface MirrorParts {
  readonly answering: Http2Target;
  readonly compared: Http2Target | undefined;
  readonly mirror: Mirror;
  readonly book: Differences;
  readonly recording: Recording | undefined;
  /** For requests and answers on their way. */
  readonly memory: ByteBudget;
}

async function buildMirrorParts(options: RunMirrorOptions): Promise<MirrorParts> {
  const { clock, logger, compareWith, record } = options;
  const onEnded = (why: string) => logger.error(`${why}; calls pass on unrecorded`);
  const recording = record === undefined ? undefined : await Recording.open({ ...record, clock, onEnded });
  const answering = new Http2Target({ authority: options.answerFrom, messageBytesMax: MESSAGE_BYTES_MAX, clock });
  const compared =
    compareWith === undefined
      ? undefined
      : new Http2Target({ authority: compareWith, messageBytesMax: COMPARED_BYTES_MAX, clock });
  const book = new Differences(new ValueGuard(options.values));
  const memory = new ByteBudget(options.heldBytesMax);
  const mirror = new Mirror({
    memory,
    answering,
    compared,
    compare: options.compare,
    book,
    recorder: recording,
    clock,
    comparisonsMax: options.comparisonsMax,
    heldBytesMax: options.heldBytesMax,
    compareTimeoutUs: options.compareTimeoutMs * MICROS_PER_MILLI,
    onFault: (error) => logger.error({ err: error }, "a comparison failed"),
  });
  return { answering, compared, mirror, book, recording, memory };
}

function mirrorNumbers({ mirror, book, recording }: MirrorParts): Parameters<typeof mirrorText>[0] {
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
