// Ranges of addresses. IPv4-mapped IPv6 addresses (::ffff:10.0.0.1) count as IPv4, in rules and in values.

import ipaddr from "ipaddr.js";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** A range of IPv4 or IPv6 addresses. */
export interface Range {
  /** `address/bits`, normalized. */
  readonly text: string;
  readonly network: Address;
  readonly bits: number;
}

// Longer text is no address: an IPv6 address with an IPv4 tail and a zone fits. It is not parsed.
const ADDRESS_CHARS_MAX = 64;
const MAPPED_BITS = 96;

/** Reads `10.0.0.0/8`, `2001:db8::/32` or a single address. Returns a sentence that says what was expected for any other text. */
export function parseRange(text: string): Range | string {
  const [addressText = "", bitsText, ...rest] = text.split("/");
  const written = parseWritten(addressText);
  if (written === undefined || rest.length > 0)
    return "expected a range of addresses such as 10.0.0.0/8 or 2001:db8::/32";
  const bitsMax = written.kind() === "ipv4" ? 32 : 128;
  const bits = bitsText === undefined ? bitsMax : /^\d{1,3}$/.test(bitsText) ? Number(bitsText) : Number.NaN;
  if (!(bits <= bitsMax)) return `expected 0 to ${bitsMax} bits after the slash`;
  const isMapped = written instanceof ipaddr.IPv6 && written.isIPv4MappedAddress() && bits >= MAPPED_BITS;
  const network = isMapped ? (written as ipaddr.IPv6).toIPv4Address() : written;
  const networkBits = isMapped ? bits - MAPPED_BITS : bits;
  const first = firstOf(network, networkBits);
  if (first !== network.toString()) return `expected the first address of the range, which is ${first}/${networkBits}`;
  return { text: `${first}/${networkBits}`, network, bits: networkBits };
}

/** Tests whether a text is an address in one of its ranges. The time does not depend on the number of ranges. */
export class AddressRanges {
  readonly #networks = new Set<string>();
  readonly #bitsOf = { ipv4: new Set<number>(), ipv6: new Set<number>() };

  add({ network, bits }: Range): void {
    this.#bitsOf[network.kind()].add(bits);
    this.#networks.add(networkKey(network.toByteArray(), bits));
  }

  has(text: string): boolean {
    if (text !== last.text) last = { text, ...addressIn(text) };
    const { kind, bytes } = last;
    if (kind === undefined) return false;
    // One lookup per prefix length that occurs.
    for (const bits of this.#bitsOf[kind]) if (this.#networks.has(networkKey(bytes, bits))) return true;
    return false;
  }
}

const PRIVATE_RANGES = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].map(
  (text) => parseRange(text) as Range,
);

/** Ranges with at least this many bits are taken as single hosts and not as a network of many callers. */
const HOSTS_BITS = { ipv4: 24, ipv6: 64 } as const;

/** Whether many callers of a private network may have addresses of the range. */
export function coversPrivateNetwork(range: Range): boolean {
  return range.bits < HOSTS_BITS[range.network.kind()] && PRIVATE_RANGES.some((each) => doMeet(each, range));
}

function doMeet(one: Range, other: Range): boolean {
  const bits = Math.min(one.bits, other.bits);
  return networkKey(one.network.toByteArray(), bits) === networkKey(other.network.toByteArray(), bits);
}

interface ParsedText {
  readonly text: string;
  /** Undefined if the text is no address. */
  readonly kind?: "ipv4" | "ipv6";
  readonly bytes: readonly number[];
}

// Caches the last parsed text, because many rules of a key test the same value.
let last: ParsedText = { text: "", bytes: [] };

function addressIn(text: string): Omit<ParsedText, "text"> {
  const written = parseWritten(text);
  if (written === undefined) return { bytes: [] };
  const address = written instanceof ipaddr.IPv6 && written.isIPv4MappedAddress() ? written.toIPv4Address() : written;
  return { kind: address.kind(), bytes: address.toByteArray() };
}

// Length of the address and number of bits, then the network's bits as characters.
function networkKey(bytes: readonly number[], bits: number): string {
  const whole = bits >> 3;
  const rest = bits & 7;
  let key = `${bytes.length}/${bits}:`;
  for (let i = 0; i < whole; i++) key += String.fromCharCode(bytes[i] ?? 0);
  return rest === 0 ? key : key + String.fromCharCode((bytes[whole] ?? 0) & (0xff00 >> rest));
}

// Accepts four decimal parts or IPv6. Older forms (127.1, 0x7f.1) mean different addresses in different programs.
function parseWritten(text: string): Address | undefined {
  if (text.length > ADDRESS_CHARS_MAX) return undefined;
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  return text.includes(":") && ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text) : undefined;
}

function firstOf(network: Address, bits: number): string {
  const cidr = `${network.toString()}/${bits}`;
  const first =
    network.kind() === "ipv4" ? ipaddr.IPv4.networkAddressFromCIDR(cidr) : ipaddr.IPv6.networkAddressFromCIDR(cidr);
  return first.toString();
}
