// Prints the ten slowest test files of vitest reports in JSON, one to a line.
//   node .ci/slowest.mjs REPORT...

import { readFileSync } from "node:fs";
import { basename, relative } from "node:path";

const SLOWEST = 10;

const files = process.argv.slice(2).flatMap(filesOf);
for (const { name, seconds } of files.sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST))
  process.stdout.write(`${seconds.toFixed(1).padStart(6)} s  ${name}\n`);

/** None of a suite that ended without a report. */
function filesOf(report) {
  try {
    return JSON.parse(readFileSync(report, "utf8")).testResults.map(({ name, startTime, endTime }) => ({
      name: `${basename(report, ".json")}: ${relative(process.cwd(), name)}`,
      seconds: (endTime - startTime) / 1_000,
    }));
  } catch {
    return [];
  }
}
