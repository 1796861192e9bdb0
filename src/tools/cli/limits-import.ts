// `headgate limits import`: sets what a file says, some hundred lines at a time.

import { RequestError } from "../../base/errors.ts";
import { visible } from "../../base/visible.ts";
import type { SetAnswer } from "../../operate/http/limit-pages.ts";
import { askAdmin } from "./admin-call.ts";
import { type LimitLine, readLimits } from "./limit-lines.ts";
import { exitCodeOf, processesText, resultText, type ServerFlags } from "./limits-text.ts";
import { count, orTrouble, paint, type Terminal } from "./terminal.ts";

/** Lines of one request, and about how many bytes: half of what a server takes by default. */
const BATCH = 250;
const BATCH_BYTES = 65_536;
/** Refused lines that are shown. */
const SHOWN_MAX = 20;

interface ImportFlags extends ServerFlags {
  /** A file: of recorded calls, of which `rules` are the rules. */
  readonly dryRun?: true | string;
  readonly rules?: string;
  readonly mergeDomains?: true;
}

export async function importLimits(file: string, flags: ImportFlags, terminal: Terminal): Promise<void> {
  if (typeof flags.dryRun === "string") {
    const { simulateLimits } = await import("./simulate-files.ts");
    return simulateLimits(flags.dryRun, file, flags, terminal);
  }
  const lines = await orTrouble(terminal, () => readLimits(file));
  if (lines === undefined) return;
  const refused: string[] = [];
  const readable: LimitLine[] = [];
  for (const line of lines) {
    const { at, asked } = line;
    // One unreadable limit makes the server reject the whole request.
    if (asked instanceof RequestError)
      refused.push(`${visible(at)}: ${paint(terminal, "red", "refused")}\n  ${visible(asked.message)}\n`);
    else readable.push(line);
  }
  const batches = batchesOf(readable);
  let done = 0;
  let processes: SetAnswer["processes"];
  for (const batch of batches) {
    const limits = batch.map(({ limit }) => limit);
    const question = { limits, wait: batch === batches.at(-1), dry_run: flags.dryRun };
    const answer = await askAdmin<SetAnswer>(flags, "/limits", "limits", terminal, question, "PUT");
    if (answer === undefined) {
      sayRefused(refused, terminal);
      terminal.err(`stopped at ${visible(batch[0]?.at ?? "")}, ${count(done, "limit")} set before\n`);
      return;
    }
    for (const [i, result] of answer.limits.entries()) {
      if (exitCodeOf([result]) === 0) done++;
      else refused.push(`${visible(batch[i]?.at ?? "")}: ${resultText(result, terminal)}`);
    }
    processes = answer.processes;
  }
  terminal.setExitCode(refused.length === 0 ? 0 : 1);
  sayRefused(refused, terminal);
  terminal.out(
    `${count(done, "limit")} ${flags.dryRun ? "would be set" : "set"}, ${refused.length} refused\n${processesText(processes, terminal)}`,
  );
}

function batchesOf(lines: readonly LimitLine[]): readonly (readonly LimitLine[])[] {
  const batches: LimitLine[][] = [];
  let bytes = 0;
  for (const line of lines) {
    const size = Buffer.byteLength(JSON.stringify(line.limit));
    const last = batches.at(-1);
    bytes += size;
    if (last !== undefined && last.length < BATCH && bytes <= BATCH_BYTES) last.push(line);
    else {
      batches.push([line]);
      bytes = size;
    }
  }
  return batches;
}

function sayRefused(refused: readonly string[], terminal: Terminal): void {
  for (const text of refused.slice(0, SHOWN_MAX)) terminal.err(text);
  if (refused.length > SHOWN_MAX) terminal.err(`and ${count(refused.length - SHOWN_MAX, "more line")} refused\n`);
}
