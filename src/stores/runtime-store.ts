// Where limits at run time are kept for all processes that share a store: one entry for each caller, a version, and the
// sum of all marks. Each process has all of them in a table of its own (engine/runtime).

import type { KeptLimit } from "../engine/runtime/runtime-limit.ts";
import type {
  RuntimeAnswer,
  RuntimeHead,
  RuntimeRequest,
  RuntimeWrite,
  RuntimeWritten,
} from "../engine/runtime/runtime-replica.ts";

/** Most changes that are kept in order, so that processes catch up without reading all. */
export const RUNTIME_CHANGES_MAX = 10_000;
/** Limits that are read at once: a millisecond of a process's turn. */
export const RUNTIME_LIMITS_AT_ONCE = 250;

/** Every method but `nowUs` rejects if the store does not answer. */
export interface RuntimeStore {
  /** The store's clock, in microseconds since the epoch. */
  nowUs(): number;
  head(): Promise<RuntimeHead>;
  /**
   * What changed after one version up to another, in order, at most RUNTIME_LIMITS_AT_ONCE; and up to which version
   * that is all.
   */
  changes(after: number, upTo: number): Promise<{ readonly limits: readonly KeptLimit[]; readonly upTo: number }>;
  /** A part of everything, from "" or the `next` of the part before on. */
  all(from: string): Promise<{ readonly limits: readonly KeptLimit[]; readonly next: string | undefined }>;
  /**
   * Writes up to RUNTIME_WRITES_MAX changes as one, each with its own outcome. Resolves to the head after them, too.
   */
  write(
    changes: readonly RuntimeWrite[],
  ): Promise<{ readonly head: RuntimeHead; readonly written: readonly RuntimeWritten[] }>;
  /** Makes `digest` that of the store, unless its head has changed. */
  repair(head: RuntimeHead, digest: number): Promise<void>;
}

/** Does what a step asks for. */
export async function answerRuntime(store: RuntimeStore, request: RuntimeRequest): Promise<RuntimeAnswer> {
  switch (request.ask) {
    case "head":
      return { is: "head", head: await store.head() };
    case "changes":
      return { is: "changes", ...(await store.changes(request.after, request.upTo)) };
    case "all":
      return { is: "all", ...(await store.all(request.from)) };
    case "write":
      return { is: "written", written: (await store.write(request.changes)).written };
    case "repair":
      await store.repair(request.head, request.digest);
      return { is: "done" };
    case "turn":
      await new Promise(setImmediate);
      return { is: "done" };
  }
}

// The texts of these in Redis and PostgreSQL.

export function readHead(text: string): RuntimeHead {
  const [version = "0", digest = "0"] = text.split(" ");
  return { version: Number(version), digest: Number(digest) };
}

export function headText({ version, digest }: RuntimeHead): string {
  return version === 0 ? "" : `${version} ${digest}`;
}

export function readWritten(text: string, key: string): RuntimeWritten {
  if (text === "written" || text === "full") return { outcome: text };
  return { outcome: "conflict", kept: readKept(key, text.slice("conflict ".length))[0] };
}

/** None for a text that is not of this form. */
export function readKept(key: string, text: string): KeptLimit[] {
  const [, atUs, mark, value = ""] = /^(\d{1,16}) (\d{1,15}) (.*)$/s.exec(text) ?? [];
  return atUs === undefined ? [] : [{ key, value, atUs: Number(atUs), mark: Number(mark) }];
}
