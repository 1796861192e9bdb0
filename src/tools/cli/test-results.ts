// The results of a run of cases, before they are printed.

import type { Problem } from "../../engine/rules/rule-set.ts";
import type { CoverageReport } from "../simulate/cases/coverage.ts";
import type { CaseResult } from "../simulate/cases/run-case.ts";

/** One file of cases. */
export interface FileResult {
  readonly name: string;
  /** Problems of the file and of its rules. With an error among them no case was run. */
  readonly problems: readonly Problem[];
  readonly cases: readonly CaseResult[];
}

/** All files. */
export interface TestRun {
  readonly files: readonly FileResult[];
  /** Files of folders that have no `cases`, such as rule files. */
  readonly skipped: readonly string[];
  /** The coverage of each rule set that was tested. */
  readonly coverage: readonly { readonly rules: string; readonly report: CoverageReport }[];
  /** Paths of rules, for `--watch`. */
  readonly watched: readonly string[];
}
