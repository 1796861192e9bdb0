// Projects outside of the repository that install our packages from the files that `npm pack` makes, as callers do.

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { temporaryFolder } from "./temporary-folder.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Packs what is built in a folder of the repository; resolves to the file. */
export function packed(folder: string): string {
  const out = temporaryFolder("headgate-packed");
  const npm = ["pack", "--ignore-scripts", "--json", "--pack-destination", out];
  const said = execFileSync("npm", npm, { cwd: join(ROOT, folder), stdio: ["ignore", "pipe", "ignore"] });
  const [pack] = JSON.parse(said.toString()) as [{ readonly filename: string }];
  return join(out, pack.filename);
}

/** A new project with the packages and all that they need; no install script runs. */
export function projectWith(...packageFiles: readonly string[]): string {
  const folder = temporaryFolder("headgate-stranger");
  writeFileSync(join(folder, "package.json"), '{ "private": true }');
  const npm = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", ...packageFiles];
  execFileSync("npm", npm, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  return folder;
}

/** What the compiler of the repository says of files in a project; "" if all is well. Library types are checked, too. */
export function complaintsAbout(folder: string, files: readonly string[], options: Record<string, unknown>): string {
  const compilerOptions = {
    strict: true,
    noEmit: true,
    target: "ES2022",
    types: [],
    skipLibCheck: false,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    ...options,
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
  try {
    execFileSync(join(ROOT, "node_modules/.bin/tsc"), ["--pretty", "false"], { cwd: folder, stdio: "pipe" });
    return "";
  } catch (error) {
    return String((error as { stdout?: unknown }).stdout);
  }
}
