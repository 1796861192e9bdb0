// Finds the limits at run time (engine/runtime) of a call's descriptors, and keeps what they make of the rules.

import type { Clock } from "../base/clock.ts";
import { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { hashOfDomain } from "../runtime/runtime-hash.ts";
import { readValue } from "../runtime/runtime-limit.ts";
import type { RuntimeTable } from "../runtime/runtime-table.ts";
import { type AppliedLimit, apply } from "./applied-limit.ts";

/** Most limits at run time that one thread keeps as objects, in each of two generations. */
const KEPT_MAX = 8_192;

/** Bits that mark known last values: a tenth of them are set with 100,000. */
const BITS = 1 << 20;
/** Characters at the end of a value that choose its bit. */
const BIT_CHARS = 8;

/** Of newly found callers, one in eight is remembered, so that a stream of new ones costs little. */
const KNOWN_SHARE = 7;

/** A caller that has come before, with all its entries. */
interface KnownCaller {
  readonly domain: string;
  readonly keys: readonly string[];
  readonly values: readonly string[];
  readonly applied: AppliedLimit;
}

/** Finds and applies, one call at a time. */
export class RuntimeLimits {
  readonly table: RuntimeTable;
  readonly #clock: Clock;
  readonly #hiddenDescriptor = new Descriptor();
  /** The hash of each domain that has limits at run time. */
  readonly #domains = new Map<string, number>();
  #seenChanges = 0;
  #seenGeneration = 0;
  #seenPlace = 0;
  /** By place. */
  #younger = new Map<number, AppliedLimit>();
  #older = new Map<number, AppliedLimit>();
  readonly #byValue = new Map<string, AppliedLimit>();
  /** By the last value of the descriptor. */
  readonly #front = new Map<string, KnownCaller>();
  #found = 0;
  /** A bit for each last value there is; empty until there is any. */
  #lastValues = new Int32Array();

  constructor(table: RuntimeTable, clock: Clock) {
    this.table = table;
    this.#clock = clock;
  }

  /** What the domain's limits are found by; 0 if it has none. Sees what other threads have changed. */
  hashOf(domain: string): number {
    if (this.table.changes !== this.#seenChanges) this.#look();
    return this.#domains.size === 0 ? 0 : (this.#domains.get(domain) ?? 0);
  }

  /** The store's clock, in microseconds. */
  nowUs(): number {
    return this.#clock.nowUs() + this.table.clockOffsetUs;
  }

  /**
   * What applies to the descriptor, which `rule` matches; undefined if nothing does. `domainHash` is the domain's hash, not 0. Two shortcuts
   * (bench/micro/runtime-limits.mjs): the last value shows that most callers have no limit, and callers who have one come again.
   */
  of(rules: DomainRules, domainHash: number, descriptor: Descriptor, rule: Rule): AppliedLimit | undefined {
    const { hasHashedValues, costEntries } = rules;
    if (hasHashedValues) return this.#inForce(this.#find(rules, domainHash, descriptor, rule));
    let last = descriptor.entryCount - 1;
    while (last > 0 && costEntries.size > 0 && costEntries.has(descriptor.keys[last] as string)) last--;
    const value = descriptor.values[last] ?? "";
    if (!this.#mayHave(value)) return undefined;
    const known = this.#front.get(value);
    if (known !== undefined && known.applied.of === rule && isOf(known, rules.domain, descriptor))
      return this.#inForce(known.applied);
    const applied = this.#find(rules, domainHash, descriptor, rule);
    if (applied !== undefined && (this.#found++ & KNOWN_SHARE) === 0)
      this.#know(value, rules.domain, descriptor, applied);
    return this.#inForce(applied);
  }

  #know(value: string, domain: string, { keys, values, entryCount }: Descriptor, applied: AppliedLimit): void {
    if (this.#front.size >= KEPT_MAX) this.#front.clear();
    this.#front.set(value, { domain, keys: keys.slice(0, entryCount), values: values.slice(0, entryCount), applied });
  }

  #find(rules: DomainRules, domainHash: number, descriptor: Descriptor, rule: Rule): AppliedLimit | undefined {
    const hides = rules.hasHashedValues && hidesValues(rules, descriptor);
    const kept = hides ? this.#hidden(descriptor) : descriptor;
    const place = this.table.find(rules.domain, domainHash, kept, rules.costEntries);
    return place === 0 ? undefined : this.#applied(place, rule);
  }

  #inForce(applied: AppliedLimit | undefined): AppliedLimit | undefined {
    if (applied === undefined || applied.limit.change.kind === "none") return undefined;
    const { untilUs } = applied.limit;
    return untilUs === 0 || this.nowUs() < untilUs ? applied : undefined;
  }

  /** False if no limit has this as its last value. */
  #mayHave(value: string): boolean {
    const bit = bitOf(value);
    return ((this.#lastValues[bit >>> 5] as number) & (1 << (bit & 31))) !== 0;
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
    // Callers on one plan have the same text.
    const value = this.table.valueAt(place);
    let applied = this.#byValue.get(value);
    if (applied?.of !== rule) {
      const limit = readValue(value);
      if (limit === undefined) return undefined;
      applied = apply(limit, rule);
    }
    if (this.#younger.size >= KEPT_MAX) {
      this.#older = this.#younger;
      this.#younger = new Map();
      this.#byValue.clear();
    }
    this.#younger.set(place, applied);
    this.#byValue.set(value, applied);
    return applied;
  }

  #look(): void {
    this.#seenChanges = this.table.changes;
    this.#front.clear();
    if (this.#lastValues.length === 0) this.#lastValues = new Int32Array(BITS / 32);
    if (this.table.generation !== this.#seenGeneration) {
      this.#seenGeneration = this.table.generation;
      this.#seenPlace = 0;
      this.#younger.clear();
      this.#older.clear();
      this.#domains.clear();
    }
    for (const place of this.table.places(this.#seenPlace)) {
      const { domain, entries } = this.table.keyAt(place);
      const bit = bitOf(entries.at(-1)?.[1] ?? "");
      this.#lastValues[bit >>> 5] = (this.#lastValues[bit >>> 5] as number) | (1 << (bit & 31));
      if (!this.#domains.has(domain)) this.#domains.set(domain, hashOfDomain(domain));
    }
    this.#seenPlace = this.table.endPlace;
  }
}

function isOf({ domain, keys, values }: KnownCaller, asked: string, descriptor: Descriptor): boolean {
  if (domain !== asked || keys.length !== descriptor.entryCount) return false;
  if (keys[0] !== descriptor.keys[0]) return false;
  // The only value is the one by which it was found.
  for (let i = 0; i < keys.length && keys.length > 1; i++)
    if (keys[i] !== descriptor.keys[i] || values[i] !== descriptor.values[i]) return false;
  return true;
}

function bitOf(value: string): number {
  let hash = value.length;
  for (let i = Math.max(0, hash - BIT_CHARS); i < value.length; i++)
    hash = Math.imul(hash ^ value.charCodeAt(i), 0x9e3779b1);
  return (hash ^ (hash >>> 12)) & (BITS - 1);
}
