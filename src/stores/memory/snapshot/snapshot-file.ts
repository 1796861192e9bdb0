// The file of a snapshot: replaced as a whole, so that who reads it never finds half of one, and never written over unless
// this process has read or written what stands there.

import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "../../../core/thrown.ts";
import type { ByteSource } from "./read-sections.ts";

/** Only the owner reads it: it holds the key that hashes are made with. */
const MODE = 0o600;
const OTHERS_MAY = 0o007;
/** The first bytes of a snapshot: its first line and what it says of itself. */
const MARK_BYTES = 64;
/** Files set aside; the operator looks at them and removes them. */
const ASIDE_MAX = 9;

/** A file that is open for reading. */
interface OpenSnapshot extends ByteSource {
  /** Others than its owner and group may read or write it. */
  readonly isOpenToOthers: boolean;
}

/** One snapshot file. */
export class SnapshotFile {
  readonly path: string;
  readonly #draft: string;
  /** What tells the file that this process read or wrote last from any other; undefined if it did neither. */
  #mark: string | undefined;

  constructor(path: string) {
    this.path = path;
    this.#draft = `${path}.new`;
  }

  /** Has `read` read the file. Undefined if there is none. If `read` throws, the file is one that is not written over. */
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
   * Replaces the file by those pieces, each of which is written before the next is asked for. Returns the bytes. If it throws,
   * or the power fails, the file is the one before.
   */
  async write(pieces: Iterable<Uint8Array>): Promise<number> {
    await this.#expectKnown();
    // Of a process that was killed while it wrote; "wx+" below would not follow a link that somebody put there.
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

  /** Gives the file another name, so that the next snapshot does not replace it. Returns that name. */
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

/** Undefined if there is no such file. Throws if there is something else of that name: a folder, a device. */
async function openIfThere(path: string): Promise<FileHandle | undefined> {
  let handle: FileHandle;
  try {
    // Opening a named pipe would wait for its writer.
    handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  if ((await handle.stat()).isFile()) return handle;
  await handle.close();
  throw new NoFileError("expected a file, got a folder or a device of that name");
}

/** There is something else in the place of the file. It is not given another name. */
export class NoFileError extends Error {
  override readonly name = "NoFileError";
}

/** When the snapshot was begun stands there, to the microsecond. What a filesystem says of its files is not the same on each. */
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

/** Without it the new name may be lost with the power. A filesystem that does not know it says EINVAL. */
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
