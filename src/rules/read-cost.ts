// Reads the cost of a hit (`cost`) or of a call (the estimate of `hold`): the entry that carries it, its bounds, and the parts in which
// callers count.

import { AMOUNT_MAX } from "../core/units.ts";
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
