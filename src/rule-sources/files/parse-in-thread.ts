// Parses rule files in a worker thread, so that calls don't wait: parsing takes about a millisecond per dozen rules.
// Small files are parsed in the caller's thread, because starting a thread takes longer, and leaves the process 10 to
// 20 MB larger.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { totalmem } from "node:os";
import { Worker } from "node:worker_threads";
import { type LongWork, runInTurns, runThrough } from "../../base/long-work.ts";
import { errorCode } from "../../base/thrown.ts";
import { refusedFile } from "../../engine/rules/problems.ts";
import type { SourceFile } from "../../engine/rules/source.ts";
import { parseFile } from "./parse-file.ts";
import type { ReadFile } from "./read-files.ts";
import { type PackedFile, PackedSet, packFile } from "./tree-wire.ts";

/**
 * Up to this many bytes in all files together are parsed in this thread. The costliest text of this size takes 10 ms.
 */
const INLINE_BYTES_MAX = 1_024;
/** The same while the process takes no calls yet. The costliest text of this size takes half a second. */
const INLINE_BYTES_MAX_AT_START = 65_536;
/** Bytes of a resource that count as one byte here, because reading protobuf is that much cheaper than parsing text. */
const RESOURCE_BYTES_PER_BYTE = 32;

/**
 * Files that have up to this many bytes together go to the thread at once, because passing it a file takes longer than
 * a small file.
 */
const BATCH_BYTES_MAX = 65_536;
const BATCH_FILES_MAX = 1_024;

/** A batch that takes longer to parse than this is refused. */
const PARSE_MS_MAX = 60_000;
/**
 * A batch that needs more memory than this, or more than a third of the process's memory, is refused: calls need the
 * rest.
 */
const MEMORY_MB_MAX = 512;
const MEMORY_MB_MIN = 64;
const MEMORY_PARTS = 3;
const MIB = 1_048_576;

// If the TypeScript sources run without a build, this file does not exist, and files are parsed in the caller's thread.
const WORKER = new URL("./parse-worker.js", import.meta.url);

/**
 * Parses all files in their order. Never rejects: the mistakes of a file are in its `problems`. If all together have
 * more than NODES_MAX nodes, the result is the file that exceeds them, with that problem. `takesCalls`: the process may
 * be deciding calls meanwhile.
 */
export async function parseInThread(files: readonly ReadFile[], takesCalls = true): Promise<SourceFile[]> {
  const bytes = files.reduce(
    (sum, file) => sum + file.bytes.length / (file.isResource === true ? RESOURCE_BYTES_PER_BYTE : 1),
    0,
  );
  const parser = bytes > (takesCalls ? INLINE_BYTES_MAX : INLINE_BYTES_MAX_AT_START) ? startParser() : undefined;
  if (parser === undefined) return runInTurns(parseSteps(files));
  const set = new PackedSet();
  try {
    for (let at = 0; at < files.length && set.nodesLeft >= 0; ) {
      const batch = batchAt(files, at);
      for (const packed of await parser.parse(batch, set.nodesLeft)) set.add(packed);
      at += batch.length;
    }
  } finally {
    await parser.close();
  }
  return runInTurns(set.unpack());
}

/** Parses files in this thread, as parseInThread does. */
export function parseHere(files: readonly ReadFile[]): SourceFile[] {
  return runThrough(parseSteps(files));
}

function* parseSteps(files: readonly ReadFile[]): LongWork<SourceFile[]> {
  const set = new PackedSet();
  for (const file of files) {
    parseInto(set, file);
    yield;
  }
  return yield* set.unpack();
}

/** The next files, at least one. */
function batchAt(files: readonly ReadFile[], at: number): readonly ReadFile[] {
  let bytes = 0;
  let end = at;
  for (const file of files.slice(at, at + BATCH_FILES_MAX)) {
    bytes += file.bytes.length;
    if (bytes > BATCH_BYTES_MAX && end > at) break;
    end++;
  }
  return files.slice(at, end);
}

/** Parses a file into the set, unless it has too many nodes already. */
export function parseInto(set: PackedSet, file: ReadFile): void {
  if (set.nodesLeft >= 0) set.add(packFile(parseFile(file, set.nodesLeft)));
}

function refused({ name, bytes, isResource = false }: ReadFile, why: string): PackedFile {
  // The name of a resource is inside its bytes, which could not be read.
  return packFile(refusedFile(isResource ? `resource of ${bytes.length} bytes` : name, isResource, why));
}

/** The files of one message to the thread, and how many nodes they may have together. */
export interface ParseBatch {
  readonly files: readonly ReadFile[];
  readonly nodesMax: number;
}

/** Undefined if no thread can be started. */
function startParser(): ThreadParser | undefined {
  try {
    return existsSync(WORKER) ? new ThreadParser() : undefined;
  } catch {
    return undefined;
  }
}

/** A worker thread, which ends with the load that it was started for. */
class ThreadParser {
  readonly #worker = new Worker(WORKER, {
    stdout: false,
    stderr: false,
    resourceLimits: { maxOldGenerationSizeMb: memoryMbMax() },
  });
  /** Why the thread parses no more. */
  #trouble: string | undefined;

  constructor() {
    this.#worker.on("error", (error) => {
      this.#trouble ??= whyEnded(error);
    });
  }

  /** Never rejects: files that can't be parsed have a problem that says why. */
  async parse(files: readonly ReadFile[], nodesMax: number): Promise<readonly PackedFile[]> {
    if (this.#trouble === undefined) {
      try {
        const answered = once(this.#worker, "message", { signal: AbortSignal.timeout(PARSE_MS_MAX) });
        this.#worker.postMessage({ files, nodesMax } satisfies ParseBatch);
        const [packed] = (await answered) as [readonly PackedFile[]];
        return packed;
      } catch {
        // An error of the thread is in `#trouble`.
        this.#trouble ??= `it took longer than ${PARSE_MS_MAX / 1_000} seconds`;
      }
    }
    const why = `it can't be parsed: ${this.#trouble}`;
    return files.map((file) => refused(file, why));
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

/**
 * The memory bound of the thread in MiB: a third of the container's bound, or of the machine's memory if there isn't
 * one.
 */
function memoryMbMax(): number {
  const bounded = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  const parts = Math.floor(Math.min(bounded, totalmem()) / MEMORY_PARTS / MIB);
  return Math.max(MEMORY_MB_MIN, Math.min(MEMORY_MB_MAX, parts));
}

function whyEnded(error: Error): string {
  const isFull = errorCode(error) === "ERR_WORKER_OUT_OF_MEMORY";
  return isFull ? `it needs more than ${memoryMbMax()} MiB of memory to be read` : error.message;
}
