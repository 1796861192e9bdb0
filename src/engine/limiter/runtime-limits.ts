// Finds the limits at run time (engine/runtime) of a call's descriptors, and keeps what they make of the rules.

import type { Clock } from "../../base/clock.ts";
import { Descriptor, type LimitRequest } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { isInForce, type RuntimeLimit } from "../runtime/runtime-limit.ts";
import type { DomainRows, ReadValue, RuntimeRow, RuntimeTable } from "../runtime/runtime-table.ts";
import { apply } from "./applied-limit.ts";
import type { AppliedLimit, CallerLimits } from "./call.ts";

/** Most values that are kept applied to a rule: some 600 bytes each. */
const KEPT_MAX = 16_384;

/** Finds and applies, one call at a time. */
export class RuntimeLimits implements CallerLimits {
  readonly table: RuntimeTable;
  readonly #clock: Clock;
  readonly #hiddenDescriptor = new Descriptor();
  /** By descriptor of the latest call: what is set for it, if that does something. */
  readonly #found: (ReadValue | undefined)[] = [];
  foundUs = 0;
  /** Values that have something applied. */
  readonly #applied: ReadValue[] = [];

  constructor(table: RuntimeTable, clock: Clock) {
    this.table = table;
    this.#clock = clock;
  }

  find({ descriptors, descriptorCount }: LimitRequest, rules: DomainRules): boolean {
    const domain = this.table.domain(rules.domain);
    if (domain === undefined) return false;
    let isFound = false;
    this.foundUs = 0;
    for (let i = 0; i < descriptorCount; i++) {
      const read = this.#read(rules, domain, descriptors[i] as Descriptor);
      this.#found[i] = read?.limit !== undefined && this.#isInForce(read.limit) ? read : undefined;
      isFound ||= this.#found[i] !== undefined;
    }
    return isFound;
  }

  mayBlock(index: number): boolean {
    return this.#found[index]?.limit?.change.kind === "block";
  }

  of(index: number, rule: Rule): AppliedLimit | undefined {
    const read = this.#found[index];
    if (read?.limit === undefined) return undefined;
    const known = read.applied as AppliedLimit | undefined;
    return known?.of === rule ? known : this.#apply(read, read.limit, rule);
  }

  /** The store's clock, in microseconds. */
  nowUs(): number {
    return this.#clock.nowUs() + this.table.clockOffsetUs;
  }

  /** The row of a descriptor's caller, whether or not it does anything. */
  row(rules: DomainRules, descriptor: Descriptor): RuntimeRow | undefined {
    const domain = this.table.domain(rules.domain);
    if (domain === undefined) return undefined;
    const rowOf = (each: Descriptor) => this.table.findRow(rules.domain, domain, each, rules.costEntries);
    if (!this.#mayBeHidden(domain, descriptor)) return rowOf(descriptor);
    const [first, second] = this.#spellings(rules, descriptor);
    return rowOf(first) ?? rowOf(second);
  }

  #isInForce(limit: RuntimeLimit): boolean {
    if (limit.untilUs > 0 && this.foundUs === 0) this.foundUs = this.nowUs();
    return isInForce(limit, this.foundUs);
  }

  #read(rules: DomainRules, domain: DomainRows, descriptor: Descriptor): ReadValue | undefined {
    const { costEntries } = rules;
    if (!this.#mayBeHidden(domain, descriptor)) return this.table.find(rules.domain, domain, descriptor, costEntries);
    const [first, second] = this.#spellings(rules, descriptor);
    return (
      this.table.find(rules.domain, domain, first, costEntries) ??
      this.table.find(rules.domain, domain, second, costEntries)
    );
  }

  /** Hashing costs more than all the rest, so it is left out for keys without hidden values. */
  #mayBeHidden({ hidden }: DomainRows, { keys }: Descriptor): boolean {
    return hidden.size > 0 && hidden.has(keys[0] as string);
  }

  /** The descriptor as the rules show its values now, and as they did before an edit. */
  #spellings(rules: DomainRules, descriptor: Descriptor): readonly [Descriptor, Descriptor] {
    const hidden = this.#hidden(descriptor);
    return hidesValues(rules, descriptor) ? [hidden, descriptor] : [descriptor, hidden];
  }

  /** The descriptor with its values hidden. */
  #hidden({ keys, values, entryCount }: Descriptor): Descriptor {
    this.#hiddenDescriptor.reset();
    for (let i = 0; i < entryCount; i++)
      this.#hiddenDescriptor.addEntry(keys[i] as string, shownValue(values[i] as string, true));
    return this.#hiddenDescriptor;
  }

  #apply(read: ReadValue, limit: RuntimeLimit, rule: Rule): AppliedLimit {
    const applied = apply(limit, rule);
    if (this.#applied.length >= KEPT_MAX) {
      for (const each of this.#applied) each.applied = undefined;
      this.#applied.length = 0;
    }
    if (read.applied === undefined) this.#applied.push(read);
    read.applied = applied;
    return applied;
  }
}
