// `headgate limits import`: sets what a file says, some hundred lines at a time.

import { fileTrouble } from "../../engine/base/thrown.ts";
import { visible } from "../../engine/base/visible.ts";
import type { SetAnswer, SetLimit } from "../../operate/http/limit-pages.ts";
import { askAdmin } from "./admin-call.ts";
import { limitLines, readLimits } from "./limit-lines.ts";
import { limitsOnCalls, type OnCallsFlags } from "./limits-on-calls.ts";
import { exitCodeOf, processesText, resultText, type ServerFlags } from "./limits-text.ts";
import { count, paint, sayTrouble, type Terminal } from "./terminal.ts";

/** Lines of one request. */
const BATCH = 250;
/** Lines that are shown of those that were refused. */
const SHOWN_MAX = 20;

interface ImportFlags extends ServerFlags, Omit<OnCallsFlags, "json"> {
  /** A file: of recorded calls. */
  readonly dryRun?: true | string;
}

interface Line {
  readonly number: number;
  readonly limit: object;
}

export async function importLimits(file: string, flags: ImportFlags, terminal: Terminal): Promise<void> {
  if (typeof flags.dryRun === "string") return limitsOnCalls(flags.dryRun, () => readLimits(file), flags, terminal);
  const refused: { readonly number: number; readonly result: SetLimit | string }[] = [];
  let batch: Line[] = [];
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
    if (answer === undefined) return false;
    for (const [i, result] of answer.limits.entries()) {
      if (exitCodeOf([result]) === 0) done++;
      else refused.push({ number: batch[i]?.number ?? 0, result });
    }
    processes = answer.processes;
    batch = [];
    return true;
  };
  try {
    for await (const line of limitLines(file)) {
      if (typeof line.limit === "string") refused.push({ number: line.number, result: line.limit });
      else {
        // Kept back until another one comes: the last batch waits for the processes.
        if (batch.length === BATCH && !(await send(false))) return;
        batch.push({ number: line.number, limit: line.limit });
      }
    }
  } catch (cause) {
    return sayTrouble(terminal, `can't read ${visible(file)}: ${fileTrouble(cause)}`);
  }
  if (!(await send(true))) return;
  terminal.setExitCode(refused.length === 0 ? 0 : 1);
  for (const { number, result } of refused.slice(0, SHOWN_MAX)) {
    const text =
      typeof result === "string"
        ? `${paint(terminal, "red", "refused")}\n  ${visible(result)}\n`
        : resultText(result, terminal);
    terminal.err(`${visible(file)}:${number}: ${text}`);
  }
  if (refused.length > SHOWN_MAX) terminal.err(`and ${count(refused.length - SHOWN_MAX, "more line")} refused\n`);
  terminal.out(
    `${count(done, "limit")} ${flags.dryRun ? "would be set" : "set"}, ${refused.length} refused\n${processesText(processes, terminal)}`,
  );
}
