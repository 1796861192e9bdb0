// A mirror in front of two targets, on free ports, with a client; and targets whose answers a test chooses.

import type { Client } from "@grpc/grpc-js";
import * as grpc from "@grpc/grpc-js";
import { SystemClock } from "../../src/base/clock.ts";
import { createLogger } from "../../src/operate/telemetry/logger.ts";
import { readAnswer, type TargetAnswer } from "../../src/tools/mirror/answer.ts";
import type { CompareOptions } from "../../src/tools/mirror/compare.ts";
import { runMirror } from "../../src/tools/mirror/run-mirror.ts";
import { endWithTest } from "./ends.ts";
import { shouldRateLimit } from "./load-proto.ts";

type RunningMirror = Awaited<ReturnType<typeof runMirror>>;

type RunMirrorOptions = Parameters<typeof runMirror>[0];

/** Nothing ignored, a second of tolerance for times. */
export const STRICT: CompareOptions = { ignore: [], remainingTolerance: 0, durationTolerance: 1_000 };

/** A port of the loopback that nobody listens on. */
export const NOBODY = "127.0.0.1:1";

/** Starts a mirror between targets given as `host:port`. */
export async function startMirror(
  answerFrom: string,
  compareWith: string | undefined,
  options: Partial<RunMirrorOptions> = {},
): Promise<RunningMirror> {
  const clock = new SystemClock();
  const mirror = await runMirror({
    ...STRICT,
    answerFrom,
    ...(compareWith === undefined ? {} : { compareWith }),
    listen: { host: "127.0.0.1", port: 0 },
    http: { host: "127.0.0.1", port: 0 },
    httpHosts: [],
    values: "hide",
    comparisonsMax: 1_000,
    memoryMax: 67_108_864,
    compareTimeout: 1_000,
    recordMax: 1_000_000,
    clock,
    logger: createLogger({ level: "silent", format: "json", clock, secrets: [] }),
    ...options,
  });
  return { ...mirror, stop: endWithTest(() => mirror.stop()) };
}

/** A request's message for one descriptor of domain `edge`. */
export function requestBytes(entries: Readonly<Record<string, string>>): Buffer {
  const descriptor = { entries: Object.entries(entries).map(([key, value]) => ({ key, value })) };
  return shouldRateLimit().requestSerialize({ domain: "edge", descriptors: [descriptor] });
}

/** An answer's message. */
export function answerBytes(answer: object): Buffer {
  return shouldRateLimit().responseSerialize(answer);
}

/** What a target answered, read from its bytes. */
export function targetAnswer(answer: object, grpcCode = 0): TargetAnswer {
  return readAnswer({ kind: "answer", code: grpcCode, details: "", message: answerBytes(answer) });
}

/** Plain values as the fields of a Struct. */
export function structOf(plain: object): object {
  return { fields: Object.fromEntries(Object.entries(plain).map(([key, value]) => [key, structValue(value)])) };
}

function structValue(value: unknown): object {
  if (Array.isArray(value)) return { listValue: { values: value.map(structValue) } };
  if (typeof value === "object" && value !== null) return { structValue: structOf(value) };
  return { [`${value === null ? "null" : typeof value}Value`.replace("boolean", "bool")]: value ?? 0 };
}

/** What one call through raw gRPC came to. */
export interface RawReply {
  readonly code: grpc.status;
  readonly details: string;
  readonly message: Buffer | undefined;
  readonly metadata: grpc.Metadata | undefined;
  readonly trailers: grpc.Metadata | undefined;
}

/** Sends bytes to ShouldRateLimit. */
export function callBytes(
  client: Client,
  message: Buffer,
  { metadata = new grpc.Metadata(), deadlineMs = 5_000 } = {},
): Promise<RawReply> {
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve) => {
    let headers: grpc.Metadata | undefined;
    let body: Buffer | undefined;
    const options = { deadline: new Date(Date.now() + deadlineMs) };
    const call = client.makeUnaryRequest(
      shouldRateLimit().path,
      same,
      same,
      message,
      metadata,
      options,
      (_error, answer) => {
        body = answer;
      },
    );
    call.on("metadata", (received: grpc.Metadata) => {
      headers = received;
    });
    call.on("status", ({ code, details, metadata: trailers }: grpc.StatusObject) => {
      setImmediate(() => resolve({ code, details, message: body, metadata: headers, trailers }));
    });
  });
}
