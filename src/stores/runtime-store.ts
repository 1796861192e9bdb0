// Where limits at run time are kept for all processes that share a store. Each process has all of them in its own memory
// (engine/runtime/runtime-table.ts), which rule-sources/runtime keeps equal to the store.

import type { KeptLimit, StoreChange } from "../engine/runtime/runtime-limit.ts";

/** The state of the store without its limits: the last change, and more. */
export interface RuntimeHead extends StoreChange {
  /** Changes if data may have been lost: then every process compares all limits. Empty if nothing was ever kept. */
  readonly epoch: string;
  /** Number of limits, with ended and unset ones. */
  readonly count: number;
}

/** A change to write. */
export interface RuntimeWrite {
  readonly key: string;
  /** Empty: drops what is there; the history does not record it. */
  readonly value: string;
  /** Writes only over a limit with this `atUs`, 0: over none. Undefined: over anything older. */
  readonly expectedUs: number | undefined;
  /** When it was set; undefined: now. */
  readonly atUs: number | undefined;
}

/** The outcome of a change: written, or something else was there, or no room. */
export type RuntimeWritten =
  | { readonly outcome: "written"; readonly kept: KeptLimit }
  | { readonly outcome: "conflict"; readonly kept: KeptLimit | undefined }
  | { readonly outcome: "full" };

/** One change of the history. */
export interface RuntimeEvent {
  readonly kept: KeptLimit;
  /** The value before; empty if there was none. */
  readonly before: string;
}

/** A process, and up to which change it has all limits in force; or a thread that is counted (batching/process-count.ts). */
export interface RuntimeProcess {
  readonly id: string;
  /** Its host, number and start, `ratelimit-0:12:mfx2k9p4`; empty for a thread that is counted. */
  readonly name: string;
  readonly epoch: string;
  readonly version: number;
  /** What it has counted since its start; empty for a thread. */
  readonly calls: readonly number[];
}

/** The answer to a report. */
interface Beat {
  /** All that have reported lately. */
  readonly all: readonly RuntimeProcess[];
  /** True if the store did not have this one before. */
  readonly isNew: boolean;
}

/** Most changes of one `write`: half a millisecond in Redis. */
export const RUNTIME_WRITES_MAX = 25;
/** Most changes that the history has, and that processes catch up with without reading all. */
export const RUNTIME_EVENTS_MAX = 10_000;
/** A process that has not reported for so long is gone. */
export const RUNTIME_GONE_MS = 10_000;
/** Longest report that a process publishes, in bytes, and how many are read at once: some milliseconds of a slow network. */
export const REPORT_BYTES_MAX = 32_768;
export const REPORTS_AT_ONCE = 25;

/** Every method but `nowUs` rejects if the store does not answer. */
export interface RuntimeStore {
  /** The store's clock, in microseconds since the epoch. */
  nowUs(): number;
  head(): Promise<RuntimeHead>;
  /** What was changed after that version, in order; undefined if the history does not reach back. */
  changesAfter(version: number, head: RuntimeHead): Promise<readonly KeptLimit[] | undefined>;
  /** Everything, in parts. */
  all(): AsyncIterable<readonly KeptLimit[]>;
  /** Writes up to RUNTIME_WRITES_MAX changes as one, each with its own outcome. Resolves to the head after them, too. */
  write(
    changes: readonly RuntimeWrite[],
  ): Promise<{ readonly head: RuntimeHead; readonly written: readonly RuntimeWritten[] }>;
  /** Reports lost data: gives the store another epoch and counts what is left, unless the head has changed by now. */
  renew(head: RuntimeHead): Promise<void>;
  /** The newest changes of the key first. */
  history(key: string, countMax: number): Promise<readonly RuntimeEvent[]>;
  /** Reports `own`; undefined only asks. */
  beat(own: RuntimeProcess | undefined): Promise<Beat>;
  /** Keeps a longer report of a process that beats, of at most REPORT_BYTES_MAX, which only those who ask read. */
  publish(id: string, report: string): Promise<void>;
  /** The longer reports of all that have beaten lately. */
  published(): Promise<readonly string[]>;
  /** Removes what was reported under the id, so that the others need not wait until it is gone. */
  leave(id: string): Promise<void>;
}

// The texts of these in Redis and PostgreSQL.

export function readHead(text: string): RuntimeHead {
  const [epoch = "", version = "0", count = "0", atUs = "0"] = text.split(" ");
  return { epoch, version: Number(version), count: Number(count), atUs: Number(atUs) };
}

export function headText({ epoch, version, count, atUs }: RuntimeHead): string {
  return `${epoch} ${version} ${count} ${atUs}`;
}

export function readWritten(text: string, key: string, value: string): RuntimeWritten {
  const at = text.indexOf(" ");
  const rest = text.slice(at + 1);
  if (text.startsWith("written ")) return { outcome: "written", kept: { key, value, atUs: Number(rest) } };
  return text === "full" ? { outcome: "full" } : { outcome: "conflict", kept: readKept([key, rest])[0] };
}

/** None for a value that is not of this form. */
export function readKept([key, text]: readonly [key: string, text: string]): KeptLimit[] {
  const at = text.indexOf(" ");
  const atUs = Number(text.slice(0, at));
  return at > 0 && Number.isSafeInteger(atUs) ? [{ key, value: text.slice(at + 1), atUs }] : [];
}

export function readEvent(text: string): RuntimeEvent & { readonly version: number } {
  const [version, atUs, key = "", value = "", before = ""] = text.split("\n");
  return { version: Number(version), kept: { key, value, atUs: Number(atUs) }, before };
}

/** What a beat says, without the process's id. */
export function processText({ epoch, version, calls, name }: RuntimeProcess): string {
  return `${version} ${epoch === "" ? "-" : epoch} ${calls.join() || "-"} ${name}`;
}

export function readProcess(id: string, text: string): RuntimeProcess {
  const [version, epoch = "", calls = "-", ...name] = text.split(" ");
  const counts = calls.split(",").map(Number);
  return {
    id,
    name: name.join(" "),
    epoch: epoch === "-" ? "" : epoch,
    version: Number(version),
    calls: counts.every(Number.isSafeInteger) ? counts : [],
  };
}
