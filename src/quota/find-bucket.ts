// Finds the bucket that an Envoy's bucket id leads to: the id's entries in the order of the rule's keys are the
// descriptor of a call, whose take has bucket and limit.

import { RequestError } from "../base/errors.ts";
import { Algorithm } from "../engine/domain/limit.ts";
import type { ProcessCounts } from "../engine/domain/store.ts";
import { Kind, type Take } from "../engine/domain/take.ts";
import { LimitCall, NO_FINISHER } from "../engine/limiter/call.ts";
import { TakeFiller } from "../engine/limiter/fill.ts";
import type { FillOptions } from "../engine/limiter/question.ts";
import { keySetOf } from "../engine/rules/hand-out.ts";
import type { DomainRules, Rule, RuleSet } from "../engine/rules/rule-set.ts";
import type { Strategy } from "./part.ts";
import type { Finder, Found } from "./quota-book.ts";
import { type Entries, idEntriesOf } from "./wire.ts";

export interface FinderOptions extends FillOptions {
  readonly rules: () => RuleSet | undefined;
  readonly processes: ProcessCounts;
}

export class BucketFinder implements Finder {
  readonly #options: FinderOptions;
  readonly #filler: TakeFiller;
  readonly #call = new LimitCall(NO_FINISHER);

  constructor(options: FinderOptions) {
    this.#options = options;
    // Blocks and exemptions have no bucket; they are looked up in addition.
    this.#filler = new TakeFiller({ ...options, countsNothing: true });
  }

  find(domain: string, id: Buffer): Found | undefined {
    return this.findEntries(domain, idEntriesOf(id));
  }

  /** The same for the entries of an id, one-byte text. */
  findEntries(domain: string, entries: Entries): Found | undefined {
    const rules = this.#options.rules()?.domains.get(domain);
    const rule = rules && this.#fill(rules, entries);
    const take = this.#call.group.takes[0] as Take;
    if (rule?.handOut === undefined || this.#call.group.size !== 1) return undefined;
    if (take.limit.algorithm !== Algorithm.tokenBucket) return undefined;
    const terms = { limit: take.limit, handOut: rule.handOut, processes: this.#options.processes.sureCount() };
    return { key: take.bucketKey, terms, mode: this.#modeOf(rules as DomainRules, rule, take) };
  }

  /** Fills the call; returns the rule of its descriptor. */
  #fill(rules: DomainRules, entries: Entries): Rule | undefined {
    const keys = rules.handedOut.get(keySetOf(entries.map(([key]) => key)));
    if (keys === undefined) return undefined;
    const call = this.#call;
    call.reset();
    call.request.domain = rules.domain;
    const descriptor = call.request.addDescriptor();
    const values = new Map(entries);
    for (const key of keys) descriptor.addEntry(key, values.get(key) as string);
    try {
      this.#filler.fill(call, rules);
    } catch (error) {
      if (error instanceof RequestError) return undefined;
      throw error;
    }
    return call.rules[0];
  }

  #modeOf(rules: DomainRules, rule: Rule, take: Take): Strategy {
    const { runtime } = this.#options;
    const applied = runtime?.find(this.#call.request, rules) === true ? runtime.of(0, rule) : undefined;
    if (applied?.blocked !== undefined || this.#call.refusal !== undefined) return "deny";
    return applied?.kind === "exempt" || take.kind === Kind.shadow ? "allow" : "bucket";
  }
}
