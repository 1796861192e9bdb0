// Tells in one sentence why a command can't use its files.

import { ConfigError } from "../core/errors.ts";
import { visible } from "../core/visible.ts";
import { paint, type Terminal } from "./terminal.ts";

/** The result of `work`. If files can't be used: undefined, exit code 2, and the reason on standard error. */
export async function orTrouble<T>(terminal: Terminal, work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    terminal.err(`${paint(terminal, "red", visible(error.message))}\n`);
    terminal.setExitCode(2);
    return undefined;
  }
}
