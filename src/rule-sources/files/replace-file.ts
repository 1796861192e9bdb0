// Replaces a file as a whole, so that a reader never finds half of it, not even after a crash.

import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/** Characters made and written between two turns of the event loop. */
const PART_CHARS = 1_048_576;

/** Writes the lines to a file next to it, and renames that. Rejects if it can't; the old file stays then. */
export async function replaceFile(path: string, lines: Iterable<string>): Promise<void> {
  const draft = `${path}.new`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, partsOf(lines), { mode: 0o600, flush: true });
    await rename(draft, path);
  } catch (cause) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw cause;
  }
}

function* partsOf(lines: Iterable<string>): Generator<string> {
  let part = "";
  for (const line of lines) {
    part += `${line}\n`;
    if (part.length < PART_CHARS) continue;
    yield part;
    part = "";
  }
  yield part;
}
