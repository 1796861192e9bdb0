// Says what got slower between two runs of bench:load: `npm run bench:compare -- A.json B.json`. A is the older one.
// Ratios to the yardstick are compared, not calls per second, so that the runs may come from machines or hours that differ.
// Ends with 1 if a shape got slower by more than both runs' rounds differ among themselves.

import { readFileSync } from "node:fs";
import { printTable } from "./harness/report.mjs";

const [older, newer] = process.argv.slice(2).map(read);
if (older === undefined || newer === undefined) throw new Error("usage: npm run bench:compare -- A.json B.json");

const rows = newer.shapes.flatMap((now) => {
  const then = older.shapes.find(({ name }) => name === now.name);
  return then === undefined ? [] : [compare(then, now)];
});
const of = ({ machine, date, busy }) => `${machine.commit} (${date.slice(0, 16)}, load ${busy.before.load1})`;
printTable(`${of(older)} beside ${of(newer)}`, rows);
if (rows.length === 0) process.stdout.write("the runs have no shape in common\n");
process.exitCode = rows.some(({ verdict }) => verdict === "SLOWER") ? 1 : 0;

function compare(then, now) {
  // Slower or quicker is what lies outside of all rounds of the other run.
  const isApart = now.ratioMost < then.ratioLeast || now.ratioLeast > then.ratioMost;
  const change = now.ratio / then.ratio - 1;
  return {
    shape: now.name,
    older: then.ratio.toFixed(1),
    newer: now.ratio.toFixed(1),
    change: `${change >= 0 ? "+" : ""}${(change * 100).toFixed(0)} %`,
    verdict: isApart ? (change < 0 ? "SLOWER" : "quicker") : "within the spread",
  };
}

function read(file) {
  const { machine, date, results } = JSON.parse(readFileSync(file, "utf8"));
  if (!Array.isArray(results.shapes)) throw new Error(`${file} is not a run of bench:load`);
  return { machine, date, ...results };
}
