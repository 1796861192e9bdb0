// Tells why a command can't use its files or settings.

import { ConfigError } from "../../engine/base/errors.ts";
import { visibleLines } from "../../engine/base/visible.ts";
import { paint, type Terminal } from "./terminal.ts";

/** The result of `work`. If that throws ConfigError: undefined, exit code 2, and the reason on standard error. */
export async function orTrouble<T>(terminal: Terminal, work: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    terminal.err(`${paint(terminal, "red", visibleLines(error.message))}\n`);
    terminal.setExitCode(2);
    return undefined;
  }
}
