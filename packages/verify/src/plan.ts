// What to verify: kinds of calls with the limits they pay, servers, faults. A `*` in a value stands for a caller's
// name.

import type { Entry } from "./call.ts";
import type { Limit } from "./limit.ts";

export interface Plan {
  /** `host:port` of each; or the URL of a page behind Envoy. */
  readonly servers: readonly string[];
  readonly isHttp: boolean;
  /** Files of a client certificate for the servers, and of its key (PEM): both or neither. */
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly domain: string;
  readonly forMs: number;
  readonly seed: number;
  readonly hasRefunds: boolean;
  readonly kinds: readonly PlannedKind[];
  readonly global?: GlobalLimit | undefined;
  readonly faults: readonly Fault[];
}

/** A limit that every call pays: with one, or with its hits. Refunds don't touch it. */
export type GlobalLimit = Limit & { readonly countsHits: boolean };

/** A kind of call: its descriptors (over HTTP one, whose entries are headers), each with its limits. */
export interface PlannedKind {
  readonly descriptors: readonly { readonly entries: readonly Entry[]; readonly limits: readonly Limit[] }[];
}

export interface Fault {
  readonly atMs: number;
  /** A command of the shell. */
  readonly run: string;
}

/** How many callers a `*` stands for. */
const STARRED_CALLERS = 4;

/** The limits that a call of that kind pays. */
export function limitsOf({ kinds, global }: Plan, kind: number): readonly Limit[] {
  const own = kinds[kind]?.descriptors.flatMap(({ limits }) => limits) ?? [];
  return global === undefined ? own : [...own, global];
}

/** How many callers make calls of that kind. */
export function callersOf({ descriptors }: PlannedKind): number {
  return descriptors.some(({ entries }) => isStarred(entries)) ? STARRED_CALLERS : 1;
}

/** Whether each caller has its own values, which nobody used before. */
export function isStarred(entries: readonly Entry[]): boolean {
  return entries.some(({ value }) => value.includes("*"));
}

/** The entries of one caller. `run` is text that no other run has. */
export function entriesOf(entries: readonly Entry[], run: string, kind: number, caller: number): readonly Entry[] {
  return entries.map(({ key, value }) => ({ key, value: value.replaceAll("*", `${run}-${kind}-${caller}`) }));
}

export function entriesText(entries: readonly Entry[]): string {
  return entries.map(({ key, value }) => `${key}=${value}`).join(",");
}
