// Sends the calls of a recording again: at the recorded pace, a multiple of it, or as fast as answers come. With two targets the mirror
// compares their answers.

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../engine/base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import { ByteBudget } from "../../grpc/transport/relay/byte-budget.ts";
import { Http2Target } from "../../grpc/transport/relay/http2-target.ts";
import type { RelayedRequest } from "../../grpc/transport/relay/unary-exchange.ts";
import { framed } from "./answer.ts";
import type { CompareOptions } from "./compare.ts";
import { Differences } from "./differences.ts";
import { Mirror } from "./mirror.ts";
import { readRecording } from "./read-recording.ts";
import { makeReport, type Report } from "./report.ts";
import { ValueGuard, type ValueMode } from "./value-guard.ts";

interface ReplayOptions {
  readonly file: string;
  /** `host:port`, as is `compareWith`. */
  readonly target: string;
  readonly compareWith: string | undefined;
  /** Factor of the recorded pace; Infinity: as fast as answers come. */
  readonly speed: number;
  /** Most calls under way at once. With 1 both targets get the calls in the order of the file. */
  readonly inFlightMax: number;
  /** How long a call may take, in milliseconds. */
  readonly timeoutMs: number;
  readonly compare: CompareOptions;
  readonly values: ValueMode;
  readonly clock: Clock;
}

const MESSAGE_BYTES_MAX = 4_194_304;
const HELD_BYTES_MAX = 67_108_864;

/** Replays the whole file and returns the report. Throws ConfigError if the file can't be read. */
export async function replay(options: ReplayOptions): Promise<Report> {
  const { clock, compare, file, compareWith } = options;
  const openTarget = (authority: string) => new Http2Target({ authority, messageBytesMax: MESSAGE_BYTES_MAX, clock });
  const answering = openTarget(options.target);
  const compared = compareWith === undefined ? undefined : openTarget(compareWith);
  const book = new Differences(new ValueGuard(options.values));
  const sender = new Sender(options);
  const mirror = new Mirror({
    answering,
    compared,
    compare,
    book,
    recorder: undefined,
    clock,
    comparisonsMax: options.inFlightMax,
    heldBytesMax: HELD_BYTES_MAX,
    memory: new ByteBudget(HELD_BYTES_MAX),
    compareTimeoutUs: options.timeoutMs * 1_000,
    onFault: (error) => {
      throw error;
    },
    onSettled: () => sender.wake(),
  });
  const startUs = clock.nowUs();
  try {
    await sender.sendAll(file, mirror);
    await mirror.finish(options.timeoutMs + 1_000);
  } finally {
    answering.close();
    compared?.close();
  }
  const seconds = (clock.nowUs() - startUs) / 1_000_000;
  return makeReport({
    answerFrom: options.target,
    compareWith,
    mirror,
    book,
    compare,
    recording: undefined,
    seconds,
  });
}

/** Sends the calls at their pace, with at most `inFlightMax` under way. */
class Sender {
  readonly #options: ReplayOptions;
  readonly #headers: RelayedRequest["headers"];
  #inFlight = 0;
  #wake: (() => void) | undefined;

  constructor(options: ReplayOptions) {
    this.#options = options;
    this.#headers = headersOf(options.timeoutMs);
  }

  /** Sends all calls of the file and waits until all are answered. */
  async sendAll(file: string, mirror: Mirror): Promise<void> {
    const { clock, speed, inFlightMax } = this.#options;
    const startUs = clock.nowUs();
    for await (const { calls } of readRecording(file)) {
      for (const { atUs, message } of calls) {
        const waitMs = Math.floor((startUs + atUs / speed - clock.nowUs()) / 1_000);
        if (waitMs > 0) await sleep(waitMs);
        // A call is under way until both targets have answered it.
        while (Math.max(this.#inFlight, mirror.comparisons) >= inFlightMax) await this.#someEnd();
        this.#send(message, mirror);
      }
    }
    while (this.#inFlight > 0) await this.#someEnd();
  }

  /** Must be called whenever fewer calls are under way. */
  wake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }

  #someEnd(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #send(message: Buffer, mirror: Mirror): void {
    this.#inFlight++;
    let giveUp: NodeJS.Timeout | undefined;
    let ended: () => void = () => undefined;
    mirror.handle({
      request: { headers: this.#headers, body: framed(message) },
      answer: () => {
        clearTimeout(giveUp);
        this.#inFlight--;
        ended();
        this.wake();
      },
      // Without a timeout, a target that hangs would stop the replay.
      onEnded: (end) => {
        ended = end;
        giveUp = setTimeout(end, this.#options.timeoutMs);
      },
    });
  }
}

function headersOf(timeoutMs: number): RelayedRequest["headers"] {
  return {
    ":method": "POST",
    ":path": SHOULD_RATE_LIMIT_PATH,
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-timeout": `${timeoutMs}m`,
    "user-agent": "headgate-replay",
  };
}
