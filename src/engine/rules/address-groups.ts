// `address` of a rule: values of the key, in the whole domain, are addresses. Each gets one spelling and stands for its
// group (an IPv6 network), before anything compares, counts, shows or keeps it. Text that is no address stays as it is.

import type { LongWork } from "../../base/long-work.ts";
import type { LimitRequest } from "../domain/request.ts";
import { Address } from "./address.ts";
import { AddressRanges, type Range, rangeOf } from "./cidr.ts";
import type { AddressDraft, PatternDraft, RuleDraft } from "./draft.ts";
import { Fields } from "./fields.ts";
import type { AddressKey, DomainRules } from "./rule-set.ts";
import { ADDRESS_IPV6_BITS_DEFAULT, ADDRESS_IPV6_BITS_MAX } from "./schema.ts";

const address = new Address();

/** The groups of one key's addresses. */
export class AddressGroups implements AddressKey {
  /** Bits of an IPv6 address that choose its group. */
  readonly #ipv6Bits: number;
  /** Smaller networks that rules name. */
  readonly #named: AddressRanges;

  constructor(ipv6Bits: number, named: readonly Range[]) {
    this.#ipv6Bits = ipv6Bits;
    this.#named = new AddressRanges(named.length);
    for (const range of named) this.#named.add(range);
  }

  /**
   * The group of an address, in its one spelling: `192.0.2.1`, `2001:db8::/64`, or a smaller network that a rule names.
   * An address is in a range of a rule if its group is. The group of a group is itself. Other text is returned as it
   * is. One-byte.
   */
  groupOf(text: string): string {
    if (!address.read(text)) return text;
    const { isIPv4, isDotted, bits } = address;
    if (isDotted) return text;
    if (isIPv4 || bits <= this.#ipv6Bits) return address.textOf(bits);
    return address.textOf(Math.max(this.#ipv6Bits, this.#named.smallestAround(address)));
  }
}

/** The value of an entry as matching, keys of buckets and limits at run time have it. One-byte. */
export function valueInRules({ addresses }: DomainRules, key: string, value: string): string {
  return addresses.size === 0 ? value : (addresses.get(key)?.groupOf(value) ?? value);
}

/** True if the value, as rules have it, is an address. */
export function isAddress(value: string): boolean {
  return address.read(value);
}

/** Replaces the addresses of a call by their groups. */
export function groupAddresses(rules: DomainRules, { descriptors, descriptorCount }: LimitRequest): void {
  if (rules.addresses.size === 0) return;
  for (let i = 0; i < descriptorCount; i++) {
    const { keys, values, entryCount } = descriptors[i] as LimitRequest["descriptors"][number];
    for (let e = 0; e < entryCount; e++) values[e] = valueInRules(rules, keys[e] as string, values[e] as string);
  }
}

/** Reads `address`: a section, or `true` for its defaults. */
export function readAddress(key: string, fields: Fields): AddressDraft | undefined {
  const field = fields.given("address");
  if (field === undefined) return undefined;
  if (key.includes("*"))
    fields.log.error(field.keyAt, "'address' can't be used with a key that contains *", "Write a rule for each key.");
  const { value } = field;
  if (value.kind === "scalar" && value.value.type === "boolean")
    return value.value.boolean ? { at: field.keyAt, ipv6Bits: ADDRESS_IPV6_BITS_DEFAULT } : undefined;
  if (value.kind !== "mapping")
    return fields.log.wrong(value, "address: expected true or a mapping", "Write 'address: { ipv6: 64 }'.");
  const section = new Fields("address", [value], fields.log);
  return { at: field.keyAt, ipv6Bits: section.whole("ipv6", 1, ADDRESS_IPV6_BITS_MAX) ?? ADDRESS_IPV6_BITS_DEFAULT };
}

/** Makes the groups of a domain's keys from its rules of all levels, one value per step. */
export function* buildAddresses(
  drafts: ReadonlyMap<string, AddressDraft>,
  rules: readonly RuleDraft[],
): LongWork<DomainRules["addresses"]> {
  const named = new Map([...drafts.keys()].map((key) => [key, [] as Range[]]));
  if (named.size > 0) yield* gatherNamed(rules, named);
  return new Map([...drafts].map(([key, { ipv6Bits }]) => [key, new AddressGroups(ipv6Bits, named.get(key) ?? [])]));
}

function* gatherNamed(rules: readonly RuleDraft[], named: ReadonlyMap<string, Range[]>): LongWork<void> {
  for (const { key, patterns, children } of rules) {
    const ofKey = named.get(key);
    for (const text of ofKey === undefined ? [] : patterns.flatMap(textsOf)) {
      yield;
      if (address.read(text) && !address.isIPv4) ofKey?.push(rangeOf(address));
    }
    yield* gatherNamed(children, named);
  }
}

function textsOf({ pattern }: PatternDraft): readonly string[] {
  if (pattern.kind === "exact") return [pattern.value];
  return pattern.kind === "cidr" ? pattern.ranges : [];
}

/** The pattern as groups are compared with it. */
export function patternOfGroups(groups: AddressKey | undefined, draft: PatternDraft): PatternDraft {
  if (groups === undefined || draft.pattern.kind !== "exact") return draft;
  const value = groups.groupOf(draft.pattern.value);
  return { ...draft, pattern: { kind: "exact", value }, text: value };
}
