// Reads the files of a rules directory as one consistent state. load.ts parses them.

import { createHash } from "node:crypto";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";
import { fileTrouble } from "../../base/thrown.ts";

/** Bounds of a rules directory. Beyond them the whole directory is refused. */
const FILES_MAX = 10_000;
const FILE_BYTES_MAX = 16 * 1024 * 1024;
/** Most folders and entries that are visited. Links are followed, and could double the tree at every level. */
export const FOLDERS_MAX = 1_000;
const ENTRIES_MAX = 50_000;

/** Bytes hashed between two turns of the event loop. */
const HASHED_BYTES = 1_048_576;

// If a ConfigMap is swapped while it is read, two states mix. So the directory is read until two readings are equal.
// One that keeps changing is taken as it is anyway after so many.
const READS_MAX = 20;

/** Which files of the directory are rule files. */
export interface FileChoice {
  /** True: every regular file, as the reference service does. False: *.yaml, *.yml and *.json. */
  readonly everyFile?: boolean;
  /**
   * True: also files and folders whose name begins with a dot. Names with two dots, as a ConfigMap's ..data, never
   * count.
   */
  readonly dotFiles?: boolean;
}

/** A file as it was read. `name` is relative to the directory, with forward slashes. */
export interface ReadFile {
  readonly name: string;
  readonly bytes: Buffer;
  /** True for a RateLimitConfig message of a control plane; its name is inside the message. */
  readonly isResource?: boolean;
}

/** A file or directory that could not be read; `message` says why. */
interface ReadFailure {
  readonly name: string;
  readonly message: string;
}

export interface RuleFiles {
  /** Sorted by name. */
  readonly files: readonly ReadFile[];
  readonly failures: readonly ReadFailure[];
  /** SHA-256 over names, contents and failures, hex. Equal hashes mean equal rules. */
  readonly hash: string;
}

/**
 * Reads all rule files of a directory and its subfolders, with `pauseMs` between two readings. Never rejects: what
 * can't be read is in `failures`.
 */
export async function readRuleFiles(directory: string, choice: FileChoice = {}, pauseMs = 0): Promise<RuleFiles> {
  let last = await readOnce(directory, choice);
  for (let reads = 2; reads <= READS_MAX; reads++) {
    if (pauseMs > 0) await pause(pauseMs, undefined, { ref: false });
    const again = await readOnce(directory, choice);
    if (again.hash === last.hash) return again;
    last = again;
  }
  return last;
}

/** Reads a single file, whatever its ending and length. Never rejects: if it can't be read, it is in `failures`. */
export async function readOneFile(name: string): Promise<RuleFiles> {
  try {
    return { files: [{ name, bytes: await readFile(name) }], failures: [], hash: "" };
  } catch (error) {
    return { files: [], failures: [failureOf(name, error)], hash: "" };
  }
}

/** The hash of one reading, to notice changes. Equal to the hash of `readRuleFiles` if nothing changed. */
export async function hashRuleFiles(directory: string, choice: FileChoice = {}): Promise<string> {
  return (await readOnce(directory, choice)).hash;
}

async function readOnce(directory: string, choice: FileChoice): Promise<RuleFiles> {
  const names: string[] = [];
  const failures: ReadFailure[] = [];
  await listInto(
    { names, failures, choice, directory, folders: [], foldersLeft: FOLDERS_MAX, entriesLeft: ENTRIES_MAX },
    "",
  );
  names.sort(compareText);
  const files: ReadFile[] = [];
  for (const name of names) {
    try {
      files.push({ name, bytes: await readFile(join(directory, name)) });
    } catch (error) {
      failures.push(failureOf(name, error));
    }
  }
  failures.sort((a, b) => compareText(a.name, b.name));
  return { files, failures, hash: await hashOf(files, failures) };
}

interface Listing {
  readonly directory: string;
  readonly choice: FileChoice;
  readonly names: string[];
  readonly failures: ReadFailure[];
  /** Real paths of the folders around the current one: a link to one of them is a loop and is skipped. */
  readonly folders: string[];
  /** How many more may be visited; below 0 once the bound was reported. */
  foldersLeft: number;
  entriesLeft: number;
}

async function listInto(listing: Listing, folder: string): Promise<void> {
  const { directory, failures, folders } = listing;
  const path = join(directory, folder);
  try {
    const real = await realpath(path);
    if (folders.includes(real)) return;
    if (--listing.foldersLeft < 0) {
      refuseMore(listing, folder);
      return;
    }
    folders.push(real);
    for (const name of await readdir(path)) {
      if (--listing.entriesLeft < 0) refuseMore(listing, folder);
      if (listing.entriesLeft < 0 || listing.foldersLeft < 0) break;
      await listEntry(listing, folder === "" ? name : `${folder}/${name}`, name);
    }
    folders.pop();
  } catch (error) {
    const what = folder === "" ? "the rules directory" : "the folder";
    failures.push({ name: folder === "" ? directory : folder, message: `can't read ${what}: ${fileTrouble(error)}` });
  }
}

// Reports only once: outer folders stop too.
function refuseMore({ failures, foldersLeft, entriesLeft }: Listing, name: string): void {
  if (foldersLeft < -1 || entriesLeft < -1) return;
  const what = foldersLeft < 0 ? `${FOLDERS_MAX} folders` : `${ENTRIES_MAX} entries of folders`;
  failures.push({
    name,
    message: `more than ${what}, following links; remove links to folders that are already in it`,
  });
}

async function listEntry(listing: Listing, name: string, baseName: string): Promise<void> {
  const { choice, directory, failures, names } = listing;
  if (baseName.startsWith("..") || (baseName.startsWith(".") && choice.dotFiles !== true)) return;
  const isRuleName = choice.everyFile === true || /\.(yaml|yml|json)$/.test(baseName);
  try {
    // Follows links, because a ConfigMap's files are links.
    const entry = await stat(join(directory, name));
    if (entry.isDirectory()) return await listInto(listing, name);
    if (!entry.isFile() || !isRuleName) return;
    if (entry.size > FILE_BYTES_MAX) {
      failures.push({ name, message: `the file is larger than ${FILE_BYTES_MAX / 1_048_576} MiB` });
    } else if (names.length < FILES_MAX) names.push(name);
    else if (names.length === FILES_MAX) failures.push({ name, message: `more than ${FILES_MAX} files` });
  } catch (error) {
    if (isRuleName) failures.push(failureOf(name, error));
  }
}

// Hashes a megabyte per turn, so that calls don't wait for a large directory.
async function hashOf(files: readonly ReadFile[], failures: readonly ReadFailure[]): Promise<string> {
  const hash = createHash("sha256");
  let sinceTurn = 0;
  for (const { name, bytes } of files) {
    hash.update(`file ${Buffer.byteLength(name)} ${bytes.length} ${name}`);
    for (let start = 0; start < bytes.length; start += HASHED_BYTES) {
      const piece = bytes.subarray(start, start + HASHED_BYTES);
      hash.update(piece);
      sinceTurn += piece.length;
      if (sinceTurn < HASHED_BYTES) continue;
      sinceTurn = 0;
      await nextTurn();
    }
  }
  for (const { name, message } of failures) hash.update(`failure ${JSON.stringify([name, message])}`);
  return hash.digest("hex");
}

function failureOf(name: string, error: unknown): ReadFailure {
  return { name, message: `can't read the file: ${fileTrouble(error)}` };
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
