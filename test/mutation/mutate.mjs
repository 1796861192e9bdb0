// Makes mistakes in a copy of the code, one at a time, and sees whether the tests that import the file find them. What survives is printed as a
// difference, with what ran. By command only: each mistake takes as long as those tests.
//
//   npm run mutate -- --seed 7 --count 20 [--files src/engine/algorithms]
//
// The same seed makes the same mistakes of the same code.

import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");
const AREAS = [
  "src/engine/algorithms",
  "src/engine/limiter",
  "src/engine/rules",
  "src/engine/runtime",
  "src/stores/batching",
  "src/stores/denials",
  "src/stores/memory",
  "src/stores/sync",
  "src/grpc/rls",
  "lua",
];
/** A mistake that makes a loop endless counts as found. */
const RUN_MS_MAX = 300_000;

/** What stands in a line, and what takes its place. In Lua words differ; the rest fits both. */
const SWAPS = [
  [" < ", " <= "],
  [" <= ", " < "],
  [" > ", " >= "],
  [" >= ", " > "],
  [" === ", " !== "],
  [" !== ", " === "],
  [" == ", " ~= "],
  [" ~= ", " == "],
  [" && ", " || "],
  [" || ", " && "],
  [" and ", " or "],
  [" or ", " and "],
  [" + ", " - "],
  [" - ", " + "],
  [" * ", " / "],
  [" += ", " -= "],
  [" -= ", " += "],
  [" ?? ", " && "],
  ["Math.floor(", "Math.ceil("],
  ["Math.ceil(", "Math.floor("],
  ["Math.min(", "Math.max("],
  ["Math.max(", "Math.min("],
  ["divideDown(", "divideUp("],
  ["divideUp(", "divideDown("],
  ["true", "false"],
  ["false", "true"],
];
const NOT_CODE = /^\s*(?:\/\/|\/?\*|--|import\b|export (?:type|interface)\b|readonly\b|[}\])]|$)/;
const STATEMENT = /^\s*(?:this\.|[a-z]\w*(?:\.|\[|\())[^{}]*[;)]$/;

/** Every mistake that can be made in a line. */
function mistakesIn(line) {
  if (NOT_CODE.test(line)) return [];
  const code = line.replace(/\s*(?:\/\/|--).*$/, "");
  const mistakes = [];
  for (const [text, by] of SWAPS) {
    for (let at = code.indexOf(text); at >= 0; at = code.indexOf(text, at + 1))
      mistakes.push(code.slice(0, at) + by + code.slice(at + text.length));
  }
  for (const { 0: number, index } of code.matchAll(/(?<![\w."'])\d[\d_]*(?![\w."'])/g))
    mistakes.push(code.slice(0, index) + (Number(number.replaceAll("_", "")) + 1) + code.slice(index + number.length));
  const condition = /^(\s*(?:\} else )?if \()(.*)(\)(?: \{| [^)]*;)?)$/.exec(code);
  if (condition !== null)
    for (const value of ["true", "false"])
      mistakes.push(`${condition[1]}${value} || ${condition[2]}${condition[3]}`.replace("false || ", "false && "));
  if (STATEMENT.test(code)) mistakes.push(code.replace(/\S.*/, ""));
  return mistakes;
}

function random(seed) {
  let state = seed >>> 0;
  return (end) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

function draw(files, count, chance) {
  const drawn = [];
  const seen = new Set();
  for (let tries = 0; drawn.length < count && tries < count * 1_000; tries++) {
    const file = files[chance(files.length)];
    const lines = readFileSync(join(ROOT, file), "utf8").split("\n");
    const at = chance(lines.length);
    const mistakes = mistakesIn(lines[at]);
    if (mistakes.length === 0) continue;
    const by = mistakes[chance(mistakes.length)];
    if (seen.has(`${file}:${at}:${by}`)) continue;
    seen.add(`${file}:${at}:${by}`);
    drawn.push({ file, at, was: lines[at], by });
  }
  return drawn;
}

/** The tests that can find a mistake in the file; exit code 0: none did. */
function runTests(copy, file) {
  const how = file.startsWith("lua/")
    ? ["run", "--project", "servers", "test/lua", "test/contract", "test/property"]
    : ["related", file, "--run", "--project", "unit"];
  const { status, stdout } = spawnSync("npx", ["vitest", ...how, "--bail=1", "--reporter=json"], {
    cwd: copy,
    encoding: "utf8",
    timeout: RUN_MS_MAX,
    maxBuffer: 1 << 28,
    env: { ...process.env, TEST_TIMES: process.env.TEST_TIMES ?? "0.3" },
  });
  const ran = /"numTotalTestSuites":(\d+),.*?"numTotalTests":(\d+)/.exec(stdout);
  return { isFound: status !== 0, tests: Number(ran?.[2] ?? 0) };
}

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    count: { type: "string", default: "20" },
    files: { type: "string", multiple: true },
  },
});
const seed = Number(values.seed ?? Date.now() % 100_000);
const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
const areas = values.files ?? AREAS;
const files = tracked.filter((file) => /\.(?:ts|lua)$/.test(file) && areas.some((area) => file.startsWith(area)));
if (files.length === 0) throw new Error(`--files: expected the beginning of a path of code, got ${areas.join(" ")}`);
const mistakes = draw(files, Number(values.count), random(seed));
console.log(`seed ${seed}: ${mistakes.length} mistakes in ${files.length} files`);

const copy = mkdtempSync(join(tmpdir(), "headgate-mutation-"));
let found = 0;
try {
  for (const file of tracked) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(ROOT, file), join(copy, file), { verbatimSymlinks: true });
  }
  for (const shared of ["node_modules", ".cache", "dist"]) symlinkSync(join(ROOT, shared), join(copy, shared));
  if (mistakes.length > 0 && runTests(copy, mistakes[0].file).isFound)
    throw new Error("expected tests that pass without a mistake");
  for (const { file, at, was, by } of mistakes) {
    const text = readFileSync(join(copy, file), "utf8");
    writeFileSync(join(copy, file), text.split("\n").with(at, by).join("\n"));
    const { isFound, tests } = runTests(copy, file);
    writeFileSync(join(copy, file), text);
    if (isFound) found++;
    else console.log(`\n${file}:${at + 1}, ${tests} tests ran, none found it\n- ${was.trim()}\n+ ${by.trim()}`);
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
console.log(`\n${found} of ${mistakes.length} found`);
