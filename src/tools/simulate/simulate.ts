// Runs a simulation over files of calls: reads, decides, reports its progress.

import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { reportOf, type SimulationReport } from "./report.ts";
import { Simulation, type SimulationOptions } from "./simulation.ts";
import { type CallFilesOptions, LineCounts, openCalls } from "./sources/open-calls.ts";

/** How far a run is. */
export interface Progress {
  readonly calls: number;
  readonly bytesRead: number;
  /** Time of the last call. */
  readonly atUs: number;
}

interface RunOptions extends SimulationOptions, Omit<CallFilesOptions, "onRead"> {
  /** The machine's clock, which limits `onProgress` to one call per second. */
  readonly clock: Clock;
  readonly onProgress: (progress: Progress) => void;
}

/** What a run has found. */
interface RunResult {
  readonly report: SimulationReport;
  readonly lines: LineCounts;
}

/** Simulates all calls of the files. Throws ConfigError if one can't be read. */
export async function simulate(options: RunOptions): Promise<RunResult> {
  const { clock } = options;
  const simulation = new Simulation(options);
  const lines = new LineCounts();
  let bytesRead = 0;
  const onRead = (bytes: number) => {
    bytesRead += bytes;
  };
  let toldUs = clock.nowUs();
  try {
    for await (const batch of openCalls({ ...options, onRead }, lines)) {
      for (const call of batch) simulation.feed(call);
      const nowUs = clock.nowUs();
      if (nowUs - toldUs < MICROS_PER_SECOND) continue;
      toldUs = nowUs;
      const { calls, lastUs } = simulation.timeline;
      options.onProgress({ calls, bytesRead, atUs: lastUs });
    }
    return { report: reportOf(simulation), lines };
  } finally {
    await simulation.close();
  }
}
