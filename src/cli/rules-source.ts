// Loads rules for the commands that look at files: a directory as the service would, or a single file.

import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { compileFiles, type LoadResult, loadRules } from "../config/load.ts";
import { LimitStats, type StatsBook } from "../core/limit-stats.ts";

/** What decides which rules are loaded and how. */
export interface RulesChoice {
  readonly mergesDomains: boolean;
}

/** Rules that come with the package; from src/ and from dist/ alike. */
const PACKAGE_RULES_DIR = fileURLToPath(new URL("../../deploy/rules", import.meta.url));

/** Nobody reads the counters of rules that only a command looks at. */
const NO_STATS: StatsBook = { statsOf: () => new LimitStats() };

/** Where the rules are if nobody says: where the service would look. */
export function defaultRulesPath(env: Readonly<Record<string, string | undefined>>): string {
  const given = env.RULES_DIR?.trim();
  return given === undefined || given === "" ? PACKAGE_RULES_DIR : given;
}

/** Loads a directory or one file. Never rejects for what it finds there: that is among the result's problems. */
export async function loadPath(path: string, choice: RulesChoice): Promise<LoadResult> {
  const options = { mergeDomains: choice.mergesDomains, statsBook: NO_STATS };
  if (!(await isFile(path))) return loadRules(path, options);
  const files = [{ name: basename(path), bytes: await readFile(path) }];
  return compileFiles(path, { files, failures: [], hash: "" }, options);
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (cause) {
    // A path that is not there is told of by loadRules, in its own words.
    if (cause instanceof Error && "code" in cause) return false;
    throw cause;
  }
}
