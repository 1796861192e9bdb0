// Adds a question's takes to the group of its call: one for each limit, with the key of its bucket.

import type { KeyBytes } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import { Mode, type Take, type TakeGroup } from "../domain/take.ts";
import { writeEntry, writeSharedEntry } from "../rules/bucket-key.ts";
import { limitForDescriptor } from "../rules/priority.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { Question } from "./question.ts";

/** True for a limit that gets no take: a settlement skips limits without holds, a refund skips `concurrent`. */
export function leavesAlone({ mode }: Question, limit: Limit): boolean {
  if (mode === Mode.settle) return limit.holdSeconds === 0;
  return mode === Mode.refund && limit.isConcurrent;
}

/** Adds a take whose key the caller has written to the group's buffer from `keyAt`. `paysReports`: see Rule.chargesGivenHits. */
export function addTake(group: TakeGroup, question: Question, limit: Limit, keyAt: number, paysReports: boolean): void {
  const take = group.add(limitForDescriptor(limit, question.descriptor));
  applyQuestion(group, take, question);
  take.mode = question.mode;
  take.cost = limit.isConcurrent ? 1 : question.cost;
  take.holdId = question.holdId;
  take.endKey(keyAt);
  if (paysReports && take.mode === Mode.postPaid) addPayment(group, take);
}

/** Writes what all takes of a question have in common. */
export function applyQuestion(group: TakeGroup, take: Take, { index, kind, isSpareQuota }: Question): void {
  take.descriptor = index;
  take.kind = kind;
  if (isSpareQuota) group.hasSpareQuota = true;
}

/** Makes `judge` a peek that decides the call, and adds a post-paid take of the same cost after it. */
function addPayment(group: TakeGroup, judge: Take): void {
  judge.mode = Mode.peek;
  const payment = group.add(judge.limit);
  payment.descriptor = judge.descriptor;
  payment.kind = judge.kind;
  payment.mode = Mode.postPaid;
  payment.cost = judge.cost;
  payment.stats = judge.stats;
  payment.useKeyOf(judge);
}

/**
 * Writes the bucket key of a descriptor without the limit's suffix. `matched` holds the rule of each entry; undefined for an
 * override, whose bucket belongs to the entries' own values.
 */
export function writeBaseKey(
  keys: KeyBytes,
  rules: DomainRules,
  descriptor: Descriptor,
  matched: readonly Rule[] | undefined,
  hashesValues: boolean,
): void {
  keys.write(rules.keyPrefix);
  let depth = 0;
  for (let i = 0; i < descriptor.entryCount; i++) {
    const entryKey = descriptor.keys[i] as string;
    if (rules.costEntries.size > 0 && rules.costEntries.has(entryKey)) continue;
    const rule = matched?.[depth++];
    if (rule?.sharesThreshold) writeSharedEntry(keys, entryKey, rule);
    else writeEntry(keys, entryKey, descriptor.values[i] as string, hashesValues);
  }
}
