// `headgate mirror` and `headgate mirror replay`: options in, report out. What they do is in src/tools/mirror.

import { Option } from "commander";
import { type Clock, SystemClock } from "../../base/clock.ts";
import { createLogger } from "../../operate/telemetry/logger.ts";
import { LISTEN_ADDRESS, listOfWords, oneOf } from "../../settings/value-types.ts";
import { IGNORABLE_FIELDS } from "../mirror/compare.ts";
import { VALUE_MODES } from "../mirror/differences.ts";
import { type MirrorReport, reportText, troubleShare } from "../mirror/report.ts";
import type { MirrorFlags, ReplayFlags } from "../mirror/run-mirror.ts";
import { duration, expected, parseAuthority, parseShare, readAs, typed, whole } from "./arguments.ts";
import type { ProgramCommand } from "./command.ts";
import { jsonText, orTrouble, sayCutOff, type Terminal } from "./terminal.ts";

const MEBIBYTE = 1_048_576;
const HOUR_MS = 3_600_000;

/** Adds `mirror` with `replay` below it. `untilStopped` resolves when a running mirror is to end. */
export function addMirror(program: ProgramCommand, terminal: Terminal, untilStopped = untilSignal): void {
  const mirror = program
    .command("mirror")
    .summary("answer from one service and compare another with it")
    .description(
      "Takes the service's place: sends each call to two services, answers from one of them and reports by rule what" +
        " the other would have answered differently, on GET /report and when it is stopped.",
    )
    .enablePositionalOptions()
    .option("--answer-from <host:port>", "gRPC address of the service whose answers callers get", parseAuthority);
  addSharedOptions(mirror)
    .addOption(typed("--listen <host:port>", "take calls here", readAs(LISTEN_ADDRESS), "0.0.0.0:8081"))
    .addOption(typed("--http <host:port>", "show report and metrics here", readAs(LISTEN_ADDRESS), "0.0.0.0:8080"))
    .addOption(
      typed("--compare-timeout <time>", "give up on the compared service after this", duration(1, HOUR_MS), "1s"),
    )
    .option("--comparisons-max <n>", "calls under comparison at once", whole(1, 100_000), 1_000)
    .addOption(typed("--memory-max <MiB>", "most that they may hold", mebibytes(4_096), "64"))
    .option("--record <file>", "record the calls too; gzip if the name ends in .gz")
    .addOption(typed("--record-max <MiB>", "longest recording", mebibytes(1_048_576), "256"))
    .examples(MIRROR_EXAMPLES)
    .action((flags: MirrorFlags & Printed) => runUntilStopped(mirror, flags, terminal, untilStopped));
  addReplay(mirror, terminal);
}

const MIRROR_EXAMPLES = `
  headgate mirror --answer-from ratelimit:8081 --compare-with headgate:8081
  headgate mirror --answer-from old:8081 --compare-with new:8081 --json
  headgate mirror --answer-from ratelimit:8081 --record calls.jsonl.gz
`;

function addReplay(mirror: ProgramCommand, terminal: Terminal): void {
  const command = mirror
    .command("replay")
    .summary("send recorded calls again and compare")
    .description(
      "Sends the calls of a recording to one service, or to two that are compared, and prints the report. Exits 1 if more" +
        " than --tolerate differed or could not be compared, 2 if the recording can't be read.",
    )
    .argument("<file>", "a recording of `headgate mirror --record`")
    .requiredOption("--target <host:port>", "gRPC address of the service", parseAuthority);
  addSharedOptions(command)
    .addOption(
      typed("--speed <factor>", "2x is twice as fast as recorded, max as fast as answers come", parseSpeed, "1x"),
    )
    .option("--in-flight <n>", "calls under way at once (default: 1 at max, else 256)", whole(1, 10_000))
    .addOption(typed("--timeout <time>", "longest wait for an answer", duration(1, HOUR_MS), "1s"))
    .addOption(typed("--tolerate <share>", "share of calls that may differ, such as 0.5%", parseShare, "0%"))
    .examples(`
  headgate mirror replay calls.jsonl --target new:8081 --compare-with old:8081
  headgate mirror replay calls.jsonl --target new:8081 --speed max
`)
    .action((file: string, flags: Parameters<typeof replayFile>[1]) => replayFile(file, flags, terminal));
}

function addSharedOptions(command: ProgramCommand): ProgramCommand {
  return command
    .option("--compare-with <host:port>", "gRPC address of the service to compare", parseAuthority)
    .addOption(
      new Option("--ignore <parts>", `what need not be equal: ${IGNORABLE_FIELDS.join(",")}`)
        .argParser(readAs(listOfWords(IGNORABLE_FIELDS)))
        .default([], "nothing"),
    )
    .option("--remaining-tolerance <n>", "remaining may differ by this much", whole(0, 4_294_967_295), 0)
    .addOption(
      typed("--duration-tolerance <time>", "time until reset may differ by this much", duration(0, HOUR_MS), "1s"),
    )
    .option(
      "--values <mode>",
      `values of entries in reports: ${VALUE_MODES.join(", ")}`,
      readAs(oneOf(VALUE_MODES)),
      "hide",
    )
    .option("--json", "print the report as JSON");
}

async function runUntilStopped(
  command: ProgramCommand,
  flags: MirrorFlags & Printed,
  terminal: Terminal,
  untilStopped: () => Promise<void>,
): Promise<void> {
  const { answerFrom, compareWith, record } = flags;
  // Not `requiredOption`: `replay` would then need it, too.
  if (answerFrom === undefined)
    return command.error("error: required option '--answer-from <host:port>' not specified");
  if (compareWith === undefined && record === undefined) {
    return command.error("error: nothing to do: give --compare-with, --record or both");
  }
  const clock: Clock = new SystemClock();
  // Only the report goes to standard output.
  const write = (line: string) => terminal.err(line);
  const logger = createLogger({ level: "info", format: "text", clock, secrets: [], write });
  const { runMirror } = await import("../mirror/run-mirror.ts");
  const { readSettings } = await import("../../settings/settings.ts");
  const { httpHosts } = readSettings({ HTTP_HOSTS: terminal.env.HTTP_HOSTS });
  const running = await runMirror({ ...flags, answerFrom, httpHosts, clock, logger });
  await untilStopped();
  printReport(await running.stop(), flags, terminal);
}

async function replayFile(
  file: string,
  flags: ReplayFlags & Printed & { readonly tolerate: number },
  terminal: Terminal,
): Promise<void> {
  const { replay } = await import("../mirror/run-mirror.ts");
  const onCutOff = (lines: number) => sayCutOff(terminal, file, lines);
  const report = await orTrouble(terminal, () => replay(file, { ...flags, onCutOff }, new SystemClock()));
  if (report === undefined) return;
  printReport(report, flags, terminal);
  terminal.setExitCode(troubleShare(report) > flags.tolerate ? 1 : 0);
}

interface Printed {
  readonly json?: true;
}

function printReport(report: MirrorReport, flags: Printed, terminal: Terminal): void {
  terminal.out(flags.json ? jsonText(report) : reportText(report));
}

async function untilSignal(): Promise<void> {
  const signals = ["SIGTERM", "SIGINT"] as const;
  await new Promise<void>((resolve) => {
    for (const signal of signals) process.once(signal, () => resolve());
  });
  // A second signal ends the process at once.
  for (const signal of signals) process.once(signal, () => process.exit(1));
}

/** Reads MiB as bytes. */
function mebibytes(max: number): (text: string) => number {
  const parse = whole(1, max);
  return (text) => parse(text) * MEBIBYTE;
}

function parseSpeed(text: string): number {
  if (text === "max") return Number.POSITIVE_INFINITY;
  const speed = /^\d{1,6}(?:\.\d{1,3})?x?$/.test(text) ? Number.parseFloat(text) : 0;
  if (speed > 0) return speed;
  throw expected("expected a factor such as 2x or 0.5x, or max");
}
