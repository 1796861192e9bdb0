// Finds runs among bench/results.

import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

const FOLDER = resolve(import.meta.dirname, "../results");

/** The run in `file`, or the last whole one of bench:load (quick ones after those that are not). */
export function readRun(file) {
  const runs = file === undefined ? ["bench", "bench-quick"].map(lastOf) : [file];
  const found = runs.find((name) => name !== undefined);
  if (found === undefined) throw new Error("there is no run of bench:load in bench/results yet: npm run bench:load");
  const run = JSON.parse(readFileSync(found, "utf8"));
  if (!Array.isArray(run.results?.shapes)) throw new Error(`${found} is not a run of bench:load`);
  return run;
}

/** The last results of this name. */
export function readLast(name) {
  const file = lastOf(name);
  if (file === undefined) throw new Error(`there are no results of ${name} in bench/results yet`);
  return JSON.parse(readFileSync(file, "utf8"));
}

function lastOf(name) {
  const files = readdirSync(FOLDER).filter(
    (file) => /^\d{4}-\d\d-\d\d-/.test(file) && file.slice(11) === `${name}.json`,
  );
  const last = files.sort().at(-1);
  return last === undefined ? undefined : join(FOLDER, last);
}
