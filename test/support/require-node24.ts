// Runs once before the tests that start several workers: finds a Node that hands connections to threads, or installs Node 24 from
// the package in test/node24.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";

const FOLDER = resolve(import.meta.dirname, "../node24");
const INSTALLED = resolve(FOLDER, `node_modules/node-${process.platform}-${process.arch}/bin/node`);

/** Whether the tests themselves run in Node 24 or a newer one. */
export const RUNS_NODE_24 = Number(process.versions.node.split(".")[0]) >= 24;

/** The Node that runs several workers: the one that runs the tests, if it can. */
export const NODE_24 = RUNS_NODE_24 ? process.execPath : INSTALLED;

/** Vitest's hook. Throws a plain sentence when there is no Node 24 and none to be had. */
export default function requireNode24(): void {
  if (existsSync(NODE_24)) return;
  const { stderr } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: FOLDER, encoding: "utf8" });
  if (existsSync(NODE_24)) return;
  const said = (stderr ?? "").trim().split("\n").pop() || `it has none for ${process.platform} ${process.arch}`;
  throw new Error(
    `The tests of several workers need Node 24, and \`npm ci\` in test/node24 failed: ${said}. Run the tests with Node 24, or install it there.`,
  );
}
