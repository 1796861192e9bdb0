// Replaces a file as a whole, so that a reader never finds half of it, not even after a crash.

import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes the parts to a file beside it, and renames that. Rejects if it can't; the old file stays then. */
export async function replaceFile(path: string, parts: Iterable<string>): Promise<void> {
  const draft = `${path}.new`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, parts, { mode: 0o600, flush: true });
    await rename(draft, path);
  } catch (cause) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw cause;
  }
}
