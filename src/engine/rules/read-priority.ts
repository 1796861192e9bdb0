// Reads `priority` of a limit: the entry that tells the priority of calls, and how much is kept for high priority.

import { SYNC_NAMES, Sync } from "../domain/limit.ts";
import { type Fields, readFields } from "./fields.ts";
import { type PrioritySettings, reserveOf } from "./priority.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { readScalars, readSection, readText, textOfNode } from "./readers.ts";
import type { Place } from "./source.ts";

/** The settings of `priority`, with their place. */
export interface PriorityDraft extends PrioritySettings {
  readonly at: Place;
}

/** Value of the entry that means high priority, unless the limit names others. */
const HIGH_VALUE_DEFAULT = "high";

/** Reads the section. Undefined if it is absent or has mistakes, which are reported. */
export function readPriority(limit: Fields, log: ProblemLog): PriorityDraft | undefined {
  const section = readSection(limit.get("priority"), log);
  if (section === undefined) return undefined;
  const fields = readFields("priority", section, log);
  const entry = readText(fields, "entry", log) ?? "";
  if (entry === "" && !fields.hasRefused)
    log.error(fields.at, "priority: 'entry' is missing; it names the entry that tells calls of high priority");
  const values = readValues(fields, log);
  const percent = readPercent(fields, log);
  return entry === "" || percent === undefined ? undefined : { at: fields.at, entry, values, percent };
}

function readValues(fields: Fields, log: ProblemLog): ReadonlySet<string> {
  const field = fields.given("values");
  if (field === undefined) return new Set([HIGH_VALUE_DEFAULT]);
  return new Set(readScalars(field, log).map((node) => textOfNode("values", node, log) ?? ""));
}

function readPercent(fields: Fields, log: ProblemLog): number | undefined {
  const field = fields.given("high");
  if (field === undefined) {
    const hint = "Write 'high: 20%' to keep the last fifth of the room.";
    if (!fields.hasRefused) log.error(fields.at, "priority: 'high' is missing; it says how much is kept", hint);
    return undefined;
  }
  const parts = field.value.kind === "scalar" ? /^([1-9][0-9]?)%$/.exec(field.value.text) : null;
  if (parts !== null) return Number(parts[1]);
  const expected = "a whole percentage of the limit's room from 1% to 99%, such as 20%";
  log.error(field.value.at, `priority: high: expected ${expected}, got ${describeSource(field.value)}`);
  return undefined;
}

/** Reports a `sync` beside a priority, and warns if the limit is too small to keep anything. */
export function checkPriority(
  priority: PriorityDraft | undefined,
  { quota, sync, syncAt }: { readonly quota: number; readonly sync: Sync; readonly syncAt: Place },
  log: ProblemLog,
): void {
  if (priority === undefined) return;
  if (sync !== Sync.exact) {
    const text = `sync: ${SYNC_NAMES[sync]} can't stand beside 'priority': what is left for whom must be known to all processes`;
    log.error(syncAt, text, "Leave 'sync' out.");
  }
  if (reserveOf(quota, priority.percent) === 0)
    log.warn(priority.at, `priority: a limit of ${quota} has no room to keep, so all calls are alike`);
}
