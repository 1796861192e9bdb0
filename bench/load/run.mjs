// `npm run bench:load`: every shape of shapes.mjs on the yardstick and on the service in turn, several rounds, as ratios, with
// the goals beside them; then what stores are asked for beside other ways to ask them, what 10,000 rules cost beside 10, the tail at half of the load that saturates, and the two
// goals of the memory store.
//   node bench/load/run.mjs [--quick] [--rounds 3] [--seconds 2] [--only TEXT] [--no-tail] [--profile] [--name NAME]
// --quick measures only what has a goal, in less than two minutes, on servers that it keeps. --profile has node write CPU profiles
// of the servers to .cache/profiles; docs/performance.md says how to read them. --name is part of the name of the results.

import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { parseArgs, promisify } from "node:util";
import { isPinned } from "../harness/pin.mjs";
import { busyness, progress, tell, writeResults } from "../harness/report.mjs";
import { requireProgram } from "../harness/require-program.mjs";
import { measureBeside } from "./beside.mjs";
import { measureRuleCounts, measureShape } from "./measure.mjs";
import { besideLine, showRest, showShapes, verdictOf } from "./screen.mjs";
import { Servers } from "./servers.mjs";
import { BESIDE, SHAPES, TAILS } from "./shapes.mjs";
import { measureTail } from "./tail.mjs";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    seconds: { type: "string" },
    only: { type: "string", default: "" },
    "no-tail": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    name: { type: "string" },
  },
});
const rounds = Number(values.rounds ?? 3);
const seconds = Number(values.seconds ?? (values.quick ? 1 : 2));
const shapes = SHAPES.filter(({ name, goal }) => name.includes(values.only) && (!values.quick || goal !== undefined));
const besides = BESIDE.filter(({ name }) => name.includes(values.only) && !values.quick);
const isWhole = values.only === "" && !values["no-tail"];

requireProgram("h2load");
if ([...shapes, ...besides].some(({ store }) => store === "redis" || store === "cluster"))
  requireProgram("redis-server");

const before = busyness();
const startMs = performance.now();
const servers = new Servers({ isKept: values.quick, profile: values.profile });
const keptServers = new Servers({ isKept: true });
const found = { shapes: [], besides: [], tails: [] };
try {
  for (const shape of shapes) {
    const row = await measureShape(shape, { servers, rounds, seconds });
    found.shapes.push(row);
    const goal = row.goal === undefined ? "" : `, goal ${row.goal}: ${verdictOf(row)}`;
    tell(`${found.shapes.length} of ${shapes.length}: ${row.name}: ${row.ratio.toFixed(1)} times the yardstick${goal}`);
  }
  for (const shape of besides) {
    const rows = await measureBeside(shape, { servers, rounds, seconds });
    found.besides.push(...rows);
    for (const row of rows) tell(besideLine(row));
  }
  if (isWhole && !values.quick) found.ruleCounts = await measureRuleCounts({ servers: keptServers, seconds: 1 });
  const tails = TAILS.filter(
    ({ name, goalMs }) => !values["no-tail"] && name.includes(values.only) && (!values.quick || goalMs !== undefined),
  );
  for (const shape of tails) found.tails.push(await measureTail(shape, { servers, rounds, seconds }));
} finally {
  progress("");
  await Promise.all([servers.stop(), keptServers.stop()]);
}
if (isWhole) found.takes = await measureTakes();

const pin = isPinned() ? "one core for the server, one for the load" : "cores not pinned";
showShapes(
  `Calls per second beside an empty grpc-js handler, ${rounds} rounds of ${seconds} s, ${pin}; load on the machine ${before.load1} of ${before.cores} cores before the start`,
  found.shapes,
);
showRest(found);
const command = `node bench/load/run.mjs ${process.argv.slice(2).join(" ")}`.trim();
const kind = values.quick ? "bench-quick" : "bench";
const name = values.name ?? (values.only === "" ? kind : `${kind}-${values.only.replaceAll(/[^a-z0-9]+/gi, "-")}`);
const took = Math.round((performance.now() - startMs) / 1_000);
const file = writeResults(name, command, {
  rounds,
  seconds,
  pinned: isPinned(),
  took,
  busy: { before, after: busyness() },
  ...found,
});
process.stdout.write(`\n${took} s; written to ${file.slice(file.indexOf("bench/"))}\n`);

// In a process of its own: what it measures is the memory of the process.
async function measureTakes() {
  progress("memory store: a million buckets, two million new keys");
  const program = resolve(import.meta.dirname, "../micro/take.mjs");
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", program, "--goals", "--json"]);
  progress("");
  return JSON.parse(stdout);
}
