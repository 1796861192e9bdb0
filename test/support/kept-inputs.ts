// Inputs that a fuzzer found: they run before anything generated.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Inputs that failed once, by name: the files of test/fuzz/kept/`kind`, as bytes. */
export function keptInputs(kind: "http" | "rules"): readonly { readonly name: string; readonly bytes: Buffer }[] {
  const folder = fileURLToPath(new URL(`../fuzz/kept/${kind}`, import.meta.url));
  return readdirSync(folder)
    .toSorted()
    .map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}
