// `headgate limits import`: sets what a file says, some hundred lines at a time.

import { RequestError } from "../../engine/base/errors.ts";
import { fileTrouble } from "../../engine/base/thrown.ts";
import { visible } from "../../engine/base/visible.ts";
import type { SetAnswer, SetLimit } from "../../operate/http/limit-pages.ts";
import { askAdmin } from "./admin-call.ts";
import { askedOf, type LimitLine, limitLines, readLimits } from "./limit-lines.ts";
import { limitsOnCalls, type OnCallsFlags } from "./limits-on-calls.ts";
import { exitCodeOf, processesText, resultText, type ServerFlags } from "./limits-text.ts";
import { count, paint, sayTrouble, type Terminal } from "./terminal.ts";

/** Lines of one request, and about how many bytes: half of what a server takes by default. */
const BATCH = 250;
const BATCH_BYTES = 65_536;
/** Lines that are shown of those that were refused. */
const SHOWN_MAX = 20;

interface ImportFlags extends ServerFlags, Omit<OnCallsFlags, "json"> {
  /** A file: of recorded calls. */
  readonly dryRun?: true | string;
}

interface RefusedLine {
  readonly number: number;
  readonly result: SetLimit | string;
}

export async function importLimits(file: string, flags: ImportFlags, terminal: Terminal): Promise<void> {
  if (typeof flags.dryRun === "string") return limitsOnCalls(flags.dryRun, () => readLimits(file), flags, terminal);
  const refused: RefusedLine[] = [];
  let batch: LimitLine[] = [];
  let bytes = 0;
  let done = 0;
  let processes: SetAnswer["processes"];
  const send = async (isLast: boolean): Promise<boolean> => {
    if (batch.length === 0) return true;
    const question = {
      limits: batch.map(({ limit }) => limit),
      wait: isLast,
      ...(flags.dryRun ? { dry_run: true } : {}),
    };
    const answer = await askAdmin<SetAnswer>(flags, "/limits", "limits", terminal, question, "PUT");
    if (answer === undefined) {
      sayRefused(file, refused, terminal);
      terminal.err(`stopped at ${visible(file)}:${batch[0]?.number}, ${count(done, "limit")} set before\n`);
      return false;
    }
    for (const [i, result] of answer.limits.entries()) {
      if (exitCodeOf([result]) === 0) done++;
      else refused.push({ number: batch[i]?.number ?? 0, result });
    }
    processes = answer.processes;
    batch = [];
    bytes = 0;
    return true;
  };
  try {
    for await (const line of limitLines(file)) {
      const { number, limit } = line;
      // A server refuses a request whole if it can't read one of its limits.
      const asked = askedOf(limit);
      if (asked instanceof RequestError) refused.push({ number, result: asked.message });
      else {
        const size = Buffer.byteLength(JSON.stringify(limit));
        // Kept back until another one comes: the last batch waits for the processes.
        const isFull = batch.length === BATCH || bytes + size > BATCH_BYTES;
        if (isFull && !(await send(false))) return;
        batch.push({ number, limit });
        bytes += size;
      }
    }
  } catch (cause) {
    return sayTrouble(terminal, `can't read ${visible(file)}: ${fileTrouble(cause)}`);
  }
  if (!(await send(true))) return;
  terminal.setExitCode(refused.length === 0 ? 0 : 1);
  sayRefused(file, refused, terminal);
  terminal.out(
    `${count(done, "limit")} ${flags.dryRun ? "would be set" : "set"}, ${refused.length} refused\n${processesText(processes, terminal)}`,
  );
}

function sayRefused(file: string, refused: readonly RefusedLine[], terminal: Terminal): void {
  for (const { number, result } of refused.slice(0, SHOWN_MAX)) {
    const text =
      typeof result === "string"
        ? `${paint(terminal, "red", "refused")}\n  ${visible(result)}\n`
        : resultText(result, terminal);
    terminal.err(`${visible(file)}:${number}: ${text}`);
  }
  if (refused.length > SHOWN_MAX) terminal.err(`and ${count(refused.length - SHOWN_MAX, "more line")} refused\n`);
}
