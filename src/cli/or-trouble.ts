// Files that a command can't use, told in one sentence.

import { ConfigError } from "../core/errors.ts";
import { visible } from "../core/visible.ts";
import { paint, type Terminal } from "./terminal.ts";

/** The result; undefined, and exit code 2, if files can't be used: said on standard error. */
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
