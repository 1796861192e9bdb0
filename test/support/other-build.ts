// Another commit of this repository, unpacked for tests that run two versions beside each other.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "../..");
/** Below the root, so that what is unpacked finds the packages of this checkout. */
const BUILDS = join(ROOT, ".cache/other-builds");

/** The folder that holds the commit's files; unpacked when first asked for, and kept. NeededBursts the repository's history. */
export function otherBuild(commit: string): string {
  const folder = join(BUILDS, commit);
  if (existsSync(folder)) return folder;
  mkdirSync(BUILDS, { recursive: true });
  const unpacked = mkdtempSync(join(BUILDS, "unpacking-"));
  try {
    const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 28 });
    execFileSync("tar", ["x", "-C", unpacked], { input: archive });
    renameSync(unpacked, folder);
  } catch (error) {
    rmSync(unpacked, { recursive: true, force: true });
    // Another test may have been quicker.
    if (!existsSync(folder)) throw error;
  }
  return folder;
}
