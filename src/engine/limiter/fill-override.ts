// Fills takes of overrides: limits that descriptors bring along in place of those of the rule that their entries match.

import type { Limit } from "../domain/limit.ts";
import type { ValueStatsBook } from "../domain/limit-stats.ts";
import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { counterKey } from "../rules/compatibility.ts";
import { findRule, hidesValues, type MatchWork } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { addTake, leavesAlone, writeBaseKey } from "./add-takes.ts";
import type { LimitCall } from "./call.ts";
import type { CounterFiller } from "./fill-counter.ts";
import { OverrideLimits, type OverrideOptions } from "./override-limits.ts";
import type { Question } from "./question.ts";

interface OverrideFillerOptions extends OverrideOptions {
  readonly statsBook: OverrideOptions["statsBook"] & ValueStatsBook;
  readonly countsNothing?: boolean;
}

/** Fills the overrides of one call at a time, with the working memory of the filler that it belongs to. */
export class OverrideFiller {
  readonly #options: OverrideFillerOptions;
  readonly #limits: OverrideLimits;
  readonly #counters: CounterFiller;
  readonly #matched: Rule[];
  readonly #work: MatchWork;

  constructor(options: OverrideFillerOptions, counters: CounterFiller, matched: Rule[], work: MatchWork) {
    this.#options = options;
    this.#limits = new OverrideLimits(options);
    this.#counters = counters;
    this.#matched = matched;
    this.#work = work;
  }

  /** Adds the override's take, and those of the rule's `concurrent`. Throws RequestError for an unknown unit. */
  fill(call: LimitCall, rules: DomainRules, question: Question): void {
    const { descriptor, index } = question;
    const rule = this.#overridden(rules, descriptor);
    question.read(call.request, rules, rule);
    call.rules[index] = rule;
    const limit = this.#limits.limitOf(descriptor, rules, rule);
    const hashesValues = rule?.hashesValues ?? hidesValues(rules, descriptor, this.#work);
    if (rules.counterPrefix !== undefined) {
      const key = counterKey(rules.counterPrefix, rules, descriptor, undefined, hashesValues);
      const take = this.#counters.add(call.group, question, limit, key);
      if (this.#options.countsNothing === true) return;
      take.stats = this.#options.statsBook.statsOfValues(limit.stats, entryPath(descriptor, hashesValues));
      return;
    }
    this.#add(call, rules, question, limit, hashesValues);
    for (const other of rule?.limits ?? []) {
      if (other.isConcurrent) this.#add(call, rules, question, other, hashesValues);
    }
  }

  /** The rule with limits whose amounts the override replaces; undefined without one, and always in domains with counters. */
  #overridden(rules: DomainRules, descriptor: Descriptor): Rule | undefined {
    if (rules.counterPrefix !== undefined) return undefined;
    const rule = findRule(rules, descriptor, this.#matched, this.#work);
    return rule === undefined || rule.limits.length === 0 ? undefined : rule;
  }

  #add(call: LimitCall, rules: DomainRules, question: Question, limit: Limit, hashesValues: boolean): void {
    if (leavesAlone(question, limit)) return;
    // All calls of the rule share the places of its `concurrent`.
    const matched = limit.isConcurrent ? this.#matched : undefined;
    const { keys } = call.group;
    const keyAt = keys.end;
    writeBaseKey(keys, rules, question.descriptor, matched, hashesValues);
    keys.write(limit.keySuffix);
    addTake(call.group, question, limit, keyAt, (question.rule ?? rules).chargesGivenHits);
  }
}

/** The stat path of an override: one element per entry. */
function entryPath({ keys, values, entryCount }: Descriptor, hashesValues: boolean): string[] {
  return keys.slice(0, entryCount).map((key, i) => {
    const value = shownValue(values[i] as string, hashesValues);
    return value === "" ? key : `${key}_${value}`;
  });
}
