// Text that is made to be costly to read as YAML: little of it holds the event loop for long, and none ends the process, which
// is what V8 does if a regular expression is compiled with little stack left.

import { expect, test } from "vitest";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { parseHere } from "../../../../src/rule-sources/files/parse-in-thread.ts";
import { DEPTH_MAX } from "../../../../src/rule-sources/files/yaml-tree.ts";
import { BusyWatch, onThisMachine } from "../../../support/turn-watch.ts";

/** As much as is parsed in the thread that answers calls (rule-sources/files/parse-in-thread.ts). */
const INLINE_BYTES = 1_024;
const TURN_MS_MAX = 50;

/** What text repeats, and whether that nests. */
const PIECES = [
  ..."[ { ] } , : - ? & * ! | > ' \" % @ # ~ \n".split(" "),
  ...[
    "- ",
    "? ",
    ": ",
    "[a,",
    "{a: ",
    "a: {",
    "[ ",
    "[\n",
    "[]",
    "[,",
    "{,",
    "!!x ",
    "&a ",
    "*a ",
    "<<: ",
    "'a' ",
    "a: ",
    "a\n",
  ],
  ...[
    "- a\n",
    "a:\n",
    "-\n",
    "---\n",
    "...\n",
    "|\n",
    ">\n",
    " \t",
    "#\n",
    "%a\n",
    "\n",
    "\r",
    "\u00e9",
    "? - ",
    "- ? ",
    "&a [",
    "!!a {",
  ],
];
const CASES = [...new Set(PIECES)].map((piece) => ({ shown: JSON.stringify(piece), piece }));

const ofSize = (piece: string, bytes: number): Buffer =>
  Buffer.from(piece.repeat(Math.ceil(bytes / Buffer.byteLength(piece)))).subarray(0, bytes);

// Promise(turns): Rule files made to be costly hold the event loop for less than 50 ms, and none ends the process.
test.each(CASES)("text of nothing but $shown is read or refused, in short time if it is short", ({ piece }) => {
  parseFile({ name: "warm", bytes: ofSize(piece, 64) });
  let leastMs = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 3 && leastMs >= TURN_MS_MAX; tries++) {
    const busy = new BusyWatch();
    parseFile({ name: "short", bytes: ofSize(piece, INLINE_BYTES) });
    leastMs = Math.min(leastMs, busy.ms());
  }
  expect(leastMs).toBeLessThan(onThisMachine(TURN_MS_MAX, leastMs));
  parseFile({ name: "long", bytes: ofSize(piece, 4 * INLINE_BYTES) });
});

test("aliases stay one node on their way between threads, so that they grow no larger than they were", () => {
  const [file] = parseHere([{ name: "a.yaml", bytes: Buffer.from("a: &x {b: [1, no, ~, 2.5]}\nc: *x\n") }]);
  const entries = file?.root?.kind === "mapping" ? file.root.entries : [];
  expect(entries).toHaveLength(2);
  expect(entries[0]?.value).toBe(entries[1]?.value);
});

test.each([
  { name: "brackets", open: "[", close: "]" },
  { name: "braces", open: "{a: ", close: "}" },
  { name: "lists", open: "- ", close: "" },
])("$name may lie in each other as deep as is said, and no deeper", ({ open, close }) => {
  const problemsAt = (depth: number) =>
    parseFile({ name: "deep", bytes: Buffer.from(`${open.repeat(depth)}x${close.repeat(depth)}`) }).problems;
  expect(problemsAt(DEPTH_MAX)).toEqual([]);
  for (const depth of [DEPTH_MAX + 1, DEPTH_MAX + 2, 3 * DEPTH_MAX, 20_000]) {
    expect(problemsAt(depth)[0]?.message).toContain(`nested deeper than ${DEPTH_MAX} levels`);
  }
});
