// A terminal that keeps what a command writes.

import type { Terminal } from "../../src/tools/cli/terminal.ts";

export class RecordedTerminal implements Terminal {
  readonly isColoured: boolean;
  readonly screenColumns: number | undefined;
  readonly columns: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  outText = "";
  errText = "";
  /** Undefined until a command sets it. */
  exitCode: number | undefined;

  constructor(options: Partial<Pick<Terminal, "isColoured" | "screenColumns" | "columns" | "env">> = {}) {
    this.isColoured = options.isColoured ?? false;
    this.screenColumns = options.screenColumns;
    this.columns = options.columns ?? 80;
    this.env = options.env ?? {};
  }

  out(text: string): void {
    this.outText += text;
  }

  err(text: string): void {
    this.errText += text;
  }

  setExitCode(code: number): void {
    this.exitCode = code;
  }
}
