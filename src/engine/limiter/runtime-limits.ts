// Finds the limits at run time (engine/runtime) of a call's descriptors, and keeps what they make of the rules.

import type { Clock } from "../base/clock.ts";
import { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { findRule, hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { isInForce, readValue } from "../runtime/runtime-limit.ts";
import { hashOfDomain, type RuntimeTable } from "../runtime/runtime-table.ts";
import { type AppliedLimit, apply } from "./applied-limit.ts";
import type { LimitCall } from "./call.ts";

/** Most limits at run time that one thread keeps as objects, in each of two generations. */
const KEPT_MAX = 8_192;

/** Finds and applies, one call at a time. */
export class RuntimeLimits {
  readonly table: RuntimeTable;
  readonly #clock: Clock;
  readonly #matched: Rule[] = [];
  readonly #hiddenDescriptor = new Descriptor();
  /** The hash of each domain that has limits at run time. */
  readonly #domains = new Map<string, number>();
  #seenChanges = 0;
  #seenGeneration = 0;
  #seenPlace = 0;
  /** By place. */
  #younger = new Map<number, AppliedLimit>();
  #older = new Map<number, AppliedLimit>();

  constructor(table: RuntimeTable, clock: Clock) {
    this.table = table;
    this.#clock = clock;
  }

  /** Whether the domain may have any. Sees what other threads have changed. */
  has(domain: string): boolean {
    if (this.table.changes !== this.#seenChanges) this.#look();
    return this.#domains.size > 0 && this.#domains.has(domain);
  }

  /** The store's clock, in microseconds. */
  nowUs(): number {
    return this.#clock.nowUs() + this.table.clockOffsetUs;
  }

  /**
   * Writes what applies to each descriptor into `call.runtime`. To be called if the domain has any. `onlyAmounts`: for operators who ask
   * about buckets, which those of blocked and exempt callers have, too.
   */
  find(call: LimitCall, rules: DomainRules, onlyAmounts: boolean): void {
    const { request } = call;
    const nowUs = this.nowUs();
    for (let i = 0; i < request.descriptorCount; i++) {
      const applied = this.of(rules, request.descriptors[i] as Descriptor, nowUs);
      const kind = applied?.limit.change.kind;
      if (onlyAmounts && (kind === "block" || kind === "exempt")) continue;
      call.runtime[i] = applied;
    }
  }

  /** What applies to the descriptor at `nowUs`, in microseconds of the store's clock; undefined if nothing does. */
  of(rules: DomainRules, descriptor: Descriptor, nowUs: number): AppliedLimit | undefined {
    const domainHash = this.#domains.get(rules.domain);
    if (domainHash === undefined) return undefined;
    const hides = rules.hasHashedValues && hidesValues(rules, descriptor);
    const kept = hides ? this.#hidden(descriptor) : descriptor;
    const place = this.table.find(rules.domain, domainHash, kept, rules.costEntries);
    if (place === 0) return undefined;
    // Its rule may have gone since it was set.
    const rule = findRule(rules, descriptor, this.#matched);
    if (rule === undefined) return undefined;
    const applied = this.#applied(place, rule);
    return applied !== undefined && isInForce(applied.limit, nowUs) ? applied : undefined;
  }

  /** The descriptor as keys hide it. */
  #hidden({ keys, values, entryCount }: Descriptor): Descriptor {
    this.#hiddenDescriptor.reset();
    for (let i = 0; i < entryCount; i++)
      this.#hiddenDescriptor.addEntry(keys[i] as string, shownValue(values[i] as string, true));
    return this.#hiddenDescriptor;
  }

  #applied(place: number, rule: Rule): AppliedLimit | undefined {
    const known = this.#younger.get(place) ?? this.#older.get(place);
    if (known?.of === rule) return known;
    const limit = readValue(this.table.valueAt(place));
    if (limit === undefined) return undefined;
    const applied = apply(limit, rule);
    if (this.#younger.size >= KEPT_MAX) {
      this.#older = this.#younger;
      this.#younger = new Map();
    }
    this.#younger.set(place, applied);
    return applied;
  }

  #look(): void {
    this.#seenChanges = this.table.changes;
    if (this.table.generation !== this.#seenGeneration) {
      this.#seenGeneration = this.table.generation;
      this.#seenPlace = 0;
      this.#younger.clear();
      this.#older.clear();
      this.#domains.clear();
    }
    for (const place of this.table.places(this.#seenPlace)) {
      const { domain } = this.table.keyAt(place);
      if (!this.#domains.has(domain)) this.#domains.set(domain, hashOfDomain(domain));
    }
    this.#seenPlace = this.table.endPlace;
  }
}
