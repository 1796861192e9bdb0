// Where limits at run time are kept for all processes that share a store. Each process has all of them in its own memory
// (engine/runtime/runtime-table.ts), which rule-sources/runtime keeps equal to the store.

import type { KeptLimit, StoreChange } from "../engine/runtime/runtime-limit.ts";
import type { ProcessRegister } from "./process-register.ts";

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

/** Most changes of one `write`: half a millisecond in Redis. */
export const RUNTIME_WRITES_MAX = 25;
/** Most changes that the history has, and that processes catch up with without reading all. */
export const RUNTIME_EVENTS_MAX = 10_000;

/** Every method but `nowUs` rejects if the store does not answer. */
export interface RuntimeStore extends ProcessRegister {
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
