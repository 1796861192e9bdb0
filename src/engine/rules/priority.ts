// Priorities: calls of high priority pay the limit itself, all others a second limit with less room. Both limits have
// one bucket. A bucket's state is what was spent, so less room is only a smaller burst or amount, and stores know
// nothing of priorities.

import { divideUp } from "../../base/units.ts";
import { Algorithm, type Limit, type Names, type Priority } from "../domain/limit.ts";
import type { Descriptor, LimitRequest } from "../domain/request.ts";
import { type Fields, readScalars, textOfNode } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import type { Place } from "./source.ts";

/** The settings of `priority` in a rule file. */
type PrioritySettings = Omit<Priority, "low" | "guarantee">;

/** Marks the limit of low priority in ids, names and metric labels. */
export const LOW_LABEL = "low";

/** The part of `quota` that is kept for high priority: rounded up, but less than `quota`. */
export function reserveOf(quota: number, percent: number): number {
  return quota === 0 ? 0 : Math.min(divideUp(quota * percent, 100), quota - 1);
}

/** The priority of a limit, whose limit for calls of low priority has an id and stats of its own. */
export function priorityOf(
  { entry, values, percent }: PrioritySettings,
  whole: Limit,
  own: Parameters<typeof lowLimit>[2],
): Priority {
  return { entry, values, percent, low: lowLimit(whole, reserveOf(whole.burst, percent), own), guarantee: undefined };
}

/** The limit for calls of low priority: `reserve` less room, with the same debtMax, window and bucket. */
export function lowLimit(whole: Limit, reserve: number, own: Pick<Names, "id"> & Pick<Limit, "stats">): Limit {
  const { amount, burst, shownAmount, names } = whole;
  const less = whole.algorithm === Algorithm.tokenBucket ? 0 : reserve;
  const readableName = names.readableName === "" ? LOW_LABEL : `${names.readableName}/${LOW_LABEL}`;
  return {
    ...whole,
    amount: amount - less,
    burst: burst - reserve,
    shownAmount: shownAmount - less,
    reserve,
    priority: undefined,
    names: { ...names, id: own.id, readableName },
    stats: own.stats,
  };
}

/** The limits on the limit's bucket that have stats: the limit itself, and the one for low priority if there is one. */
export function limitsOnBucket(limit: Limit): readonly Limit[] {
  const low = limit.priority?.low ?? limit;
  return low.stats === limit.stats ? [limit] : [limit, low];
}

/** The limit that the descriptor pays, chosen by its own entries. */
export function limitForDescriptor(limit: Limit, descriptor: Descriptor): Limit {
  const { priority } = limit;
  return priority === undefined || isHigh(priority, descriptor) ? limit : priority.low;
}

/** The limit that the whole call pays: any of its descriptors can make its priority high. */
export function limitForCall(limit: Limit, request: Pick<LimitRequest, "descriptors" | "descriptorCount">): Limit {
  const { priority } = limit;
  if (priority === undefined) return limit;
  for (let i = 0; i < request.descriptorCount; i++) {
    if (isHigh(priority, request.descriptors[i] as Descriptor)) return limit;
  }
  return priority.low;
}

/**
 * If the entry occurs several times, the first one counts. Any caller may have a guarantee, which decides once its take
 * is judged.
 */
function isHigh({ entry, values, guarantee }: Priority, descriptor: Descriptor): boolean {
  const value = descriptor.value(entry);
  return value !== undefined && (guarantee === undefined ? values.has(value) : value !== "");
}

/** The settings of `priority`, with their place. */
interface PriorityDraft extends PrioritySettings {
  readonly at: Place;
}

/** Value of the entry that means high priority, unless the limit names others. */
const HIGH_VALUE_DEFAULT = "high";

/** Reads the section. Undefined if it is absent or has mistakes, which are reported. */
export function readPriority(limit: Fields): PriorityDraft | undefined {
  const fields = limit.section("priority", "priority");
  if (fields === undefined) return undefined;
  const entry = fields.text("entry") ?? "";
  if (entry === "")
    fields.missing("priority: 'entry' is missing; it names the entry that marks calls of high priority");
  const values = readValues(fields);
  const percent = readPercent(fields, "high", "priority");
  return entry === "" || percent === undefined ? undefined : { at: fields.at, entry, values, percent };
}

function readValues(fields: Fields): ReadonlySet<string> {
  const field = fields.given("values");
  if (field === undefined) return new Set([HIGH_VALUE_DEFAULT]);
  return new Set(readScalars(field, fields.log).map((node) => textOfNode("values", node, fields.log) ?? ""));
}

/** Reads how much of the room is kept. */
export function readPercent(fields: Fields, name: "high" | "keep", section: "priority" | "guarantee") {
  const value = fields.given(name)?.value;
  if (value === undefined) {
    const forWhom = name === "high" ? "calls of high priority" : "calls within their caller's guarantee";
    const hint = `Write '${name}: 20%' to keep the last fifth.`;
    return fields.missing(`${section}: '${name}' is missing; it sets the part kept for ${forWhom}`, hint);
  }
  const parts = value.kind === "scalar" ? /^([1-9][0-9]?)%$/.exec(value.text) : null;
  if (parts !== null) return Number(parts[1]);
  const message = `${section}: ${name}: expected a whole percentage of the limit's room from 1% to 99%, such as 20%`;
  return fields.log.wrong(value, message);
}

/** Warns if the limit is too small to keep anything. */
export function warnNoReserve({ percent, at }: PriorityDraft, quota: number, log: ProblemLog): void {
  if (reserveOf(quota, percent) === 0)
    log.warn(at, `priority has no effect: a limit of ${quota} is too small to keep a part of it`);
}
