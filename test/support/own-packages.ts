// The packages of the repository: each has sources, tests and a README of its own.

import { readdirSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");

/** Their folders, from the root: "packages/client". */
export const PACKAGES: readonly string[] = readdirSync(join(ROOT, "packages"))
  .toSorted()
  .map((name) => `packages/${name}`);

/** All TypeScript of tests, of the repository and of its packages, from the root. */
export function testSources(): readonly string[] {
  return ["test", ...PACKAGES.map((folder) => `${folder}/test`)].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => `${folder}/${file}`),
  );
}
