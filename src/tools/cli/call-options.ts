// Options for reading files of calls, and warnings about lines without a call.

import { createWriteStream } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Option } from "commander";
import { ConfigError } from "../../base/errors.ts";
import { fileTrouble } from "../../base/thrown.ts";
import { type Mapping, parseTemplate, type Template } from "../simulate/sources/mapping.ts";
import type { LineCounts } from "../simulate/sources/open-calls.ts";
import { duration, type TypedDescriptor, textParser, typed } from "./arguments.ts";
import type { ProgramCommand } from "./command.ts";
import { sayCutOff, sayWarning, type Terminal } from "./terminal.ts";

const HOUR_MS = 3_600_000;

/** What `addCallOptions` adds. */
export interface FileChoiceFlags {
  readonly domain?: string;
  readonly time?: string;
  readonly descriptor?: readonly TypedDescriptor[];
  readonly hits?: string;
  readonly late: number;
  readonly values: "show" | "hash";
}

/** Adds the options of logs, and of how callers are shown. */
export function addCallOptions(command: ProgramCommand, terminal: Terminal): ProgramCommand {
  return command
    .option("-d, --domain <name>", "logs: domain of the calls; {field} is what the field holds")
    .option("--time <field>", "logs: field with the time (ISO 8601, or since 1970 in s, ms or us)")
    .option("--descriptor <entries>", "logs: a descriptor as key={field},key2=text; repeatable", textParser(terminal))
    .option("--hits <field>", "logs: field with the hits (default: 1 each)")
    .addOption(typed("--late <time>", "logs: how late a line may come to be put in order", duration(0, HOUR_MS), "60s"))
    .addOption(
      new Option("--values <mode>", "values of callers: show, or hash all (hash_values holds anyway)")
        .choices(["show", "hash"])
        .default("show"),
    );
}

/** How to read logs; undefined without options for logs. Some of them without the others end the run. */
export function mappingOf(command: ProgramCommand, flags: FileChoiceFlags): Mapping | undefined {
  const { domain, time, descriptor, hits } = flags;
  if (domain === undefined && time === undefined && descriptor === undefined && hits === undefined) return undefined;
  if (domain === undefined || time === undefined || descriptor === undefined) {
    command.error("error: logs are read by --domain, --time and at least one --descriptor together");
  }
  return {
    domain: template(command, domain),
    time,
    hits,
    descriptors: descriptor.map((entries) =>
      entries.map(({ key, value }) => ({ key, value: template(command, value) })),
    ),
  };
}

function template(command: ProgramCommand, text: string): Template {
  const read = parseTemplate(text);
  if (!("problem" in read)) return read;
  return command.error(`error: ${read.problem}`);
}

/**
 * Runs `work` on the files. Standard input (`-`) lies in a temporary file meanwhile, because calls are read more than
 * once.
 */
export async function withInput<T>(
  files: readonly string[],
  work: (files: readonly string[]) => Promise<T>,
): Promise<T> {
  if (!files.includes("-")) return work(files);
  const folder = await mkdtemp(join(tmpdir(), "headgate-"));
  const kept = join(folder, "stdin");
  try {
    await pipeline(process.stdin, createWriteStream(kept)).catch((cause: unknown) => {
      throw new ConfigError("CONFIG_SETTINGS", `can't keep standard input in ${kept}: ${fileTrouble(cause)}`);
    });
    return await work(files.map((file) => (file === "-" ? kept : file)));
  } catch (cause) {
    if (cause instanceof ConfigError) cause.message = cause.message.replaceAll(kept, "standard input");
    throw cause;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Says which lines were passed over, which files are cut off, and which fields no line has. Nothing if all were read as
 * asked.
 */
export function sayLines(
  { lines, skipped, firstSkipped = "", cutOff, unseenText }: LineCounts,
  terminal: Terminal,
): void {
  const say = (text: string) => sayWarning(terminal, text);
  if (skipped > 0) say(`${skipped} of ${lines} lines hold no call and were passed over; the first: ${firstSkipped}`);
  for (const [file, whole] of cutOff) sayCutOff(terminal, file, whole);
  if (unseenText === undefined) return;
  say(`${unseenText}. A descriptor without its field is left out, a call without its hits counts as 1`);
}
