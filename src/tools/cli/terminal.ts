// Where commands write, and how text looks there: colour only for people, lines broken at the edge.

import { ConfigError, RequestError } from "../../base/errors.ts";
import { styleText } from "../../base/host.ts";
import { visible, visibleJson, visibleLines } from "../../base/visible.ts";

/** Where a command writes, and what it knows of the screen. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** The exit code of the process once the command is done. */
  setExitCode(code: number): void;
  readonly isColoured: boolean;
  /** Width of the screen; undefined if standard output isn't one. A screen may be overwritten. */
  readonly screenColumns: number | undefined;
  /** Width for breaking sentences. */
  readonly columns: number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

const COLUMNS_DEFAULT = 80;
const COLUMNS_MIN = 40;
const COLUMNS_MAX = 100;

/** What a shell reports of a program that SIGPIPE ended. */
const EXIT_NOBODY_READS = 141;

/**
 * The terminal of this process; no colour if it isn't a terminal or NO_COLOR is set. When the reader of standard output
 * is gone (`headgate ... | head -1`), the process ends without a message, with the exit code that the command has set,
 * if any.
 */
export function processTerminal(): Terminal {
  const { stdout, stderr, env } = process;
  // A terminal without a size says 0.
  const columns = stdout.columns || COLUMNS_DEFAULT;
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(process.exitCode ?? EXIT_NOBODY_READS);
    stderr.write(`can't write the output: ${error.message}\n`);
    process.exit(2);
  });
  // Goes on without a reader of messages: `mirror` carries calls.
  stderr.on("error", () => undefined);
  return {
    out: (text) => stdout.write(text),
    err: (text) => stderr.write(text),
    setExitCode: (code) => {
      process.exitCode = code;
    },
    isColoured: stdout.isTTY === true && (env.NO_COLOR ?? "") === "" && env.TERM !== "dumb",
    screenColumns: stdout.isTTY === true && env.TERM !== "dumb" ? columns : undefined,
    columns: Math.min(COLUMNS_MAX, Math.max(COLUMNS_MIN, columns)),
    env,
  };
}

type Colour = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Text in a colour, if the terminal has any. Line by line: a colour that crosses a line end confuses pagers. */
export function paint(terminal: Terminal, colour: Colour, text: string): string {
  if (!terminal.isColoured) return text;
  return text.replace(/.+/g, (line) => styleText(colour, line, { validateStream: false }));
}

/**
 * Breaks text at blanks into lines of at most `width`. The first begins with `first`, others with `hang`. Longer words
 * stay whole.
 */
export function wrap(text: string, width: number, first = "", hang = first): string {
  const lines: string[] = [];
  let line = first;
  let isFresh = true;
  for (const word of text.split(" ")) {
    if (!isFresh && line.length + 1 + word.length > width) {
      lines.push(line);
      line = `${hang}${word}`;
    } else line += isFresh ? word : ` ${word}`;
    isFresh = false;
  }
  return [...lines, line].join("\n");
}

/** `1 rule`, `2 rules`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** The result of `work`. If that throws ConfigError: undefined, exit code 2, and the reason on standard error. */
export async function orTrouble<T>(terminal: Terminal, work: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof RequestError)) throw error;
    return sayTrouble(terminal, visibleLines(error.message));
  }
}

/** Writes why a command can't do its work, and sets exit code 2. */
export function sayTrouble(terminal: Terminal, why: string): undefined {
  terminal.err(`${paint(terminal, "red", why)}\n`);
  terminal.setExitCode(2);
}

/** Prints a warning, which ends nothing. */
export function sayWarning(terminal: Terminal, text: string): void {
  terminal.err(`${paint(terminal, "yellow", visible(text))}\n`);
}

/** Warns of a file that is cut off after `lines` whole lines. */
export function sayCutOff(terminal: Terminal, file: string, lines: number): void {
  sayWarning(terminal, `${file} is cut off after line ${lines}; only what comes before was read`);
}

/** A report as JSON. */
export function jsonText(report: object): string {
  return `${visibleJson(JSON.stringify(report, null, 2))}\n`;
}
