// Which rules and limits of a rule set the calls of cases have met, and which limits have refused a call.

import type { Limit } from "../../../engine/domain/limit.ts";
import { textOf } from "../../../engine/domain/request.ts";
import { isOver, type Take } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import type { DomainRules, Rule, RuleSet } from "../../../engine/rules/rule-set.ts";
import { allRules, rulesOfTiers } from "../../../engine/rules/tiers.ts";

/** What cases have met of one rule set. */
export type CoverageReport = ReturnType<Coverage["report"]>;

/** Gathers over all cases on one rule set. */
export class Coverage {
  readonly #ruleSet: RuleSet;
  readonly #met = new Set<Limit | Rule>();
  readonly #refusing = new Set<Limit>();

  constructor(ruleSet: RuleSet) {
    this.#ruleSet = ruleSet;
  }

  /** Looks at a decided call. */
  look(call: LimitCall): void {
    for (const rule of call.rules) if (rule !== undefined) this.#met.add(rule);
    for (let i = 0; i < call.group.size; i++) {
      const take = call.group.takes[i] as Take;
      this.#met.add(take.limit);
      if (isOver(take)) this.#refusing.add(take.limit);
    }
  }

  report() {
    const neverMet: string[] = [];
    const neverRefusing: string[] = [];
    let limits = 0;
    let passing = 0;
    for (const domain of this.#ruleSet.domains.values()) {
      for (const limit of domain.limits) {
        limits++;
        if (!this.#met.has(limit)) neverMet.push(textOf(limit.names.id));
        if (!this.#refusing.has(limit)) neverRefusing.push(textOf(limit.names.id));
      }
      // Rules whose descriptors pass: unlimited ones, of each tier too.
      const passingRules = [...allRules(domain.root)].flatMap(rulesOfTiers).filter((rule) => rule.isUnlimited);
      for (const rule of passingRules) {
        passing++;
        if (!this.#met.has(rule)) neverMet.push(passingName(domain, rule));
      }
    }
    const all = limits + passing;
    return {
      /** Limits and rules that let pass without one. */
      all,
      met: all - neverMet.length,
      limits,
      /** Limits that refused at least one call. */
      refusing: limits - neverRefusing.length,
      never_met: neverMet,
      never_refusing: neverRefusing,
    };
  }
}

function passingName({ domain }: DomainRules, rule: Rule): string {
  const tier = rule.tiers === undefined ? "" : `#${textOf(rule.limitsName)}`;
  return `${textOf(domain)}/${textOf(rule.path)}${tier} (unlimited)`;
}
