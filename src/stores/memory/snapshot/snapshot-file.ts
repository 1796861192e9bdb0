// The file of a snapshot. It is replaced as a whole, so that nobody reads half of one, and it is replaced only if this process has read
// or written the present file.

import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "../../../engine/base/thrown.ts";
import type { ByteSource } from "./read-sections.ts";

/** Only the owner may read the file, because it has the key of the hashes. */
const MODE = 0o600;
const OTHERS_MAY = 0o007;
/** Bytes of a snapshot that tell it from others: its first line and its begin section. */
const MARK_BYTES = 64;
/** Most refused files beside it; the operator has to look at them and remove them. */
const ASIDE_MAX = 9;

/** A snapshot file that is open for reading. */
interface OpenSnapshot extends ByteSource {
  /** True if users other than its owner and group may read or write it. */
  readonly isOpenToOthers: boolean;
}

/** One snapshot file. */
export class SnapshotFile {
  readonly path: string;
  readonly #draft: string;
  /** The first bytes of the file that this process read or wrote last; undefined if it did neither. */
  #mark: string | undefined;

  constructor(path: string) {
    this.path = path;
    this.#draft = `${path}.new`;
  }

  /** Calls `read` with the open file. Undefined if there is no file. If `read` throws, the file will not be replaced. */
  async read<T>(read: (file: OpenSnapshot) => Promise<T>): Promise<T | undefined> {
    const handle = await openIfThere(this.path);
    if (handle === undefined) return undefined;
    try {
      const { mode } = await handle.stat();
      const result = await read({
        isOpenToOthers: (mode & OTHERS_MAY) !== 0,
        read: (buffer, offset, length, position) => handle.read(buffer, offset, length, position),
      });
      this.#mark = await markOf(handle);
      return result;
    } finally {
      await handle.close();
    }
  }

  /**
   * Replaces the file by `pieces`; each is written before the next one is made. Resolves to the number of bytes. If it rejects, or if the
   * power fails, the old file remains.
   */
  async write(pieces: Iterable<Uint8Array>): Promise<number> {
    await this.#expectKnown();
    // Left by a process that was killed while it wrote. "wx+" below would not follow a link in its place.
    await rm(this.#draft, { force: true });
    let bytes = 0;
    let mark: string;
    try {
      const handle = await open(this.#draft, "wx+", MODE);
      try {
        for (const piece of pieces) {
          await writeAll(handle, piece);
          bytes += piece.length;
        }
        await handle.sync();
        mark = await markOf(handle);
      } finally {
        await handle.close();
      }
      await this.#expectKnown();
      await rename(this.#draft, this.path);
    } catch (error) {
      await rm(this.#draft, { force: true }).catch(() => undefined);
      throw error;
    }
    this.#mark = mark;
    await syncFolder(dirname(this.path));
    return bytes;
  }

  /** Renames the file, so that the next snapshot does not replace it. Resolves to the new name. */
  async setAside(): Promise<string> {
    const names = Array.from({ length: ASIDE_MAX }, (_, i) => `${this.path}.refused-${i + 1}`);
    for (const name of names) {
      if (await isThere(name)) continue;
      await rename(this.path, name);
      await syncFolder(dirname(this.path));
      return name;
    }
    throw new Error(`expected fewer than ${ASIDE_MAX} refused files beside ${this.path}: look at them and remove them`);
  }

  async #expectKnown(): Promise<void> {
    const handle = await openIfThere(this.path);
    if (handle === undefined) return;
    let mark: string;
    try {
      mark = await markOf(handle);
    } finally {
      await handle.close();
    }
    if (mark !== this.#mark)
      throw new Error(
        "expected the snapshot that this process read or wrote last, or none, got another file: restart to read it, or move it away",
      );
  }
}

/** Undefined if there is no such file. Rejects with NoFileError if the name belongs to something else, such as a folder or a device. */
async function openIfThere(path: string): Promise<FileHandle | undefined> {
  let handle: FileHandle;
  try {
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new NoFileError("expected a file, got a folder or a device of that name");
}

/** Something other than a file has the name. It is not renamed. */
export class NoFileError extends Error {
  override readonly name = "NoFileError";
}

/** The first bytes contain the snapshot's begin, to the microsecond. Filesystems differ in what they say about files. */
async function markOf(handle: FileHandle): Promise<string> {
  const into = Buffer.alloc(MARK_BYTES);
  const { bytesRead } = await handle.read(into, 0, MARK_BYTES, 0);
  return into.toString("hex", 0, bytesRead);
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

async function writeAll(handle: FileHandle, piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.length; ) at += (await handle.write(piece, at, piece.length - at)).bytesWritten;
}

/** Without this the rename may be lost if the power fails. EINVAL: the filesystem does not support it. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } catch (error) {
    if (errorCode(error) !== "EINVAL") throw error;
  } finally {
    await handle.close();
  }
}
