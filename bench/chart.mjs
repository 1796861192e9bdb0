// Draws a run of bench:load as docs/performance.svg: a bar per shape, a line through it from its least to its most round, and
// a mark at its goal. Follows the reader's light or dark scheme.
//   node bench/chart.mjs [bench/results/DATE-bench.json] [--out FILE]

import { writeFileSync } from "node:fs";
import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readRun } from "./harness/results.mjs";
import { verdictOf } from "./load/screen.mjs";

const ROOT = resolve(import.meta.dirname, "..");
const WIDTH = 900;
const ROW = 28;
const BAR = 16;
const LEFT = 384;
const RIGHT = 64;
const TOP = 104;
/** Bars end here, with their number beside them: one shape far out would flatten all others. */
const RATIO_SHOWN_MAX = 24;
const STYLE = `
  .paper { fill: #ffffff } text { fill: #1f2328 } .faint { fill: #59636e } .grid { stroke: #d9dee3 }
  .met { fill: #2f6fb3 } .byCpu { fill: #84aed8 } .missed { fill: #c4622d } .free { fill: #9aa5b1 }
  .spread { stroke: #1f2328; stroke-width: 1.5 } .goal { stroke: #1f2328; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } text { fill: #e6edf3 } .faint { fill: #9198a1 } .grid { stroke: #2b323b }
    .met { fill: #4a8fd6 } .byCpu { fill: #35577d } .missed { fill: #d9773f } .free { fill: #59636e }
    .spread { stroke: #e6edf3 } .goal { stroke: #e6edf3 }
  }`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: "string", default: resolve(ROOT, "docs/performance.svg") } },
});
const run = readRun(positionals[0]);
writeFileSync(values.out, draw(run));
process.stdout.write(`written to ${relative(process.cwd(), values.out)}\n`);

function draw({ machine, date, results }) {
  const rows = results.shapes.map(rowOf);
  const most = Math.min(RATIO_SHOWN_MAX, Math.max(...rows.flatMap(({ most: of, goal = 0 }) => [of, goal])));
  const x = (ratio) => Math.round(LEFT + (Math.min(ratio, most) / most) * (WIDTH - LEFT - RIGHT));
  const height = TOP + rows.length * ROW + 44;
  const { before } = results.busy;
  const about = `${machine.cpu}, ${machine.cores} cores, Node ${machine.node.replace("v", "")}, commit ${machine.commit}, ${date.slice(0, 10)}, load before the start ${before.load1}`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">
<title>Calls per second of Headgate as multiples of an empty grpc-js handler</title>
<style>${STYLE}
</style>
<rect class="paper" width="100%" height="100%" rx="6"/>
<text x="20" y="32" font-size="17" font-weight="600">Decisions per second on one core, as a multiple of an empty grpc-js handler</text>
<text class="faint" x="20" y="53" font-size="12">${escapeText(about)}</text>
${legend()}
${grid(x, most, height)}
${rows.map((row, i) => bar(row, TOP + i * ROW, x)).join("\n")}
</svg>
`;
}

// Of what Envoy sends, the server's CPU time is the figure: the rest is Envoy's.
function rowOf(row) {
  const field = row.by === "envoy" ? "cpuRatio" : "ratio";
  const { name, goal } = row;
  const label = row.by === "envoy" ? `${name} (CPU time)` : name;
  const kind = { met: "met", "met by CPU": "byCpu", MISSED: "missed", "": "free" }[verdictOf(row)];
  return { label, goal, kind, ratio: row[field], least: row[`${field}Least`], most: row[`${field}Most`] };
}

function bar({ label, goal, kind, ratio, least, most }, top, x) {
  const middle = top + BAR / 2;
  const mark = goal === undefined ? "" : line("goal", [x(goal), top - 4, x(goal), top + BAR + 4]);
  const end = Math.max(x(most), x(goal ?? 0));
  return [
    `<text x="${LEFT - 10}" y="${middle + 4.5}" text-anchor="end">${escapeText(label)}</text>`,
    `<rect class="${kind}" x="${LEFT}" y="${top}" width="${Math.max(1, x(ratio) - LEFT)}" height="${BAR}" rx="2"/>`,
    line("spread", [x(least), middle, x(most), middle]),
    mark,
    `<text x="${end + 8}" y="${middle + 4.5}" font-weight="600">${ratio.toFixed(1)}</text>`,
  ].join("");
}

function grid(x, most, height) {
  const ticks = [];
  for (let ratio = 0; ratio <= most; ratio += most > 12 ? 5 : 2) ticks.push(ratio);
  return ticks
    .map(
      (ratio) =>
        line("grid", [x(ratio), TOP - 8, x(ratio), height - 34]) +
        `<text class="faint" x="${x(ratio)}" y="${height - 16}" text-anchor="middle" font-size="12">${ratio === 0 ? "0" : `${ratio}x`}</text>`,
    )
    .join("");
}

function legend() {
  const entries = [
    ["met", "goal met", 92],
    ["byCpu", "met by CPU time", 138],
    ["missed", "missed", 82],
    ["free", "no goal", 88],
  ];
  let at = 20;
  const boxes = entries.map(([kind, text, width]) => {
    const left = at;
    at += width;
    return `<rect class="${kind}" x="${left}" y="67" width="12" height="12" rx="2"/><text class="faint" x="${left + 18}" y="78" font-size="12">${text}</text>`;
  });
  const marks = [
    line("goal", [at + 6, 65, at + 6, 81]),
    `<text class="faint" x="${at + 16}" y="78" font-size="12">goal</text>`,
    line("spread", [at + 58, 73, at + 82, 73]),
    `<text class="faint" x="${at + 90}" y="78" font-size="12">least to most round</text>`,
  ];
  return [...boxes, ...marks].join("");
}

function line(kind, [x1, y1, x2, y2]) {
  return `<line class="${kind}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
}

function escapeText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
