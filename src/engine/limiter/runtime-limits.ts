// Finds the limits at run time (engine/runtime) of a call's descriptors, and keeps what they make of the rules.

import type { Clock } from "../../base/clock.ts";
import { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { RuntimeRow, RuntimeTable } from "../runtime/runtime-table.ts";
import { apply } from "./applied-limit.ts";
import type { AppliedLimit, CallerLimits } from "./call.ts";

/** Most limits at run time that are kept applied to a rule: some 600 bytes each, unless callers on one plan share them. */
const KEPT_MAX = 16_384;

/** Finds and applies, one call at a time. */
export class RuntimeLimits implements CallerLimits {
  readonly table: RuntimeTable;
  readonly #clock: Clock;
  readonly #hiddenDescriptor = new Descriptor();
  #domain: ReturnType<RuntimeTable["domain"]>;
  /** Rows that have something applied. */
  readonly #applied: RuntimeRow[] = [];
  /** By value: callers on one plan have the same text. */
  readonly #byValue = new Map<string, AppliedLimit>();

  constructor(table: RuntimeTable, clock: Clock) {
    this.table = table;
    this.#clock = clock;
  }

  begin(domain: string): boolean {
    this.#domain = this.table.domain(domain);
    return this.#domain !== undefined;
  }

  nowUs(): number {
    return this.#clock.nowUs() + this.table.clockOffsetUs;
  }

  of(rules: DomainRules, descriptor: Descriptor, rule: Rule): AppliedLimit | undefined {
    const row = this.row(rules, descriptor);
    if (row?.limit === undefined || row.limit.change.kind === "none") return undefined;
    const known = row.applied as AppliedLimit | undefined;
    const applied = known?.of === rule ? known : this.#apply(row, rule);
    return applied.untilUs === 0 || this.nowUs() < applied.untilUs ? applied : undefined;
  }

  /** The row of a descriptor's caller, in the domain of `begin`: as the rules show its values now, or as they did before an edit. */
  row(rules: DomainRules, descriptor: Descriptor): RuntimeRow | undefined {
    const domain = this.#domain;
    if (domain === undefined) return undefined;
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

  #apply(row: RuntimeRow, rule: Rule): AppliedLimit {
    let applied = this.#byValue.get(row.value);
    if (applied?.of !== rule) applied = apply(row.limit as NonNullable<RuntimeRow["limit"]>, rule);
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
