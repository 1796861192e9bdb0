// Suggests limits, simulates them, and prints rule files with the outcome as comments.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../../engine/base/errors.ts";
import { errorCode, fileTrouble } from "../../engine/base/thrown.ts";
import { visible } from "../../engine/base/visible.ts";
import { oneByteOf } from "../../engine/domain/request.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { compileFiles } from "../../rule-sources/files/load.ts";
import { simulate } from "../simulate/simulate.ts";
import type { Mapping } from "../simulate/sources/mapping.ts";
import { LineCounts, openCalls } from "../simulate/sources/open-calls.ts";
import type { HoldNames } from "../simulate/suggest/held-calls.ts";
import { type RulesTextOptions, rulesText } from "../simulate/suggest/rules-text.ts";
import type { Shape } from "../simulate/suggest/shapes.ts";
import { suggest } from "../simulate/suggest/suggest.ts";
import { type FileChoiceFlags, sayLines } from "./call-options.ts";
import { compileOptions, decidingSettings, virtualSettings } from "./rules-source.ts";
import { headText, notesOf } from "./suggest-notes.ts";
import { orTrouble, paint, type Terminal } from "./terminal.ts";

export interface SuggestFlags extends FileChoiceFlags {
  readonly percentile: number;
  readonly headroom: number;
  readonly out?: string;
  /** Keys of entries about holds, in ordinary text. */
  readonly hold?: HoldNames;
}

interface DomainFile {
  readonly domain: string;
  readonly text: string;
}

/** Suggests rules for the files. Exit code 0, 1 if no call needs a rule, 2 if files can't be used or written. */
export async function suggestRules(
  files: readonly string[],
  flags: SuggestFlags,
  mapping: Mapping | undefined,
  terminal: Terminal,
): Promise<void> {
  const made = await orTrouble(terminal, () => makeFiles(files, flags, mapping, terminal));
  if (made === undefined) return;
  if (made.length === 0) {
    terminal.err("no call has a descriptor that a rule could stand for\n");
    terminal.setExitCode(1);
    return;
  }
  const { out } = flags;
  const [first] = made;
  if (out !== undefined) await orTrouble(terminal, () => writeFiles(made, out, terminal));
  else if (made.length === 1 && first !== undefined) terminal.out(first.text);
  else {
    const names = made.map(({ domain }) => visible(domain)).join(", ");
    terminal.err(
      `${paint(terminal, "red", `a file holds one domain, and there are ${made.length} (${names}): give --out`)}\n`,
    );
    terminal.setExitCode(2);
  }
}

async function makeFiles(
  files: readonly string[],
  flags: SuggestFlags,
  mapping: Mapping | undefined,
  terminal: Terminal,
): Promise<readonly DomainFile[]> {
  const settings = decidingSettings(terminal.env);
  const calls = { files, mapping, lateMaxUs: flags.late * 1_000 };
  // Suggested limits must suit the service's settings, but no mode may make them refuse.
  const deciding = { ...virtualSettings(settings), shadowMode: false, quotaMode: false, compatible: false };
  const names = flags.hold;
  const forRecording = { noteOf: () => [], names, isForRecording: true };
  const compile = (shapes: readonly Shape[]) => compiled(filesOf(shapes, forRecording));
  const suggestion = await suggest({
    share: flags.percentile / 100,
    headroom: flags.headroom,
    settings: deciding,
    compile,
    openCalls: () => openCalls(calls, new LineCounts()),
    holdNames: names && {
      id: oneByteOf(names.id),
      estimate: oneByteOf(names.estimate),
      settle: oneByteOf(names.settle),
    },
  });
  if (suggestion.shapes.length === 0) return [];
  const { report, lines } = await simulate({
    ...calls,
    ruleSet: compile(suggestion.shapes),
    settings: deciding,
  });
  sayLines(lines, terminal);
  const outcomes = new Map(report.limits.map((limit) => [limit.limit, limit]));
  const head = headText(suggestion, flags, files);
  const printed = filesOf(suggestion.shapes, { noteOf: (shape) => notesOf(shape, outcomes, flags), names });
  compiled(printed);
  return printed.map(({ domain, text }) => ({ domain, text: head + text }));

  // The printed text itself is compiled, so that it is checked.
  function compiled(texts: readonly DomainFile[]): RuleSet {
    const sources = texts.map(({ domain, text }) => ({ name: `${domain}.yaml`, bytes: Buffer.from(text) }));
    const { ruleSet, problems } = compileFiles(
      "suggested",
      { files: sources, failures: [], hash: "" },
      { ...compileOptions(settings), compatible: false },
    );
    if (ruleSet === undefined) {
      throw new ConfigError(
        "CONFIG_RULES",
        `the suggested rules can't be used: ${problems.map(formatProblem).join("; ")}`,
      );
    }
    return ruleSet;
  }
}

function filesOf(shapes: readonly Shape[], options: RulesTextOptions): readonly DomainFile[] {
  const domains = new Set(shapes.map(({ domain }) => domain));
  return [...domains].map((domain) => ({
    domain,
    text: rulesText(
      domain,
      shapes.filter((shape) => shape.domain === domain),
      options,
    ),
  }));
}

async function writeFiles(files: readonly DomainFile[], folder: string, terminal: Terminal): Promise<void> {
  let path = folder;
  try {
    await mkdir(folder, { recursive: true });
    for (const { domain, text } of files) {
      path = join(folder, `${domain.replace(/[^\w.-]/g, "_")}.yaml`);
      await writeFile(path, text, { flag: "wx" });
      terminal.out(`${visible(path)}\n`);
    }
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    throw new ConfigError("CONFIG_SETTINGS", `can't write the suggested rules to ${path}: ${fileTrouble(cause)}`);
  }
}
