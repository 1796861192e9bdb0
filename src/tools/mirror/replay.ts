// Sends the calls of a recording again: at the recorded pace, a multiple of it, or as fast as answers come. With two targets the mirror
// compares their answers.

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../engine/base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../grpc/transport/load-proto.ts";
import type { RelayedRequest } from "../../grpc/transport/relay/unary-exchange.ts";
import { framed } from "./answer.ts";
import type { Mirror } from "./mirror.ts";
import { openPair, type PairFlags } from "./pair.ts";
import { readRecording } from "./read-recording.ts";
import type { Report } from "./report.ts";

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

const HELD_BYTES_MAX = 67_108_864;
/** Most calls under way at once if the recording sets the pace. */
const PACED_IN_FLIGHT = 256;

/** Replays the whole file and returns the report. Throws ConfigError if the file can't be read. */
export async function replay(file: string, flags: ReplayFlags, clock: Clock): Promise<Report> {
  const inFlightMax = flags.inFlight ?? (Number.isFinite(flags.speed) ? PACED_IN_FLIGHT : 1);
  const sender = new Sender({ ...flags, inFlightMax, clock });
  const { mirror, report, close } = openPair({
    ...flags,
    answerFrom: flags.target,
    clock,
    comparisonsMax: inFlightMax,
    memoryMax: HELD_BYTES_MAX,
    compareTimeout: flags.timeout,
    onFault: (error) => {
      throw error;
    },
    onSettled: () => sender.wake(),
  });
  try {
    await sender.sendAll(file, mirror);
    await mirror.finish(flags.timeout + 1_000);
  } finally {
    close();
  }
  return report();
}

interface SenderOptions extends Pick<ReplayFlags, "speed" | "timeout" | "onCutOff"> {
  readonly inFlightMax: number;
  readonly clock: Clock;
}

/** Sends the calls at their pace, with at most `inFlightMax` under way. */
class Sender {
  readonly #options: SenderOptions;
  readonly #headers: RelayedRequest["headers"];
  #inFlight = 0;
  #wake: (() => void) | undefined;

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#headers = headersOf(options.timeout);
  }

  /** Sends all calls of the file and waits until all are answered. */
  async sendAll(file: string, mirror: Mirror): Promise<void> {
    const { clock, speed, inFlightMax, onCutOff } = this.#options;
    const startUs = clock.nowUs();
    for await (const { calls } of readRecording(file, onCutOff === undefined ? {} : { onCutOff })) {
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
        giveUp = setTimeout(end, this.#options.timeout);
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
