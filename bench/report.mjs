// Writes the figures of the last run into docs/performance.md, between the comments that mark their places, and draws the
// chart: `npm run bench:report`. With --print the tables go to the screen only.
//   node bench/report.mjs [bench/results/DATE-bench.json] [--print]

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { readLast, readRun } from "./harness/results.mjs";
import { busyShard, canPlan, FILL, planFleets, scriptCost } from "./load/fleet.mjs";
import { besideVerdictOf, verdictOf } from "./load/screen.mjs";

const DOC = resolve(import.meta.dirname, "../docs/performance.md");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { print: { type: "boolean", default: false } },
});
const run = readRun(positionals[0]);
const blocks = {
  machine: machineText(run),
  figures: figuresText(run),
  beside: besideText(run),
  rest: restText(run),
  // A quick run does not measure Redis at half load, which plans are made of.
  ...(canPlan(run.results) ? { thumb: thumbText(run), fleet: fleetText(run) } : {}),
};
if (blocks.fleet === undefined) process.stderr.write("not a whole run: rules of thumb and fleets stay as they are\n");

if (values.print) {
  for (const [name, text] of Object.entries(blocks)) process.stdout.write(`\n${name}\n\n${text}\n`);
} else {
  let doc = readFileSync(DOC, "utf8");
  for (const [name, text] of Object.entries(blocks)) doc = replaced(doc, name, text);
  writeFileSync(DOC, doc);
  execFileSync(process.execPath, [resolve(import.meta.dirname, "chart.mjs"), ...positionals], { stdio: "inherit" });
  process.stdout.write("written to docs/performance.md\n");
}

function replaced(doc, name, text) {
  const [begin, end] = [`<!-- ${name}: bench/report.mjs -->`, `<!-- end of ${name} -->`];
  const from = doc.indexOf(begin);
  const to = doc.indexOf(end);
  if (from < 0 || to < from) throw new Error(`docs/performance.md has no place for ${name}: ${begin} ... ${end}`);
  return `${doc.slice(0, from + begin.length)}\n${text}\n${doc.slice(to)}`;
}

function machineText({ command, date, machine, results }) {
  const { rounds, seconds, busy, pinned } = results;
  return [
    `\`${command}\`, ${rounds} rounds of ${seconds} s, on ${date.slice(0, 10)} at commit ${machine.commit}: ${machine.cpu}, ${machine.cores} cores,`,
    `Node ${machine.node.replace("v", "")}, Redis ${machine.redis}, h2load ${machine.h2load}; load ${busy.before.load1} before, ${busy.after.load1} after; ${pinned ? "servers and load on cores of their own" : "cores not pinned"}.`,
  ].join("\n");
}

function figuresText({ results }) {
  return table(
    [
      "shape",
      "yardstick/s",
      "Headgate/s",
      "ratio (spread)",
      "goal",
      "us of CPU per call: yardstick, Headgate, Redis",
      "CPU ratio",
    ],
    results.shapes.map((row) => [
      row.name,
      row.yardstickPerSecond.toLocaleString("en"),
      row.perSecond.toLocaleString("en"),
      `${row.ratio.toFixed(1)} (${row.ratioLeast.toFixed(1)}-${row.ratioMost.toFixed(1)})`,
      row.goal === undefined ? "" : `${row.goal}: ${verdictOf(row)}`,
      [row.yardstickCpuMicros, row.cpuMicros, ...(row.redis ? [row.redis.cpuMicros] : [])]
        .map((micros) => micros.toFixed(1))
        .join(", "),
      row.cpuRatio.toFixed(1),
    ]),
  );
}

function besideText({ results }) {
  if ((results.besides ?? []).length === 0) return "Not part of this run.";
  return table(
    ["shape", "what", "stand-in", "Headgate", "ratio (spread)", "goal"],
    results.besides.map((row) => [
      row.name,
      row.what,
      `${row.others.toFixed(1)} (${row.standIn})`,
      row.own.toFixed(1),
      `${row.ratio.toFixed(2)} (${row.ratioLeast.toFixed(2)}-${row.ratioMost.toFixed(2)})`,
      row.goalMost === undefined ? "" : `at most ${row.goalMost}: ${besideVerdictOf(row)}`,
    ]),
  );
}

function restText({ results }) {
  const { ruleCounts, tails = [], takes = [] } = results;
  const rows = tails.map(
    ({
      name,
      rate,
      p50Ms,
      p99Ms,
      p99MsLeast,
      p99MsMost,
      p999Ms,
      goalMs,
      cpuMicros,
      sentP99Ms,
      emptySentP99Ms,
      ownLateP99Ms,
    }) => [
      `${name}, ${rate.toLocaleString("en")} calls/s: p50, p99 (spread), p99.9`,
      `${p50Ms.toFixed(2)}, ${p99Ms.toFixed(2)} (${p99MsLeast.toFixed(2)}-${p99MsMost.toFixed(2)}), ${p999Ms.toFixed(2)} ms; p99 from sending ${sentP99Ms?.toFixed(2) ?? "-"} ms${emptySentP99Ms === undefined ? "" : `, ${emptySentP99Ms.toFixed(2)} with a handler that does nothing`}; the caller late by ${ownLateP99Ms.toFixed(2)} ms at p99; ${cpuMicros.toFixed(1)} us of CPU per call, ${Math.round((cpuMicros * rate) / 1e4)} % of the core`,
      goalMs === undefined ? "" : `p99 from sending below ${goalMs} ms: ${sentP99Ms < goalMs ? "met" : "MISSED"}`,
    ],
  );
  if (ruleCounts !== undefined) {
    const { few, many, growth, growthLeast, growthMost, goalMost } = ruleCounts;
    const goal = `at most ${goalMost}: ${growth <= goalMost ? "met" : "MISSED"}`;
    rows.push([
      `CPU per call with ${many} as a multiple of ${few}`,
      `${growth.toFixed(2)} (${growthLeast.toFixed(2)}-${growthMost.toFixed(2)})`,
      goal,
    ]);
  }
  for (const { what, value, unit, goal } of takes)
    rows.push([
      what,
      `${value.toFixed(2)} ${unit}`,
      goal === undefined ? "" : `at most ${goal}: ${value <= goal ? "met" : "MISSED"}`,
    ]);
  return table(["what", "measured", "goal"], rows);
}

// What docs/cores.md sizes by, rounded so that nobody takes it for more than it is.
function thumbText({ results }) {
  const shapeOf = (name) => results.shapes.find((shape) => shape.name === name);
  const exact = shapeOf("Redis, exact, 10,000 keys");
  const half = results.tails.find(({ name }) => name === exact.name);
  const redisCost = readLast("redis-cost").results;
  const [alone] = redisCost;
  const { perCall, perTake } = scriptCost(redisCost);
  const { dear, share } = busyShard(redisCost);
  const thousands = (perSecond) => `${Math.floor(perSecond / 1_000).toLocaleString("en")},000`;
  const perShard = (micros) => thousands((1e6 * FILL.shard) / micros);
  const processes = ["memory, hot key", exact.name, "Redis, hot key, lease", "Redis, hot key, refused"];
  return table(
    ["for", "plan with"],
    [
      ...processes.map((name) => [
        `a process: ${name}`,
        `${thousands(shapeOf(name).perSecond * FILL.process)} decisions/s`,
      ]),
      [
        `${FILL.shard * 100} % of a Redis core`,
        `${perShard(exact.redis.cpuMicros)} takes/s at full load (${exact.redis.cpuMicros.toFixed(1)} us each), ${perShard(half.redis.cpuMicros)} at half (${half.redis.cpuMicros.toFixed(1)} us), ${perShard(dear)} with takes alone (${dear.toFixed(1)} us)`,
      ],
      [
        "Redis's CPU",
        `${perCall.toFixed(0)} us for a script call, ${perTake.toFixed(1)} us per take in it (\`node bench/store/redis-cost.mjs\`: 64 processes, Redis ${Math.round(share * 100)} % busy)`,
      ],
      [
        "a call with one short descriptor",
        `${Math.round(exact.bytesSentPerCall)} bytes to Headgate, ${Math.round(exact.bytesReadPerCall)} back; TCP and IP add some 66 per segment`,
      ],
      [
        "an exact take",
        `${Math.round(exact.redis.bytesIn)} bytes to Redis, ${Math.round(exact.redis.bytesOut)} back, ${alone["bytes to Redis"]} and ${alone["bytes back"]} alone (Redis's count)`,
      ],
    ],
  );
}

function fleetText({ results }) {
  const rows = planFleets(results, readLast("redis-cost").results);
  return table(
    [
      "decisions/s",
      "mix",
      `processes (filled to ${FILL.process * 100} %)`,
      `Redis shards (to ${FILL.shard * 100} %)`,
      "takes per Redis call",
      "MB/s with callers",
      "MB/s with Redis",
    ],
    rows.map(({ rate, name, processes, shards, together, callerBytes, redisBytes }) => [
      rate.toLocaleString("en"),
      name,
      processes,
      shards,
      shards === 0 ? "" : together.toFixed(1),
      megabytes(callerBytes),
      megabytes(redisBytes),
    ]),
  );
}

function megabytes(bytes) {
  return bytes < 1e7 ? (bytes / 1e6).toFixed(1) : Math.round(bytes / 1e6).toLocaleString("en");
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}
