// The JSON of GET /state, as the server makes it and the page in the browser reads it. Types alone.

import type { Severity } from "../core/condition.ts";
import type { RuleCount } from "../core/limit-stats.ts";

/** One line of the table: a domain, a rule without limits of its own, or one limit of a rule. */
export interface RuleRow {
  /** The same as long as the rule stands where it does. */
  readonly id: string;
  /** 0 for domains. */
  readonly depth: number;
  /** The domain, or the rule's element of its path. */
  readonly name: string;
  /** `file:line:column`. */
  readonly where?: string;
  /** Name of the limit, where it has one. */
  readonly limit?: string;
  /** What it allows. */
  readonly says?: string;
  readonly mode?: "shadow" | "quota";
  readonly count?: RuleCount;
}

export interface RuleRows {
  readonly rows: readonly RuleRow[];
  /** Rows that are not shown. */
  readonly left_out: number;
}

/** Calls since the start, those of workers that have ended among them. */
export interface CallTotals {
  readonly allowed: number;
  readonly refused: number;
  /** Answered with on_store_failure in place of the store. */
  readonly degraded: number;
  /** Answered with an error. */
  readonly errors: number;
}

export interface RulesInForce extends RuleRows {
  readonly version: number | null;
  readonly hash: string | null;
  readonly loaded_at: string | null;
  /** Where they come from, in words. */
  readonly source: string;
  readonly domains: readonly string[];
}

/** Something that is wrong. `workers`: those that say so, where there are several. */
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

/** The JSON. */
export interface StateView {
  readonly at: string;
  /** Another one when another process answers, or the same one was started again. */
  readonly instance: string;
  readonly version: string;
  readonly store: string;
  readonly status: "well" | Severity;
  readonly conditions: readonly ConditionView[];
  readonly calls: CallTotals;
  readonly rules: RulesInForce;
  /** Descriptors that met no rule since the start, by domain. */
  readonly unmatched: readonly { readonly domain: string; readonly descriptors: number }[];
  /** Whether GET /top answers. */
  readonly keeps_top_keys: boolean;
  readonly certificate: Readonly<Record<string, unknown>> | null;
  readonly answered_by?: number;
  readonly workers?: readonly Readonly<Record<string, unknown>>[];
}
