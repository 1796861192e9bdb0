// How much the fuzzers do: little at each run of the tests, more by FUZZ_TIMES (`npm run fuzz`).

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const FACTOR = Number(process.env.FUZZ_TIMES ?? 1);

/** `usual` runs, times FUZZ_TIMES. */
export function fuzzRuns(usual: number): number {
  return Math.max(1, Math.round(usual * (Number.isFinite(FACTOR) && FACTOR > 0 ? FACTOR : 1)));
}

/** How long a test may take that takes `usualMs` at most on a slow machine. */
export function fuzzMs(usualMs: number): number {
  return usualMs * Math.max(1, FACTOR);
}

/** Inputs that failed once, by name: the files of test/fuzz/kept/`kind`, as bytes. They run before anything generated. */
export function keptInputs(kind: "http" | "rules"): readonly { readonly name: string; readonly bytes: Buffer }[] {
  const folder = fileURLToPath(new URL(`../fuzz/kept/${kind}`, import.meta.url));
  return readdirSync(folder)
    .toSorted()
    .map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}
