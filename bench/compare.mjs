// Says what got slower between two runs of bench:load: `npm run bench:compare -- A.json B.json`. A is the older one.
// Ratios to the yardstick are compared, not calls per second, so that the runs may come from machines or hours that differ;
// of shapes that Envoy sends, ratios of CPU time, because the rest is Envoy's.
// Ends with 1 if a shape got slower by more than both runs' rounds differ among themselves, with 2 if there is nothing to
// compare.

import { readFileSync } from "node:fs";
import { printTable } from "./harness/report.mjs";

try {
  process.exitCode = compareFiles(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}

function compareFiles(files) {
  if (files.length !== 2) throw new Error("usage: npm run bench:compare -- A.json B.json");
  const [older, newer] = files.map(read);
  const rows = newer.shapes.flatMap((now) => {
    const then = older.shapes.find(({ name }) => name === now.name);
    return then === undefined ? [] : [compare(then, now)];
  });
  if (rows.length === 0) throw new Error("the runs have no shape in common");
  const of = ({ machine, date, busy }) => `${machine.commit} (${date.slice(0, 16)}, load ${busy.before.load1})`;
  printTable(`${of(older)} beside ${of(newer)}`, rows);
  const slower = rows.filter(({ verdict }) => verdict === "SLOWER");
  process.stdout.write(`\n${slower.length} of ${rows.length} shapes slower than the rounds differ\n`);
  return slower.length > 0 ? 1 : 0;
}

function compare(then, now) {
  const field = now.by === "envoy" ? "cpuRatio" : "ratio";
  const [before, after] = [then, now].map((row) => ({
    at: row[field],
    least: row[`${field}Least`],
    most: row[`${field}Most`],
  }));
  // Slower or quicker is what lies outside of all rounds of the other run.
  const isApart = after.most < before.least || after.least > before.most;
  const change = after.at / before.at - 1;
  return {
    shape: now.name,
    older: before.at.toFixed(1),
    newer: after.at.toFixed(1),
    change: `${change >= 0 ? "+" : ""}${(change * 100).toFixed(0)} %`,
    verdict: isApart ? (change < 0 ? "SLOWER" : "quicker") : "within the spread",
  };
}

function read(file) {
  const { machine, date, results } = JSON.parse(readFileSync(file, "utf8"));
  if (!Array.isArray(results?.shapes)) throw new Error(`${file} is not a run of bench:load`);
  return { machine, date, ...results };
}
