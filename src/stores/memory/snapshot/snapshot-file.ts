// The file of a snapshot, read and written by a thread of its own (snapshot-thread.ts), so synchronously. It is replaced as a whole, so that
// nobody reads half of one, and it is replaced only if this process has read or written the present file.

import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { errorCode } from "../../../engine/base/thrown.ts";
import type { ReadBytes } from "./snapshot-entries.ts";

/** Only the owner may read the file, because it has the key of the hashes. */
const MODE = 0o600;
/** The first bytes of a snapshot identify it: they contain when it was begun, to the microsecond. Inodes and times of files are less reliable. */
const MARK_BYTES = 80;

/** The name under which the next snapshot is written. */
export function draftOf(path: string): string {
  return `${path}.new`;
}

/** Whether there is a file. Throws if the name belongs to a folder, a device ... */
export function hasFile(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isFile() === false) throw new Error("expected a file, got a folder or a device of that name");
  return found !== undefined;
}

/** What is said of a file that was read or written. */
export interface FileFacts {
  readonly bytes: number;
  readonly mark: string;
}

/** Calls `use` with the open file. */
export function readSnapshotFile<T>(path: string, use: (read: ReadBytes, facts: FileFacts) => T): T {
  return withFile(path, "r", (fd) => use(readerOf(fd), factsOf(fd)));
}

/**
 * Replaces the file, whose mark must be `mark` (undefined: there is none), by `pieces`. If it throws, or if the power fails, the old file
 * remains.
 */
export function replaceSnapshotFile(path: string, mark: string | undefined, pieces: Iterable<Uint8Array>): FileFacts {
  expectMark(path, mark);
  const draft = draftOf(path);
  // Left by a process that was killed while it wrote. "wx+" below would not follow a link in its place.
  rmSync(draft, { force: true });
  try {
    const facts = withFile(draft, "wx+", (fd) => {
      for (const piece of pieces) for (let at = 0; at < piece.length; ) at += writeSync(fd, piece, at);
      fsyncSync(fd);
      return factsOf(fd);
    });
    expectMark(path, mark);
    renameSync(draft, path);
    syncFolder(dirname(path));
    return facts;
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

/** Renames the file, so that the next snapshot does not replace it. Returns the new name. */
export function setSnapshotAside(path: string): string {
  const aside = `${path}.refused`;
  if (statSync(aside, { throwIfNoEntry: false }) !== undefined)
    throw new Error(`expected no file ${aside}, which was refused before: look at it and remove it`);
  renameSync(path, aside);
  syncFolder(dirname(path));
  return aside;
}

function withFile<T>(path: string, flags: string, use: (fd: number) => T): T {
  const fd = openSync(path, flags, MODE);
  try {
    return use(fd);
  } finally {
    closeSync(fd);
  }
}

function readerOf(fd: number): ReadBytes {
  return (into, from) => readSync(fd, into, 0, into.length, from);
}

function factsOf(fd: number): FileFacts {
  const into = Buffer.alloc(MARK_BYTES);
  return { bytes: fstatSync(fd).size, mark: into.toString("hex", 0, readerOf(fd)(into, 0)) };
}

function expectMark(path: string, mark: string | undefined): void {
  if (hasFile(path) && readSnapshotFile(path, (_read, facts) => facts.mark) !== mark)
    throw new Error(
      "expected the snapshot that this process read or wrote last, or none, got another file: restart to read it, or move it away",
    );
}

/** Without this the rename may be lost if the power fails. EINVAL: the filesystem does not support it. */
function syncFolder(folder: string): void {
  withFile(folder, "r", (fd) => {
    try {
      fsyncSync(fd);
    } catch (error) {
      if (errorCode(error) !== "EINVAL") throw error;
    }
  });
}
