// Addresses as text: reads all their spellings, and writes one (RFC 5952). IPv4 is kept as IPv4-mapped IPv6
// (::ffff:a.b.c.d), so both are the same address. Hot path: 0.1 to 0.3 us an address (bench/micro/addresses.mjs).

/** Longer text is no address: an IPv6 address with an IPv4 tail, a zone, brackets and a port fits. */
const ADDRESS_CHARS_MAX = 64;
const GROUPS = 8;
/** Bits before those of an IPv4 address. */
export const MAPPED_BITS = 96;
const PORT_DIGITS_MAX = 5;
const PREFIX_DIGITS_MAX = 3;

/** The groups before those of an IPv4 address. */
const MAPPED = Uint16Array.of(0, 0, 0, 0, 0, 0xffff);

const BLANK = 0x20;
const TAB = 0x09;
const PERCENT = 0x25;
const DOT = 0x2e;
const SLASH = 0x2f;
const ZERO = 0x30;
const COLON = 0x3a;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/**
 * An address, or the network of all that begin with its first `bits` bits. One object reads many texts, one after the
 * other.
 */
export class Address {
  /** 16 bits each. Those of a network may have more bits than `bits`. */
  readonly groups = new Uint16Array(GROUPS);
  /** 0 to 128. */
  bits = 0;
  isIPv4 = false;
  /** True: the text was four decimal numbers, and nothing else. */
  isDotted = false;
  /** True: the text had no brackets, port or blanks. */
  isBare = false;

  /**
   * Reads an address with what proxies write around it: brackets, a port, a zone, a prefix length. False for any other
   * text. IPv4 has four decimal numbers without leading zeros: other forms (127.1, 010.0.0.1) are different addresses
   * in different programs.
   */
  read(text: string): boolean {
    if (text.length > ADDRESS_CHARS_MAX) return false;
    let from = 0;
    let end = text.length;
    while (from < end && isBlank(text.charCodeAt(from))) from++;
    while (end > from && isBlank(text.charCodeAt(end - 1))) end--;
    const isBracketed = isNext(text, from, end, OPEN);
    const ipv4End = isBracketed ? -1 : readIPv4(text, from, end, this.groups, GROUPS - 2);
    const isDotted = ipv4End >= 0;
    const at = isDotted ? ipv4End : this.#readIPv6(text, from, end, isBracketed);
    if (at < 0) return false;
    if (isDotted) for (let i = 0; i < GROUPS - 2; i++) this.groups[i] = MAPPED[i] as number;
    const hasPort = (isDotted || isBracketed) && isNext(text, at, end, COLON);
    this.bits = GROUPS * 16;
    if ((hasPort ? afterDigits(text, at + 1, end, PORT_DIGITS_MAX) : this.#readBits(text, at, end, isDotted)) !== end)
      return false;
    this.isBare = !isBracketed && !hasPort && end - from === text.length;
    this.isIPv4 = isDotted || (this.bits >= MAPPED_BITS && areEqual(this.groups, MAPPED, 0, MAPPED_BITS));
    this.isDotted = isDotted && this.isBare && this.bits === GROUPS * 16;
    return true;
  }

  /** Reads an IPv6 address with its zone, in brackets or without. Returns where it ends, or -1. */
  #readIPv6(text: string, from: number, end: number, isBracketed: boolean): number {
    const at = afterZone(text, readIPv6(text, isBracketed ? from + 1 : from, end, this.groups), end);
    if (!isBracketed) return at;
    return isNext(text, at, end, CLOSE) ? at + 1 : -1;
  }

  /**
   * Keeps only the first `bits` bits, and returns the text of this network; without a prefix length if these are all.
   */
  textOf(bits: number): string {
    const { groups, isIPv4 } = this;
    const used = Math.ceil(bits / 16);
    if (used > 0) groups[used - 1] = groupOf(groups, used - 1, bits);
    for (let i = used; i < GROUPS; i++) groups[i] = 0;
    this.bits = bits;
    let hash = bits;
    for (let i = isIPv4 ? GROUPS - 2 : 0; i < used; i++) hash = Math.imul(hash ^ (groups[i] as number), 0x9e3779b1);
    const slot = (hash ^ (hash >>> 15)) & (TEXTS - 1);
    if (keptBits[slot] === bits + 1 && areEqual(groups, kept, slot * GROUPS, bits)) return keptTexts[slot] as string;
    keptBits[slot] = bits + 1;
    kept.set(groups, slot * GROUPS);
    const text = isIPv4 ? ipv4Text(groups, bits) : ipv6Text(groups, bits);
    keptTexts[slot] = text;
    return text;
  }

  /** Reads a prefix length, if there is one. Returns where it ends, or -1. */
  #readBits(text: string, at: number, end: number, isDotted: boolean): number {
    if (!isNext(text, at, end, SLASH)) return at;
    const digitsEnd = afterDigits(text, at + 1, end, PREFIX_DIGITS_MAX);
    this.bits = isDotted ? MAPPED_BITS : 0;
    let number = 0;
    for (let i = at + 1; i < digitsEnd; i++) number = number * 10 + text.charCodeAt(i) - ZERO;
    this.bits += number;
    return this.bits > GROUPS * 16 ? -1 : digitsEnd;
  }
}

/** Reads four decimal numbers into two groups, from group `i` on. Returns where they end, or -1. */
function readIPv4(text: string, from: number, end: number, groups: Uint16Array, i: number): number {
  if (i > GROUPS - 2) return -1;
  let at = from;
  let high = 0;
  for (let part = 0; part < 4; part++) {
    if (part > 0 && !isNext(text, at++, end, DOT)) return -1;
    const start = at;
    let number = 0;
    for (; at < end && at - start < 3; at++) {
      const digit = text.charCodeAt(at) - ZERO;
      if (digit < 0 || digit > 9) break;
      number = number * 10 + digit;
    }
    if (at === start || number > 255 || (at > start + 1 && text.charCodeAt(start) === ZERO)) return -1;
    if ((part & 1) === 0) high = number << 8;
    else groups[i + (part >> 1)] = high | number;
  }
  return at;
}

/**
 * Reads eight groups of one to four hexadecimal digits, or fewer with `::`; the last two may be four decimal numbers.
 * Returns where they end, or -1.
 */
function readIPv6(text: string, from: number, end: number, groups: Uint16Array): number {
  let at = from;
  let count = 0;
  let gap = -1;
  if (isNext(text, at, end, COLON)) {
    if (!isNext(text, at + 1, end, COLON)) return -1;
    gap = 0;
    at += 2;
  }
  while (count < GROUPS) {
    const groupEnd = readGroup(text, at, end, groups, count);
    if (groupEnd === at && gap !== count) return -1;
    if (groupEnd === at) break;
    if (isNext(text, groupEnd, end, DOT)) {
      at = readIPv4(text, at, end, groups, count);
      count += 2;
      break;
    }
    at = groupEnd;
    count++;
    if (count === GROUPS || !isNext(text, at, end, COLON)) break;
    if (!isNext(text, ++at, end, COLON)) continue;
    if (gap >= 0) return -1;
    gap = count;
    at++;
  }
  return fillGap(groups, gap, count) ? at : -1;
}

/** Reads a group of one to four digits. Returns where they end. */
function readGroup(text: string, from: number, end: number, groups: Uint16Array, i: number): number {
  let at = from;
  let value = 0;
  for (; at < end && at - from < 4; at++) {
    const code = text.charCodeAt(at);
    const digit = code < 128 ? (HEX[code] as number) : NO_DIGIT;
    if (digit === NO_DIGIT) break;
    value = (value << 4) | digit;
  }
  groups[i] = value;
  return at;
}

/** Moves the groups after the gap to the end. False if there is no room for a gap, or no gap and too few groups. */
function fillGap(groups: Uint16Array, gap: number, count: number): boolean {
  if (gap < 0) return count === GROUPS;
  const after = GROUPS - count + gap;
  if (after > gap) groups.copyWithin(after, gap, count).fill(0, gap, after);
  return after > gap;
}

/** Group `i`, with zeros for all but the first `bits` bits of the address. */
export function groupOf(groups: Uint16Array, i: number, bits: number): number {
  const left = bits - i * 16;
  if (left >= 16) return groups[i] as number;
  return left <= 0 ? 0 : (groups[i] as number) & (0xffff << (16 - left));
}

export function hashOf(groups: Uint16Array, bits: number): number {
  let hash = bits;
  for (let i = 0; i * 16 < bits; i++) hash = Math.imul(hash ^ groupOf(groups, i, bits), 0x9e3779b1) ^ (hash >>> 15);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/**
 * Whether the first `bits` bits are those of the network whose groups begin at `from` of `networks`, and which has as
 * many.
 */
export function areEqual(groups: Uint16Array, networks: Uint16Array, from: number, bits: number): boolean {
  for (let i = 0; i * 16 < bits; i++) if (groupOf(groups, i, bits) !== networks[from + i]) return false;
  return true;
}

/** Texts that were written last, so that callers who come again cost no new text: 300 KB. */
const TEXTS = 4_096;
const keptTexts: string[] = new Array(TEXTS).fill("");
const keptBits = new Uint8Array(TEXTS);
const kept = new Uint16Array(TEXTS * GROUPS);

const bytes = Buffer.alloc(ADDRESS_CHARS_MAX);

function ipv4Text(groups: Uint16Array, bits: number): string {
  let at = 0;
  for (let i = 6; i < GROUPS; i++) {
    const group = groups[i] as number;
    if (i > 6) bytes[at++] = DOT;
    at = writeDecimal(group >> 8, at);
    bytes[at++] = DOT;
    at = writeDecimal(group & 255, at);
  }
  return withBits(at, bits, bits - MAPPED_BITS);
}

function ipv6Text(groups: Uint16Array, bits: number): string {
  // The first of the longest runs of zeros is left out, if it has two groups or more.
  let gap = -1;
  let gapLength = 1;
  for (let i = 0; i < GROUPS; ) {
    let length = 0;
    while (i + length < GROUPS && groups[i + length] === 0) length++;
    if (length > gapLength) {
      gap = i;
      gapLength = length;
    }
    i += length + 1;
  }
  let at = 0;
  for (let i = 0; i < GROUPS; i++) {
    if (i === gap) {
      bytes[at++] = COLON;
      if (i === 0) bytes[at++] = COLON;
      i += gapLength - 1;
      continue;
    }
    at = writeHexadecimal(groups[i] as number, at);
    if (i < GROUPS - 1) bytes[at++] = COLON;
  }
  return withBits(at, bits, bits);
}

function withBits(end: number, bits: number, shown: number): string {
  if (bits === GROUPS * 16) return bytes.latin1Slice(0, end);
  bytes[end] = SLASH;
  return bytes.latin1Slice(0, writeDecimal(shown, end + 1));
}

function writeHexadecimal(number: number, from: number): number {
  let at = from;
  for (let shift = number > 0xfff ? 12 : number > 0xff ? 8 : number > 0xf ? 4 : 0; shift >= 0; shift -= 4)
    bytes[at++] = HEX_DIGITS.charCodeAt((number >> shift) & 15);
  return at;
}

/** Writes a number below 1,000. */
function writeDecimal(number: number, from: number): number {
  let at = from;
  if (number > 99) bytes[at++] = ZERO + Math.trunc(number / 100);
  if (number > 9) bytes[at++] = ZERO + (Math.trunc(number / 10) % 10);
  bytes[at++] = ZERO + (number % 10);
  return at;
}

function isBlank(code: number): boolean {
  return code === BLANK || code === TAB;
}

function isNext(text: string, at: number, end: number, code: number): boolean {
  return at >= 0 && at < end && text.charCodeAt(at) === code;
}

/** Where the digits end that begin at `from`; -1 if there are none, or more than `most`. */
function afterDigits(text: string, from: number, end: number, most: number): number {
  let at = from;
  while (at < end && text.charCodeAt(at) >= ZERO && text.charCodeAt(at) <= ZERO + 9) at++;
  return at === from || at - from > most ? -1 : at;
}

/** Where a zone (`%eth0`) ends if one begins at `at`. */
function afterZone(text: string, at: number, end: number): number {
  if (!isNext(text, at, end, PERCENT)) return at;
  let after = at + 1;
  while (after < end && text.charCodeAt(after) !== CLOSE && text.charCodeAt(after) !== SLASH) after++;
  return after === at + 1 ? -1 : after;
}

const HEX_DIGITS = "0123456789abcdef";
const NO_DIGIT = 16;
/** By ASCII code: the value of a hexadecimal digit. */
const HEX = Uint8Array.from({ length: 128 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? NO_DIGIT : value;
});
