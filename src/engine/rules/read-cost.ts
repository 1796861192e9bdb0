// Reads the cost of a hit (`cost`) or of a call (the estimate of `hold`): the entry that carries it, its bounds, and the parts in which
// callers count.

import { AMOUNT_MAX } from "../base/units.ts";
import { textOf } from "../domain/request.ts";
import { unitsUp } from "./cost.ts";
import { limitsOfDraft, type RuleDraft } from "./draft.ts";
import type { Fields } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import { readText, readWhole } from "./readers.ts";
import type { CostEntry } from "./rule-set.ts";
import { COST_PER_MAX } from "./schema.ts";

/** The key that names the entry in each section. */
const ENTRY_KEYS = { cost: "entry", hold: "estimate" } as const;

/** The cost entry of a `cost` or `hold` section; undefined if it has none, so that a hit costs 1. */
export function readCostEntry(section: "cost" | "hold", fields: Fields, log: ProblemLog): CostEntry | undefined {
  const entryKey = ENTRY_KEYS[section];
  const entry = readText(fields, entryKey, log) ?? "";
  const per = readWhole(fields, "per", { min: 1, max: COST_PER_MAX }, log) ?? 1;
  const max = readWhole(fields, "max", { min: 1, max: AMOUNT_MAX * per }, log) ?? AMOUNT_MAX * per;
  const byDefault = readWhole(fields, "default", { min: 1, max: AMOUNT_MAX * per }, log) ?? 1;
  const stray = fields.firstGiven(["default", "max"]);
  if (entry === "" && stray !== undefined) {
    if (fields.hasRefused) return undefined;
    log.error(stray.keyAt, `${section}: '${stray.name}' belongs to '${entryKey}', which is missing`);
  } else if (byDefault > max) {
    log.error(fields.get("default")?.value.at ?? fields.at, `${section}: default ${byDefault} is above max ${max}`);
  }
  if (entry !== "") return { entry, default: byDefault, max, per };
  return fields.given("per") === undefined ? undefined : { entry: undefined, default: 1, max: AMOUNT_MAX * per, per };
}

/** Warns of a `default` above a limit of the rule: calls without the entry would never pass. */
export function warnNoRoom(draft: RuleDraft, fields: Fields, log: ProblemLog): void {
  const section = draft.hold === undefined ? "cost" : "hold";
  const cost = draft.hold === undefined ? draft.cost : draft.hold.estimate;
  // What is paid afterwards is never refused for its size.
  if (cost?.entry === undefined || draft.isPostPaid) return;
  const units = unitsUp(cost.default, cost);
  for (const { burst, name, isConcurrent } of limitsOfDraft(draft).flatMap(({ limits }) => limits)) {
    // A limit of 0 is there to refuse all calls.
    if (isConcurrent || burst === 0 || units <= burst) continue;
    const limit = name === "" ? "the limit" : `limit '${textOf(name)}'`;
    log.warn(
      fields.get(section)?.keyAt ?? fields.at,
      `${section}: a call without '${textOf(cost.entry)}' costs ${units} and ${limit} has room for ${burst} at most, so it never passes`,
      "Lower 'default', or raise the limit.",
    );
  }
}
