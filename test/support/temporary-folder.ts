// The one place where tests get folders from. They go when the test file ends, whatever came of its tests.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const made = new Set<string>();

/** A new folder, empty, below the folder of the run; `name` says what for. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  made.add(folder);
  return folder;
}

/** Removes one before its time. */
export function removeFolder(folder: string): void {
  made.delete(folder);
  rmSync(folder, { recursive: true, force: true });
}

/** Removes all that were made in this process; called by the last hook of each file. */
export function removeFolders(): void {
  for (const folder of made) removeFolder(folder);
}
