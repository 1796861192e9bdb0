// Rule sets from YAML text, for tests that are about something else.

import { type LimitStats, LimitStats as Stats, type StatsBook } from "../../src/engine/domain/stats.ts";
import { type CompileOptions, type CompileResult, compileRules } from "../../src/engine/rules/compile.ts";
import { formatProblem } from "../../src/engine/rules/problems.ts";
import type { RuleSet } from "../../src/engine/rules/rule-set.ts";
import { parseHere } from "../../src/rule-sources/files/parse-in-thread.ts";

/** Remembers stats by their arguments, as telemetry does. */
export class PlainStatsBook implements StatsBook {
  readonly stats = new Map<string, LimitStats>();

  statsOf(domain: string, path: readonly string[], limit: string): LimitStats {
    const name = JSON.stringify([domain, ...path, limit]);
    let stats = this.stats.get(name);
    if (stats === undefined) {
      stats = new Stats();
      this.stats.set(name, stats);
    }
    return stats;
  }
}

/** Compiles YAML texts, named a.yaml, b.yaml and so on unless given as a record. */
export function compileYaml(
  texts: string | readonly string[] | Readonly<Record<string, string | Buffer>>,
  options: Partial<CompileOptions> = {},
): CompileResult {
  const list = typeof texts === "string" ? [texts] : texts;
  const files: [string, string | Buffer][] = Array.isArray(list)
    ? list.map((text, i): [string, string] => [`${String.fromCharCode(97 + i)}.yaml`, text])
    : Object.entries(list as Readonly<Record<string, string | Buffer>>);
  // Packed and unpacked, as on its way between threads.
  const sources = parseHere(files.map(([name, text]) => ({ name, bytes: Buffer.from(text as string) })));
  return compileRules(sources, { statsBook: new PlainStatsBook(), ...options });
}

/** The rule set of YAML texts that must compile; throws with every problem if they don't. */
export function rulesFromYaml(
  texts: string | readonly string[] | Readonly<Record<string, string>>,
  options: Partial<CompileOptions> = {},
): RuleSet {
  const { ruleSet, problems } = compileYaml(texts, options);
  if (ruleSet === undefined)
    throw new Error(`the test's rules don't compile:\n${problems.map(formatProblem).join("\n")}`);
  return ruleSet;
}
