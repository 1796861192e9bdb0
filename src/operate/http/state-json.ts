// The JSON of GET /state: the server makes it, the operator's page reads it. Only types.

import type { RuleCount } from "../../engine/domain/stats.ts";
import type { Severity } from "../condition.ts";

/** A table row: a domain, a rule without limits of its own, or one limit of a rule. */
export interface RuleRow {
  /** Stays equal as long as the rule keeps its place in the rules. */
  readonly id: string;
  /** Levels below the domain; a domain has 0. */
  readonly depth: number;
  /** The domain, or the last element of the rule's path. */
  readonly name: string;
  /** `file:line:column`. */
  readonly where?: string;
  /** The limit's name, if it has one. */
  readonly limit?: string;
  /** The limit in words. */
  readonly says?: string;
  readonly mode?: "shadow" | "quota";
  readonly count?: RuleCount;
}

export interface RuleRows {
  readonly rows: readonly RuleRow[];
  /** Number of limits that are not shown. */
  readonly left_out: number;
}

/** Something that is wrong. `workers` has the numbers of the workers that report it, if there are several. */
export interface ConditionView {
  readonly id: string;
  readonly severity: Severity;
  readonly says: string;
  readonly advice: string;
  readonly see: string;
  readonly details: readonly string[];
  readonly since: string;
  readonly workers?: readonly number[];
}

/** The whole JSON. */
export interface StateView {
  readonly at: string;
  /** Differs when another process answers, or when the process was restarted. */
  readonly instance: string;
  readonly version: string;
  readonly store: string;
  readonly status: "well" | Severity;
  readonly conditions: readonly ConditionView[];
  /** Since the start; workers that have ended count too. */
  readonly calls: {
    readonly allowed: number;
    readonly refused: number;
    /** Calls decided by on_store_failure in place of the store. */
    readonly degraded: number;
    /** Calls answered with an error. */
    readonly errors: number;
  };
  readonly rules: RuleRows & {
    readonly version: number | null;
    readonly hash: string | null;
    readonly loaded_at: string | null;
    /** The origin of the rules, in words. */
    readonly source: string;
    readonly domains: readonly string[];
  };
  /** Descriptors that have met no rule since the start, by domain. */
  readonly unmatched: readonly { readonly domain: string; readonly descriptors: number }[];
  /** Whether GET /top has something to show (TOP_KEYS). */
  readonly keeps_top_keys: boolean;
  readonly certificate: Readonly<Record<string, unknown>> | null;
  readonly answered_by?: number;
  readonly workers?: readonly Readonly<Record<string, unknown>>[];
}
