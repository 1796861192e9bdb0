// Runs the command line program inside the test, with its output recorded and its exits caught.

import { type Command, CommanderError } from "commander";
import { buildProgram } from "../../src/cli/program.ts";
import type { Terminal } from "../../src/cli/terminal.ts";
import { RecordedTerminal } from "./recorded-terminal.ts";

/** What a run of the program came to. */
export interface ProgramRun {
  readonly out: string;
  readonly err: string;
  readonly exitCode: number;
}

/** Runs `headgate` with these arguments. `onServe` stands in for the service. */
export async function runProgram(
  args: readonly string[],
  options: Partial<Pick<Terminal, "isColoured" | "env">> & { readonly onServe?: () => void } = {},
): Promise<ProgramRun> {
  const terminal = new RecordedTerminal(options);
  const serve = async () => options.onServe?.();
  const program = buildProgram({ serve, version: "1.2.3", terminal });
  catchExits(program);
  try {
    await program.parseAsync(["node", "headgate", ...args]);
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    terminal.setExitCode(error.exitCode);
  }
  return { out: terminal.outText, err: terminal.errText, exitCode: terminal.exitCode ?? 0 };
}

function catchExits(command: Command): void {
  command.exitOverride();
  for (const child of command.commands) catchExits(child);
}
