// Runs the command line program inside the test, with its output recorded.

import { runCommandLine } from "../../src/tools/cli/program.ts";
import type { Terminal } from "../../src/tools/cli/terminal.ts";
import { RecordedTerminal } from "./recorded-terminal.ts";

/** What a run of the program came to. */
export interface ProgramRun {
  readonly out: string;
  readonly err: string;
  readonly exitCode: number;
}

/** Runs `headgate` with these arguments, of which a text has one between blanks. `onServe` stands in for the service. */
export async function runProgram(
  args: string | readonly string[],
  options: Partial<Pick<Terminal, "isColoured" | "screenColumns" | "env">> & {
    readonly onServe?: () => void;
    readonly untilStopped?: (terminal: RecordedTerminal) => Promise<void>;
  } = {},
): Promise<ProgramRun> {
  const terminal = new RecordedTerminal(options);
  const serve = async () => options.onServe?.();
  const { untilStopped } = options;
  const stopping = untilStopped === undefined ? {} : { untilStopped: () => untilStopped(terminal) };
  const words = typeof args === "string" ? args.split(" ") : args;
  await runCommandLine({ serve, checkStart: async () => [], version: "1.2.3", terminal, ...stopping }, [
    "node",
    "headgate",
    ...words,
  ]);
  return { out: terminal.outText, err: terminal.errText, exitCode: terminal.exitCode ?? 0 };
}
