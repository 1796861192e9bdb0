// Comments in suggested rules that say what the numbers are made of.

import { AMOUNT_MAX, durationWords } from "../../engine/base/units.ts";
import { visible } from "../../engine/base/visible.ts";
import type { LimitReport } from "../simulate/report.ts";
import type { HoldUse } from "../simulate/suggest/hold-use.ts";
import type { Shape } from "../simulate/suggest/shapes.ts";
import type { Suggestion } from "../simulate/suggest/suggest.ts";
import { count } from "./terminal.ts";

/** What was asked for. */
interface Wanted {
  readonly percentile: number;
  readonly headroom: number;
}

/** Lines above a limit: what it would have done in a simulation, and what its hold is made of. */
export function notesOf(shape: Shape, outcomes: ReadonlyMap<string, LimitReport>, wanted: Wanted): readonly string[] {
  return [
    outcomeNote(shape, outcomes),
    ...(shape.isCapped ? [`capped: callers need more than ${AMOUNT_MAX}, the largest rate or burst`] : []),
    ...(shape.use?.hold === undefined ? [] : holdNotes(shape.use, wanted)),
  ];
}

function holdNotes(use: HoldUse, { percentile, headroom }: Wanted): readonly string[] {
  const { used, usedUnstated, usedMax, timed, tookMsMax, unknown, begun, above, exceeded, exceededMax } = use;
  const usual = use.isDefaultOfUnstated
    ? `${usedUnstated.count} that state no number`
    : `all ${used.count} with a number`;
  const beyond =
    above === 0
      ? "none has used more than it would have held"
      : `${above} have used more than they would have held, by ${exceeded} in all and ${exceededMax} at most`;
  const longest =
    use.isPaired && timed > 0
      ? `the longest of ${count(timed, "call")} took ${durationWords(tookMsMax / 1_000)}`
      : "how long calls take is not known: put in more than the longest";
  const unsaid = [
    ...(unknown === 0 ? [] : [`ended without a number: ${unknown}`]),
    ...(begun === timed ? [] : [`without an end here: ${begun - timed}`]),
  ];
  return [
    `default: ${percentile} % of ${usual} have used no more, times ${headroom}; max: the most that any has used, ${usedMax}, times ${headroom}`,
    `${beyond}${unsaid.length === 0 ? "" : `; ${unsaid.join(", ")}`}`,
    `ttl: ${longest}`,
  ];
}

function outcomeNote({ domain, keys, calls }: Shape, outcomes: ReadonlyMap<string, LimitReport>): string {
  const outcome = outcomes.get(`${domain}/${keys.join("/")}`);
  if (outcome === undefined) return count(calls, "call");
  const { callers, callers_refused, refused, callers_exact } = outcome;
  const refusals =
    refused === 0
      ? "none would have been refused"
      : `${callers_refused} would have been refused at some time, ${count(refused, "call")} in all`;
  return `${count(calls, "call")} of ${callers_exact ? "" : "at least "}${count(callers, "caller")}; ${refusals}`;
}

/** The head of a file, ending in a line feed. */
export function headText(
  { shapes, leftOut, neverEnded, isOfAllCallers }: Suggestion,
  wanted: Wanted,
  files: readonly string[],
): string {
  const lines = [
    `Suggested by headgate suggest from ${files.map(visible).join(", ")}:`,
    `limits under which ${wanted.percentile} % of callers would never have been refused, times ${wanted.headroom}.`,
  ];
  if (shapes.some(({ isCapped }) => isCapped)) lines.push("That does not hold for limits below that are capped.");
  if (!isOfAllCallers) lines.push("There were too many callers for all: later ones were not looked at.");
  if (leftOut > 0) lines.push(`${count(leftOut, "descriptor")} had keys that no rule was made for.`);
  if (neverEnded > 0) {
    lines.push(
      `${count(neverEnded, "call")} of kinds that never end in the recording: nothing says what to hold for them.`,
    );
  }
  return lines.map((line) => `# ${line}\n`).join("");
}
