// The file of a snapshot. It is replaced as a whole, so that nobody reads half of one, and it is replaced only if this
// process has read or written the present file.

import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "../../../base/thrown.ts";
import type { ReadBytes } from "./snapshot-entries.ts";

/** Only the owner may read the file, because it has the key of the hashes. */
const MODE = 0o600;
/**
 * The first bytes of a snapshot identify it: they contain when it was begun, to the microsecond. Inodes and times of
 * files are less reliable.
 */
const MARK_BYTES = 80;

/** Whether there is a file. Rejects if the name belongs to a folder, a device ... */
export async function hasFile(path: string): Promise<boolean> {
  const found = await statOf(path);
  if (found?.isFile() === false) throw new Error("expected a file, got a folder or a device of that name");
  return found !== undefined;
}

/** What is said of a file that was read or written. */
interface FileFacts {
  readonly bytes: number;
  readonly mark: string;
}

/** Calls `use` with the open file. */
export async function readSnapshotFile<T>(
  path: string,
  use: (read: ReadBytes, facts: FileFacts) => T | Promise<T>,
): Promise<T> {
  return withFile(path, "r", async (file) => use(readerOf(file), await factsOf(file)));
}

/**
 * Replaces the file, whose mark must be `mark` (undefined: there is none), by `pieces`. If it rejects, or if the power
 * fails, the old file remains.
 */
export async function replaceSnapshotFile(
  path: string,
  mark: string | undefined,
  pieces: AsyncIterable<Uint8Array>,
): Promise<FileFacts> {
  await expectMark(path, mark);
  const draft = `${path}.new`;
  // Left by a process that was killed while it wrote. "wx+" below would not follow a link in its place.
  await rm(draft, { force: true });
  try {
    const facts = await withFile(draft, "wx+", async (file) => {
      for await (const piece of pieces) await file.writeFile(piece);
      await file.sync();
      return factsOf(file);
    });
    await expectMark(path, mark);
    await rename(draft, path);
    await syncFolder(dirname(path));
    return facts;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Renames the file, so that the next snapshot does not replace it. Resolves to the new name. */
export async function setSnapshotAside(path: string): Promise<string> {
  const aside = `${path}.refused`;
  if ((await statOf(aside)) !== undefined)
    throw new Error(`expected no file ${aside}, which was refused before: look at it and remove it`);
  await rename(path, aside);
  await syncFolder(dirname(path));
  return aside;
}

async function statOf(path: string) {
  try {
    return await stat(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function withFile<T>(path: string, flags: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags, MODE);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}

function readerOf(file: FileHandle): ReadBytes {
  return async (into, from) => (await file.read(into, 0, into.length, from)).bytesRead;
}

async function factsOf(file: FileHandle): Promise<FileFacts> {
  const into = Buffer.alloc(MARK_BYTES);
  const length = await readerOf(file)(into, 0);
  return { bytes: (await file.stat()).size, mark: into.toString("hex", 0, length) };
}

async function expectMark(path: string, mark: string | undefined): Promise<void> {
  if ((await hasFile(path)) && (await readSnapshotFile(path, (_read, facts) => facts.mark)) !== mark)
    throw new Error(
      "expected the snapshot that this process read or wrote last, or none, got another file: restart to read it, or move it away",
    );
}

/** Without this the rename may be lost if the power fails. EINVAL: the filesystem does not support it. */
async function syncFolder(folder: string): Promise<void> {
  await withFile(folder, "r", async (handle) => {
    try {
      await handle.sync();
    } catch (error) {
      if (errorCode(error) !== "EINVAL") throw error;
    }
  });
}
