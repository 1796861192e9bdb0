// Ranges of addresses. IPv4-mapped IPv6 addresses (::ffff:10.0.0.1) count as IPv4, in rules and in values.

import { Address, areEqual, groupOf, hashOf, MAPPED_BITS } from "./address.ts";

/** A range of IPv4 or IPv6 addresses. */
export interface Range {
  /** `address/bits`, normalized. */
  readonly text: string;
  readonly isIPv4: boolean;
  /** The network; of IPv4 as IPv4-mapped IPv6. */
  readonly groups: Uint16Array;
  readonly bits: number;
}

/**
 * Reads `10.0.0.0/8`, `2001:db8::/32` or a single address. Returns a sentence that says what was expected for any other
 * text.
 */
export function parseRange(text: string): Range | string {
  const slash = text.indexOf("/");
  const written = new Address();
  if (!written.read(slash < 0 ? text : text.slice(0, slash)) || !written.isBare || text.includes("/", slash + 1))
    return EXPECTED;
  const shownMax = written.isDotted ? 32 : 128;
  if (!written.read(text)) return `expected 0 to ${shownMax} bits after the slash`;
  const hasHostBits = written.groups.some((group, i) => group !== groupOf(written.groups, i, written.bits));
  const range = rangeOf(written);
  return hasHostBits ? `expected the first address of the range, which is ${range.text}` : range;
}

/** The range of all addresses with the same first bits. */
export function rangeOf(address: Address): Range {
  const { bits, isIPv4, groups } = address;
  const [first] = address.textOf(bits).split("/");
  return { text: `${first}/${isIPv4 ? bits - MAPPED_BITS : bits}`, isIPv4, groups: groups.slice(), bits };
}

const EXPECTED = "expected a range of addresses such as 10.0.0.0/8 or 2001:db8::/32";

/**
 * A set of ranges. The time of a lookup does not depend on their number, only on how many lengths of prefixes they
 * have.
 */
export class AddressRanges {
  /** The prefix lengths that occur, the longest first. */
  readonly #lengths: number[] = [];
  /** A hash table: a range has eight groups, and its bits plus 1. */
  readonly #groups: Uint16Array;
  readonly #bits: Uint8Array;

  /** `rangesMax`: how many may be added. */
  constructor(rangesMax: number) {
    const slots = 2 ** Math.ceil(Math.log2(2 * rangesMax + 1));
    this.#groups = new Uint16Array(slots * 8);
    this.#bits = new Uint8Array(slots);
  }

  add({ groups, bits }: Range): void {
    const slot = this.#slotOf(groups, bits);
    this.#bits[slot] = bits + 1;
    this.#groups.set(groups, slot * 8);
    if (this.#lengths.includes(bits)) return;
    this.#lengths.push(bits);
    this.#lengths.sort((a, b) => b - a);
  }

  /** Bits of the smallest range that has the whole network; -1 if none has. */
  smallestAround({ groups, bits, isIPv4 }: Address): number {
    for (let i = 0; i < this.#lengths.length; i++) {
      const length = this.#lengths[i] as number;
      if (isIPv4 && length < MAPPED_BITS) return -1;
      if (length <= bits && this.#bits[this.#slotOf(groups, length)] !== 0) return length;
    }
    return -1;
  }

  /** Whether the text is an address in one of the ranges, or a network within one (`10.1.0.0/16`). */
  has(text: string): boolean {
    if (text !== tested.text) tested = { text, isAddress: address.read(text) && address.isBare };
    return tested.isAddress && this.smallestAround(address) >= 0;
  }

  /** Where the range is, or an empty place. */
  #slotOf(groups: Uint16Array, bits: number): number {
    const mask = this.#bits.length - 1;
    let slot = hashOf(groups, bits) & mask;
    while (this.#bits[slot] !== 0 && !(this.#bits[slot] === bits + 1 && areEqual(groups, this.#groups, slot * 8, bits)))
      slot = (slot + 1) & mask;
    return slot;
  }
}

// The text that was tested last, because many rules of a key test the same value.
let tested = { text: "", isAddress: false };
const address = new Address();

const PRIVATE_RANGES = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].map(
  (text) => parseRange(text) as Range,
);

/** Ranges with at least this many bits are taken as single hosts and not as a network of many callers. */
const HOSTS_BITS = { ipv4: MAPPED_BITS + 24, ipv6: 64 } as const;

/** Whether many callers of a private network may have addresses of the range. */
export function coversPrivateNetwork(range: Range): boolean {
  if (range.bits >= (range.isIPv4 ? HOSTS_BITS.ipv4 : HOSTS_BITS.ipv6)) return false;
  return PRIVATE_RANGES.some((each) => {
    const bits = Math.min(each.bits, range.bits);
    return (
      each.isIPv4 === range.isIPv4 &&
      range.groups.every((_, i) => groupOf(range.groups, i, bits) === groupOf(each.groups, i, bits))
    );
  });
}
