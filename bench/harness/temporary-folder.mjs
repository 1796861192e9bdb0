// Folders for what benches write and nobody wants to keep.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A new folder, which goes when the process ends. */
export function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
