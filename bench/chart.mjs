// Draws a run of bench:load as docs/performance.svg: one bar per shape, a line through it from its least to its most round,
// and a mark at its goal.
//   node bench/chart.mjs bench/results/DATE-bench.json

import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

const WIDTH = 860;
const ROW = 26;
const LEFT = 380;
const TOP = 58;
const RIGHT = 50;

const file = process.argv[2];
if (file === undefined) throw new Error("usage: node bench/chart.mjs bench/results/DATE-bench.json");
const { machine, date, results } = JSON.parse(readFileSync(file, "utf8"));
const most = Math.max(...results.shapes.flatMap(({ ratioMost, goal = 0 }) => [ratioMost, goal]));
const x = (ratio) => Math.round(LEFT + (ratio / most) * (WIDTH - LEFT - RIGHT));
const height = TOP + results.shapes.length * ROW + 24;

const bars = results.shapes.map(({ name, ratio, ratioLeast, ratioMost, goal }, i) => {
  const y = TOP + i * ROW;
  const middle = y + 9;
  const color = goal === undefined ? "#7a8ba6" : ratio >= goal ? "#2f7d5b" : "#b5533c";
  const mark =
    goal === undefined
      ? ""
      : `<line x1="${x(goal)}" x2="${x(goal)}" y1="${y - 3}" y2="${y + 21}" stroke="#111" stroke-width="2"/>`;
  return [
    `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${escapeText(name)}</text>`,
    `<rect x="${LEFT}" y="${y}" width="${Math.max(1, x(ratio) - LEFT)}" height="18" fill="${color}"/>`,
    `<line x1="${x(ratioLeast)}" x2="${x(ratioMost)}" y1="${middle}" y2="${middle}" stroke="#222"/>${mark}`,
    `<text x="${Math.max(x(ratioMost), x(goal ?? 0)) + 6}" y="${y + 13}">${ratio.toFixed(1)}</text>`,
  ].join("");
});
const { before } = results.busy;
const about = `${machine.cpu}, node ${machine.node}, commit ${machine.commit}, ${date.slice(0, 10)}; load on the machine ${before.load1} of ${before.cores} cores`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="12" y="22" font-size="15">Calls per second on one core, as a multiple of an empty grpc-js handler</text>
<text x="12" y="40" fill="#555">${escapeText(about)}. Thick mark: goal. Thin line: least to most round.</text>
${bars.join("\n")}
</svg>
`;
const target = resolve(import.meta.dirname, "../docs/performance.svg");
writeFileSync(target, svg);
process.stdout.write("written to docs/performance.svg\n");

function escapeText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
