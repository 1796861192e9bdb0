// The file of a snapshot, read and written by a thread of its own (snapshot-thread.ts), so synchronously. It is replaced as a whole, so that
// nobody reads half of one, and it is replaced only if this process has read or written the present file.

import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { errorCode } from "../../../engine/base/thrown.ts";
import type { SnapshotBytes } from "./snapshot-entries.ts";

/** Only the owner may read the file, because it has the key of the hashes. */
const MODE = 0o600;
const OTHERS_MAY = 0o007;
/** Bytes of a snapshot that tell it from others: its begin, to the microsecond. Filesystems differ in what they say about files. */
const MARK_BYTES = 64;
/** Most refused files beside it; the operator has to look at them and remove them. */
const ASIDE_MAX = 9;

/** The name under which the next snapshot is written. */
export function draftOf(path: string): string {
  return `${path}.new`;
}

/** Whether there is a file, and who may read it. Throws if the name belongs to a folder, a device ... */
export function lookAtFile(path: string): { readonly isOpenToOthers: boolean } | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  if (!found.isFile()) throw new Error("expected a file, got a folder or a device of that name");
  return { isOpenToOthers: (found.mode & OTHERS_MAY) !== 0 };
}

/** Calls `use` with the open file. */
export function readSnapshotFile<T>(path: string, use: (file: SnapshotBytes) => T): T {
  const fd = openSync(path, "r");
  try {
    return use(bytesOf(fd));
  } finally {
    closeSync(fd);
  }
}

function bytesOf(fd: number): SnapshotBytes {
  return { size: fstatSync(fd).size, read: (into, from) => readSync(fd, into, 0, into.length, from) };
}

export function markOf(file: SnapshotBytes): string {
  const into = Buffer.alloc(MARK_BYTES);
  return into.toString("hex", 0, file.read(into, 0));
}

/**
 * Replaces the file, whose mark must be `mark` (undefined: there is none), by `pieces`. Returns its bytes and its mark. If it throws, or if
 * the power fails, the old file remains.
 */
export function replaceSnapshotFile(
  path: string,
  mark: string | undefined,
  pieces: Iterable<Uint8Array>,
): { readonly bytes: number; readonly mark: string } {
  expectMark(path, mark);
  const draft = draftOf(path);
  // Left by a process that was killed while it wrote. "wx+" below would not follow a link in its place.
  rmSync(draft, { force: true });
  try {
    const fd = openSync(draft, "wx+", MODE);
    let bytes = 0;
    let written: string;
    try {
      for (const piece of pieces) {
        for (let at = 0; at < piece.length; ) at += writeSync(fd, piece, at);
        bytes += piece.length;
      }
      fsyncSync(fd);
      written = markOf(bytesOf(fd));
    } finally {
      closeSync(fd);
    }
    expectMark(path, mark);
    renameSync(draft, path);
    syncFolder(dirname(path));
    return { bytes, mark: written };
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

/** Renames the file, so that the next snapshot does not replace it. Returns the new name. */
export function setSnapshotAside(path: string): string {
  const names = Array.from({ length: ASIDE_MAX }, (_, i) => `${path}.refused-${i + 1}`);
  const free = names.find((name) => statSync(name, { throwIfNoEntry: false }) === undefined);
  if (free === undefined)
    throw new Error(`expected fewer than ${ASIDE_MAX} refused files beside ${path}: look at them and remove them`);
  renameSync(path, free);
  syncFolder(dirname(path));
  return free;
}

function expectMark(path: string, mark: string | undefined): void {
  if (lookAtFile(path) !== undefined && readSnapshotFile(path, markOf) !== mark)
    throw new Error(
      "expected the snapshot that this process read or wrote last, or none, got another file: restart to read it, or move it away",
    );
}

/** Without this the rename may be lost if the power fails. EINVAL: the filesystem does not support it. */
function syncFolder(folder: string): void {
  const fd = openSync(folder, "r");
  try {
    fsyncSync(fd);
  } catch (error) {
    if (errorCode(error) !== "EINVAL") throw error;
  } finally {
    closeSync(fd);
  }
}
