// Suggests limits, simulates them, and prints rule files with the outcome as comments.

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import { errorCode, fileTrouble } from "../../base/thrown.ts";
import { durationWords } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import { oneByteOf } from "../../engine/domain/request.ts";
import { looksLikeAddress } from "../../engine/rules/known-keys.ts";
import { formatProblem } from "../../engine/rules/problems.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { compileFiles } from "../../rule-sources/files/load.ts";
import { compileOptions } from "../../settings/settings.ts";
import type { LimitOutcome } from "../simulate/report.ts";
import { simulate } from "../simulate/simulate.ts";
import type { Mapping } from "../simulate/sources/mapping.ts";
import { LineCounts, openCalls } from "../simulate/sources/open-calls.ts";
import { rulesText } from "../simulate/suggest/rules-text.ts";
import type { HoldNames, ReportedUse, Shape } from "../simulate/suggest/shapes.ts";
import { suggest } from "../simulate/suggest/suggest.ts";
import { type FileChoiceFlags, sayLines, withInput } from "./call-options.ts";
import { decidingSettings, virtualSettings } from "./rules-source.ts";
import { count, orTrouble, sayTrouble, type Terminal } from "./terminal.ts";

export interface SuggestFlags extends FileChoiceFlags {
  readonly percentile: number;
  readonly headroom: number;
  readonly out?: string;
  /** Keys of entries about holds, as typed. */
  readonly hold?: HoldNames;
}

type DomainFiles = ReturnType<typeof filesOf>;

/** Suggests rules for the files. Exit code 0, 1 if no call needs a rule, 2 if files can't be used or written. */
export async function suggestRules(
  files: readonly string[],
  flags: SuggestFlags,
  mapping: Mapping | undefined,
  terminal: Terminal,
): Promise<void> {
  const made = await orTrouble(terminal, () =>
    withInput(files, (kept) => makeFiles({ files, kept }, flags, mapping, terminal)),
  );
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
    sayTrouble(terminal, `a file holds one domain, and there are ${made.length} (${names}): give --out`);
  }
}

async function makeFiles(
  { files, kept }: Readonly<Record<"files" | "kept", readonly string[]>>,
  flags: SuggestFlags,
  mapping: Mapping | undefined,
  terminal: Terminal,
): Promise<DomainFiles> {
  const settings = decidingSettings(terminal.env);
  const calls = { files: kept, mapping, lateMaxUs: flags.late * 1_000 };
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

  // Compiles the printed text itself, which checks it.
  function compiled(texts: DomainFiles): RuleSet {
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

function filesOf(shapes: readonly Shape[], options: Parameters<typeof rulesText>[2]) {
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

async function writeFiles(files: DomainFiles, folder: string, terminal: Terminal): Promise<void> {
  let path = folder;
  try {
    await mkdir(folder, { recursive: true });
    for (const { domain, text } of files) {
      path = join(folder, `${domain.replace(/[^\w.-]|^\./g, "_")}.yaml`);
      await writeFile(path, text, { flag: "wx" });
      terminal.out(`${visible(path)}\n`);
    }
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    throw new ConfigError("CONFIG_SETTINGS", `can't write the suggested rules to ${path}: ${fileTrouble(cause)}`);
  }
}

type Holds = NonNullable<LimitOutcome["holds"]>;

/** What was asked for. */
type Wanted = Pick<SuggestFlags, "percentile" | "headroom">;

/** Comments above a limit: what a simulation says of it, and where its hold's numbers come from. */
function notesOf(shape: Shape, outcomes: ReadonlyMap<string, LimitOutcome>, wanted: Wanted): readonly string[] {
  const outcome = outcomes.get(`${shape.domain}/${shape.keys.join("/")}`);
  return [
    outcomeNote(shape, outcome),
    ...keyNotes(shape),
    ...(shape.use?.hold === undefined ? [] : holdNotes(shape.use, wanted, outcome?.holds)),
  ];
}

/** Names of entries that more often say how much a call takes than who calls. */
const AMOUNT_NAME = /weight|cost|price|tokens|size|bytes|amount|units|points|hits|count$/i;

/** What the last key may be meant for instead. */
function keyNotes({ keys, endsInNumbers }: Shape): string[] {
  const key = keys.at(-1) ?? "";
  if (keys.length > 1 && endsInNumbers && AMOUNT_NAME.test(key))
    return [
      `all values of ${visible(key)} are numbers: a cost? Then remove this rule, and write cost: { entry: ${visible(key)} } at the one above`,
    ];
  return looksLikeAddress(key) ? [`addresses? address: { ipv6: 64 } makes one caller of all that a host has`] : [];
}

function holdNotes(use: ReportedUse, { percentile, headroom }: Wanted, holds: LimitOutcome["holds"] = null): string[] {
  const { used, usedMax, timed, tookMsMax } = use;
  const longest =
    timed > 0
      ? `the longest of ${count(timed, "call")} took ${durationWords(tookMsMax / 1_000)}`
      : "how long calls take is not known: put in more than the longest";
  return [
    `default: ${percentile} % of ${count(used.count, "call")} used no more, times ${headroom}; max: the most that any used, ${usedMax}, times ${headroom}`,
    ...(holds === null ? [] : [beyondNote(holds)]),
    `ttl: ${longest}`,
  ];
}

function beyondNote({ settled_above: above, exceeded_hits: hits, exceeded_hits_max: most }: Holds): string {
  if (above === 0) return "none would have used more than it held";
  return `${above} would have used more than they held, by ${hits} in all and ${most} at most`;
}

function outcomeNote({ calls }: Shape, outcome: LimitOutcome | undefined): string {
  if (outcome === undefined) return count(calls, "call");
  const { callers, callers_refused, refused, callers_exact } = outcome;
  const refusals =
    refused === 0
      ? "none would have been refused"
      : `${callers_refused} would have been refused at some time, ${count(refused, "call")} in all`;
  return `${count(calls, "call")} of ${callers_exact ? "" : "at least "}${count(callers, "caller")}; ${refusals}`;
}

/** The head of a file, ending in a line feed. */
function headText(
  { leftOut, neverEnded, isOfAllCallers }: Awaited<ReturnType<typeof suggest>>,
  wanted: Wanted,
  files: readonly string[],
): string {
  const lines = [
    `Suggested by headgate suggest from ${files.map(visible).join(", ")}:`,
    `limits under which ${wanted.percentile} % of callers would never have been refused, times ${wanted.headroom}.`,
  ];
  if (!isOfAllCallers) lines.push("There were too many callers for all: later ones were not looked at.");
  if (leftOut > 0) lines.push(`${count(leftOut, "descriptor")} had keys that no rule was made for.`);
  if (neverEnded > 0) {
    lines.push(
      `${count(neverEnded, "call")} of kinds that never end in the recording: nothing says what to hold for them.`,
    );
  }
  return lines.map((line) => `# ${line}\n`).join("");
}
