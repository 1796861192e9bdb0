// Makes mistakes in a copy of the code, one at a time, and sees whether the tests that run the function find them. What survives is printed as
// a difference, with what ran. By command only: each mistake takes some seconds, and a survivor as long as all its tests.
//
//   npm run mutate -- --seed 7 --count 20 [--from 0] [--wide] [--files src/engine/algorithms]
//
// The same seed makes the same mistakes of the same code; `--from` goes on behind so many of them, `--wide` leaves out no
// test that runs the function. What each test file reaches is recorded
// once, in .cache/mutation; delete it when tests have changed much.

import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { draw, random } from "./mistakes.mjs";
import { Tests } from "./tests.mjs";

const ROOT = resolve(import.meta.dirname, "../..");
const AREAS = [
  "src/engine/algorithms",
  "src/engine/limiter",
  "src/engine/rules/match.ts",
  "src/engine/rules/bucket-key.ts",
  "src/engine/rules/cidr.ts",
  "src/engine/rules/address",
  "src/engine/rules/priority.ts",
  "src/engine/rules/rule-set.ts",
  "src/engine/rules/tiers.ts",
  "src/engine/rules/cost.ts",
  "src/engine/runtime",
  "src/stores/batching",
  "src/stores/denials",
  "src/stores/sync",
  "src/grpc/rls/codec.ts",
  "lua",
];

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    count: { type: "string", default: "20" },
    from: { type: "string", default: "0" },
    wide: { type: "boolean", default: false },
    files: { type: "string", multiple: true },
  },
});
const seed = Number(values.seed ?? Date.now() % 100_000);
const from = Number(values.from);
process.env.TEST_TIMES ??= "0.3";
process.env.CI ??= "mutation";
const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
const areas = values.files ?? AREAS;
const files = tracked.filter((file) => /\.(?:ts|lua)$/.test(file) && areas.some((area) => file.startsWith(area)));
if (files.length === 0) throw new Error(`--files: expected the beginning of a path of code, got ${areas.join(" ")}`);
const mistakes = (await draw(ROOT, files, from + Number(values.count), random(seed))).slice(from);
console.log(`seed ${seed}: ${mistakes.length} mistakes in ${files.length} files`);

const copy = realpathSync(mkdtempSync(join(tmpdir(), "headgate-mutation-")));
process.on("exit", () => rmSync(copy, { recursive: true, force: true }));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
for (const file of tracked) {
  mkdirSync(dirname(join(copy, file)), { recursive: true });
  cpSync(join(ROOT, file), join(copy, file), { verbatimSymlinks: true });
}
for (const shared of ["node_modules", ".cache", "dist"]) symlinkSync(join(ROOT, shared), join(copy, shared));
process.chdir(copy);
const tests = new Tests(copy, join(ROOT, ".cache/mutation"), values.wide);
await tests.start();
for (const isLua of [false, true]) {
  const mistake = mistakes.find(({ file }) => file.endsWith(".lua") === isLua);
  if (mistake === undefined) continue;
  const { by } = await tests.find(mistake, readFileSync(join(copy, mistake.file), "utf8"));
  if (by !== undefined) throw new Error(`expected tests that pass without a mistake, and ${by} fails`);
}
let found = 0;
for (const [number, mistake] of mistakes.entries()) {
  const { file, at, was, by: wrong } = mistake;
  const text = readFileSync(join(copy, file), "utf8");
  writeFileSync(join(copy, file), text.split("\n").with(at, wrong).join("\n"));
  const { by, ran } = await tests.find(mistake, text);
  writeFileSync(join(copy, file), text);
  if (by !== undefined) found++;
  else
    console.log(
      `\n${from + number}: ${file}:${at + 1}, ${ran} files of tests ran, none found it\n- ${was.trim()}\n+ ${wrong.trim()}`,
    );
  if (process.env.MUTATE_VERBOSE)
    console.log(new Date().toISOString().slice(11, 19), from + number, by, ran, `${file}:${at + 1}`);
}
await tests.close();
process.chdir(ROOT);
console.log(`\n${found} of ${mistakes.length} found`);
