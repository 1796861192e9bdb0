// Sends the calls of a recording again: at the recorded pace, a multiple of it, or as fast as answers come. With two
// targets the mirror compares their answers.

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { openPair, type PairFlags } from "./pair.ts";
import { readRecording } from "./read-recording.ts";
import type { MirrorReport } from "./report.ts";

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
