// `headgate limits`: limits at run time of single callers at a running service. Each command asks the HTTP port;
// limits-import.ts and limits-list.ts read and write files of them; simulate-files.ts tries them on recorded calls.

import { existsSync } from "node:fs";
import { AMOUNT_MAX } from "../../base/units.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import { UNIT_NAMES } from "../../engine/domain/limit.ts";
import type { SetAnswer } from "../../operate/http/limit-pages.ts";
import { oneOf } from "../../settings/value-types.ts";
import { askAdmin, askedDescriptor } from "./admin-call.ts";
import { DESCRIPTORS, descriptorParser, expected, readAs, someText, type TypedDescriptor, whole } from "./arguments.ts";
import { asking, type ProgramCommand } from "./command.ts";
import { exportLimits, type ListFlags, listLimits } from "./limits-list.ts";
import { exitCodeOf, parseUntil, processesText, resultText, type ServerFlags } from "./limits-text.ts";
import { jsonText, type Terminal } from "./terminal.ts";

interface SetFlags extends ServerFlags {
  readonly limit?: string;
  readonly requests?: number;
  readonly unit?: string;
  readonly burst?: number;
  readonly use?: string;
  readonly shadow?: true;
  readonly global?: true;
  readonly until?: object;
  readonly note?: string;
  /** A file: of recorded calls. */
  readonly dryRun?: true | string;
  readonly rules?: string;
  readonly mergeDomains?: true;
}

/** Adds the command with its ways. */
export function addLimits(program: ProgramCommand, terminal: Terminal): void {
  const limits = program
    .command("limits")
    .summary("raise or lower a caller's limits at run time, block or exempt it")
    .description(
      "Changes the limits of single callers at a running service, at once and for all processes that share its store, and shows what was" +
        " changed. A caller is a descriptor that a rule with limits matches. Needs a token: ADMIN_TOKEN, ADMIN_TOKEN_FILE or --token-file." +
        " Exits 0 if all was done, 1 if something was refused, 2 on an error.",
    )
    .examples(
      `
  headgate limits set edge tenant=acme --requests 500 --until 2h --note launch
  headgate limits set edge tenant=acme --use gold
  headgate limits block edge ip=203.0.113.7 --until 1h --note INC-1234
  headgate limits exempt edge tenant=probe
  headgate limits unset edge tenant=acme
  headgate limits list --domain edge
  headgate limits export > limits.jsonl
  headgate limits import customers.csv --dry-run
  headgate limits block edge tenant=acme --rules rules/ --dry-run calls.jsonl.gz
`,
      "afterAll",
    );
  addChanges(limits, terminal);
  addReading(limits, terminal);
  addFiles(limits, terminal);
}

function addChanges(limits: ProgramCommand, terminal: Terminal): void {
  const setting = (name: string, summary: string, whatOf: (flags: SetFlags) => object) =>
    changing(limits, terminal, name, summary, "PUT", whatOf).option(
      "--until <when>",
      "a duration such as 2h or 7d, or a time such as 2026-12-24T18:00:00Z",
      parseUntil,
    );
  setting("set", "give a caller other amounts", ({ limit, requests, unit, burst, use }) => {
    return { limit, requests_per_unit: requests, unit, burst, use };
  })
    .option("--limit <name>", "which limit of the rule (default: its only one)", someText("a name"))
    .option("--requests <n>", "requests per unit, tokens, or places", whole(0, AMOUNT_MAX))
    .option("--unit <unit>", "unit of the amount; a window keeps the rule's", readAs(oneOf(UNIT_NAMES.slice(1))))
    .option("--burst <n>", "burst of a token bucket (default: the requests)", whole(1, AMOUNT_MAX))
    .option("--use <tier>", "the limits of this tier of the rule", someText("a name"));
  setting("block", "refuse every call of a caller", ({ shadow }) => ({ block: true, shadow })).option(
    "--shadow",
    "only count what would be refused",
  );
  setting("exempt", "lift the rule's limits for a caller", (flags) => ({
    exempt: true,
    global_limit: flags.global,
  })).option("--global", "the domain's global limit, too");
  changing(limits, terminal, "unset", "go back to the rule's limits", "DELETE", () => ({}));
}

function addReading(limits: ProgramCommand, terminal: Terminal): void {
  asking(limits, "list", "what is in force")
    .description("Lists the limits at run time in force, with their ends and notes, and those whose rule has gone.")
    .option("-d, --domain <name>", "only those of this domain", someText("a domain"))
    .action((flags: ListFlags) => listLimits(flags, terminal));
}

function addFiles(limits: ProgramCommand, terminal: Terminal): void {
  asking(limits, "export", "write a file for import")
    .description("Writes the limits at run time in force to standard output, a JSON object a line.")
    .option("-d, --domain <name>", "only those of this domain", someText("a domain"))
    .action((flags: ListFlags) => exportLimits(flags, terminal));
  trying(asking(limits, "import", "set many from a file"))
    .description(
      "Sets limits at run time from a file: JSON objects a line, as export writes them, or CSV with a header: domain, descriptor and" +
        " members of PUT /limits, such as limit, requests_per_unit, block or until. Lines that are refused change nothing and are named.",
    )
    .argument("<file>", "the file, - for standard input", someText("a path"))
    .action(async (file: string, flags: SetFlags) => {
      const { importLimits } = await import("./limits-import.ts");
      await importLimits(file, flags, terminal);
    });
}

function trying(command: ProgramCommand): ProgramCommand {
  return command
    .option(
      "--dry-run [calls]",
      "only say what would happen, or what would have happened to recorded calls",
      parseCalls,
    )
    .takesRules("rules for these calls");
}

/** Reads the file of --dry-run, which may be left out: what follows must not be taken for it. */
function parseCalls(text: string): string {
  if (existsSync(text)) return text;
  throw expected(`expected a file of recorded calls, got '${text}'; without one, --dry-run comes last`);
}

function changing(
  limits: ProgramCommand,
  terminal: Terminal,
  name: string,
  summary: string,
  method: "PUT" | "DELETE",
  whatOf: (flags: SetFlags) => object,
): ProgramCommand {
  const command = asking(limits, name, summary)
    .description(
      `${summary.charAt(0).toUpperCase()}${summary.slice(1)}, at once and in all processes that share the store.`,
    )
    .argument("<domain>", "domain of the calls", someText("a domain"))
    .argument("<descriptor>", DESCRIPTORS, descriptorParser(terminal))
    .option("--note <text>", "why, for the list and the log", someText("a note"))
    .action(async (domain: string, [entries = []]: readonly TypedDescriptor[], flags: SetFlags) => {
      const limit = { domain, ...askedDescriptor(entries), ...whatOf(flags), ...flags.until, note: flags.note };
      if (typeof flags.dryRun === "string") {
        const [{ simulateLimits }, { placed }] = await Promise.all([
          import("./simulate-files.ts"),
          import("./limit-lines.ts"),
        ]);
        const limits = [placed(`${domain} ${typedText(entries)}`, () => limit)];
        return simulateLimits(flags.dryRun, limits, flags, terminal);
      }
      const question = { limits: [limit], dry_run: flags.dryRun };
      const answer = await askAdmin<SetAnswer>(flags, "/limits", "limits", terminal, question, method);
      if (answer === undefined) return;
      terminal.setExitCode(exitCodeOf(answer.limits));
      terminal.out(flags.json ? jsonText(answer) : answerText(answer, terminal));
    });
  return method === "PUT" ? trying(command) : command.option("--dry-run", "only say what would happen");
}

function answerText({ limits, processes }: SetAnswer, terminal: Terminal): string {
  return limits.map((each) => resultText(each, terminal)).join("") + processesText(processes, terminal);
}
