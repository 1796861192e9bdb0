// Finds the limits at run time (engine/runtime) of a call's descriptors, and keeps what they make of the rules.

import type { Clock } from "../../base/clock.ts";
import { Descriptor, type LimitRequest } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { isInForce, type RuntimeLimit } from "../runtime/runtime-limit.ts";
import type { DomainRows, RuntimeRow, RuntimeTable } from "../runtime/runtime-table.ts";
import { apply } from "./applied-limit.ts";
import type { AppliedLimit, CallerLimits } from "./call.ts";

/** Most limits at run time that are kept applied to a rule: some 600 bytes each, unless callers on one plan share them. */
const KEPT_MAX = 16_384;

/** Finds and applies, one call at a time. */
export class RuntimeLimits implements CallerLimits {
  readonly table: RuntimeTable;
  readonly #clock: Clock;
  readonly #hiddenDescriptor = new Descriptor();
  /** By descriptor of the latest call: its row, if that does something. */
  readonly #found: (RuntimeRow | undefined)[] = [];
  foundUs = 0;
  /** Rows that have something applied. */
  readonly #applied: RuntimeRow[] = [];
  /** By value: callers on one plan have the same text. */
  readonly #byValue = new Map<string, AppliedLimit>();

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
      const row = this.#row(rules, domain, descriptors[i] as Descriptor);
      this.#found[i] = row?.limit !== undefined && this.#isInForce(row.limit) ? row : undefined;
      isFound ||= this.#found[i] !== undefined;
    }
    return isFound;
  }

  mayBlock(index: number): boolean {
    return this.#found[index]?.limit?.change.kind === "block";
  }

  of(index: number, rule: Rule): AppliedLimit | undefined {
    const row = this.#found[index];
    if (row?.limit === undefined) return undefined;
    const known = row.applied as AppliedLimit | undefined;
    return known?.of === rule ? known : this.#apply(row, row.limit, rule);
  }

  /** The store's clock, in microseconds. */
  nowUs(): number {
    return this.#clock.nowUs() + this.table.clockOffsetUs;
  }

  /** The row of a descriptor's caller, whether or not it does anything. */
  row(rules: DomainRules, descriptor: Descriptor): RuntimeRow | undefined {
    const domain = this.table.domain(rules.domain);
    return domain === undefined ? undefined : this.#row(rules, domain, descriptor);
  }

  #isInForce(limit: RuntimeLimit): boolean {
    if (limit.untilUs > 0 && this.foundUs === 0) this.foundUs = this.nowUs();
    return isInForce(limit, this.foundUs);
  }

  /** The row: as the rules show the descriptor's values now, or as they did before an edit. */
  #row(rules: DomainRules, domain: DomainRows, descriptor: Descriptor): RuntimeRow | undefined {
    const { costEntries } = rules;
    // Hashing costs more than all the rest, so it is left out for keys without hidden values.
    const mayBeHidden = domain.hidden.size > 0 && domain.hidden.has(descriptor.keys[0] as string);
    if (!mayBeHidden) return this.table.find(rules.domain, domain, descriptor, costEntries);
    const [first, second] = hidesValues(rules, descriptor)
      ? [this.#hidden(descriptor), descriptor]
      : [descriptor, this.#hidden(descriptor)];
    return (
      this.table.find(rules.domain, domain, first, costEntries) ??
      this.table.find(rules.domain, domain, second, costEntries)
    );
  }

  /** The descriptor with its values hidden. */
  #hidden({ keys, values, entryCount }: Descriptor): Descriptor {
    this.#hiddenDescriptor.reset();
    for (let i = 0; i < entryCount; i++)
      this.#hiddenDescriptor.addEntry(keys[i] as string, shownValue(values[i] as string, true));
    return this.#hiddenDescriptor;
  }

  #apply(row: RuntimeRow, limit: RuntimeLimit, rule: Rule): AppliedLimit {
    let applied = this.#byValue.get(row.value);
    if (applied?.of !== rule) applied = apply(limit, rule);
    if (this.#applied.length >= KEPT_MAX) {
      for (const each of this.#applied) each.applied = undefined;
      this.#applied.length = 0;
      this.#byValue.clear();
    }
    row.applied = applied;
    this.#applied.push(row);
    this.#byValue.set(row.value, applied);
    return applied;
  }
}
