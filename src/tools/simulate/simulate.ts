// Runs a simulation over files of calls.

import { reportOf, type SimulationReport } from "./report.ts";
import { Simulation, type SimulationOptions } from "./simulation.ts";
import { type CallFilesOptions, LineCounts, openCalls } from "./sources/open-calls.ts";

/** Simulates all calls of the files. Throws ConfigError if one can't be read. */
export async function simulate(
  options: SimulationOptions & CallFilesOptions,
): Promise<{ readonly report: SimulationReport; readonly lines: LineCounts }> {
  const simulation = new Simulation(options);
  const lines = new LineCounts();
  try {
    for await (const batch of openCalls(options, lines)) for (const call of batch) simulation.feed(call);
    return { report: reportOf(simulation), lines };
  } finally {
    await simulation.close();
  }
}
