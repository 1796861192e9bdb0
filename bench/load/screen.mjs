// What a run of bench:load shows: every figure with the goal it is held to beside it.

import { printTable } from "../harness/report.mjs";

/** "met", "met by CPU" (others took the time, not the service), or "MISSED"; "" without a goal. */
export function verdictOf({ goal, ratio, cpuRatio }) {
  if (goal === undefined) return "";
  if (ratio >= goal) return "met";
  return cpuRatio >= goal ? "met by CPU" : "MISSED";
}

/** Prints the table of shapes. */
export function showShapes(title, shapes) {
  printTable(
    title,
    shapes.map((row) => ({
      shape: row.name,
      yardstick: row.yardstickPerSecond.toLocaleString("en"),
      headgate: row.perSecond.toLocaleString("en"),
      ratio: row.ratio.toFixed(1),
      spread: `${row.ratioLeast.toFixed(1)}..${row.ratioMost.toFixed(1)}`,
      "us of CPU": `${row.yardstickCpuMicros.toFixed(1)} / ${row.cpuMicros.toFixed(1)}`,
      "us of Redis": row.redis === undefined ? "" : row.redis.cpuMicros.toFixed(1),
      "CPU ratio": `${row.cpuRatio.toFixed(1)} (${row.cpuRatioLeast.toFixed(1)}..${row.cpuRatioMost.toFixed(1)})`,
      "p99 ms": row.p99Us === undefined ? "" : (row.p99Us / 1_000).toFixed(1),
      goal: row.goal === undefined ? "" : `>= ${row.goal}`,
      "": verdictOf(row),
    })),
  );
}

/** A figure beside a stand-in's, in one line. */
export function besideLine(row) {
  const { name, what, standIn, others, own, ratio, ratioLeast, ratioMost, goalMost } = row;
  const goal = goalMost === undefined ? "" : `, goal <= ${goalMost}: ${besideVerdictOf(row)}`;
  return `${name}: ${what}: ${own.toFixed(1)} beside ${others.toFixed(1)} (${standIn}), ${ratio.toFixed(2)} of it (${ratioLeast.toFixed(2)}..${ratioMost.toFixed(2)})${goal}`;
}

/** "met" or "MISSED"; "" without a goal. */
export function besideVerdictOf({ goalMost, ratio }) {
  if (goalMost === undefined) return "";
  return ratio <= goalMost ? "met" : "MISSED";
}

/** Prints the other figures: what is measured beside stand-ins, how rules cost, the tail, and the memory store's. */
export function showRest({ besides = [], ruleCounts, tails, takes = [] }) {
  const lines = besides.map(besideLine);
  if (ruleCounts !== undefined) {
    const { few, many, growth, growthLeast, growthMost, goalMost } = ruleCounts;
    const verdict = growth <= goalMost ? "met" : "MISSED";
    lines.push(
      `CPU per call with ${many}, as a multiple of ${few}: ${growth.toFixed(2)} (${growthLeast.toFixed(2)}..${growthMost.toFixed(2)}), goal <= ${goalMost}: ${verdict}`,
    );
  }
  for (const tail of tails) lines.push(tailLine(tail));
  for (const { what, value, unit, goal } of takes) {
    if (goal === undefined) continue;
    lines.push(`${what}: ${value.toFixed(2)} ${unit}, goal <= ${goal}: ${value <= goal ? "met" : "MISSED"}`);
  }
  process.stdout.write(`\n${lines.map((line) => `${line}\n`).join("")}`);
}

function tailLine({ name, rate, cpuMicros, p50Ms, p99Ms, p99MsLeast, p99MsMost, p999Ms, goalMs, ...rest }) {
  const { sentP99Ms, sentP99MsLeast, sentP99MsMost, emptySentP99Ms, ownLateP99Ms } = rest;
  const verdict =
    goalMs === undefined ? "" : `; goal p99 from sending < ${goalMs}: ${sentP99Ms < goalMs ? "met" : "MISSED"}`;
  return (
    `${name}, at half load (${rate.toLocaleString("en")} calls/s, ${Math.round((cpuMicros * rate) / 1e4)} % of the core): ` +
    `p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} (${p99MsLeast.toFixed(2)}..${p99MsMost.toFixed(2)}), p99.9 ${p999Ms.toFixed(2)}, ` +
    `p99 from sending ${sentP99Ms.toFixed(2)} (${sentP99MsLeast.toFixed(2)}..${sentP99MsMost.toFixed(2)})${verdict}; ` +
    `a handler that does nothing ${emptySentP99Ms.toFixed(2)}; the caller's own p99 of lateness ${ownLateP99Ms.toFixed(2)}`
  );
}
