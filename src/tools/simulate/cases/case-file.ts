// The contents of a file of cases: rules, and for each case a time line of calls with the answer that each must get.

import type { Place, SourceNode } from "../../../engine/rules/source.ts";
import type { AskedCall } from "../question.ts";

/** A file of cases as read. */
export interface CaseFile {
  readonly name: string;
  /** A path relative to the file's folder, or the rules themselves; undefined: whoever runs the file chooses the rules. */
  readonly rules: string | SourceNode | undefined;
  /** Environment variables of the service, by name. */
  readonly settings: Readonly<Record<string, string>>;
  readonly cases: readonly TestCase[];
}

export interface TestCase {
  readonly name: string;
  readonly at: Place;
  readonly startUs: number;
  readonly steps: readonly Step[];
}

/** One step of a time line: time moves, then the store comes or goes, then calls are made. */
export interface Step {
  readonly at: Place;
  readonly afterUs: number;
  /** Where the clock is set, forwards or back; undefined: it goes on. */
  readonly setUs: number | undefined;
  readonly store: "away" | "back" | undefined;
  /** Undefined: no call. One-byte text. */
  readonly call: AskedCall | undefined;
  /** How often the call is made, and the time between two such calls. */
  readonly times: number;
  readonly everyUs: number;
  readonly expect: Expectation | undefined;
}

/** What a settlement may have found; `nothing`: the descriptor is no settlement, or meets no rule with `hold`. */
export const FOUND = ["settled", "unknown", "already_settled", "unanswered", "nothing"] as const;

/** What an answer must be; what is undefined is not checked. `code` applies to each of a step's calls, all else to the last of them. */
export interface Expectation {
  readonly at: Place;
  /** OK, OVER_LIMIT, or the name of a gRPC status. */
  readonly code?: string | undefined;
  /** The limit that governs the answer: its id, its id without the domain, its name, or its rule's path. */
  readonly rule?: string | undefined;
  readonly remaining?: number | undefined;
  readonly waitUs?: number | undefined;
  readonly resetUs?: number | undefined;
  /** Headers for the client; null: there must be no such header. */
  readonly headers?: ReadonlyMap<string, string | null>;
  /** The path of each descriptor's rule, empty for `nothing`. */
  readonly matches?: readonly string[] | undefined;
  /** The code of each descriptor. */
  readonly statuses?: readonly string[] | undefined;
  /** What each descriptor holds of a rule with `hold`, in the caller's unit. A single one is for all. */
  readonly reserved?: readonly string[] | undefined;
  /** What the settlement of each descriptor found, one of FOUND. A single one is for all. */
  readonly found?: readonly string[] | undefined;
}
