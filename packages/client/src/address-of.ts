// Addresses as values of entries: one spelling each, and one value for the whole IPv6 network that a caller owns. The
// service reads them alike in rules with `address`.

import { isIPv4, isIPv6 } from "node:net";
import { checkMembers, checkWhole } from "./misuse.ts";

export interface AddressOptions {
  /** Bits of an IPv6 address that name its caller: 1 to 128. Default: 64, the smallest network that a host is given. */
  readonly ipv6?: number;
}

/** Longer text is no address. */
const CHARS_MAX = 64;
const GROUPS = 8;
/** Bits of an IPv6 address, and those before an IPv4 address in it. */
const BITS = 128;
const MAPPED_BITS = 96;

/**
 * An IPv4 address or an IPv6 one in brackets, with or without a port; or an IPv6 address. Zones are left out. Last the
 * prefix length.
 */
const PARTS =
  /^(?:(?:([\d.]+)|\[([\da-f:.]+)(?:%[^\]/]+)?\])(?::\d{1,5}(?!\/))?|([\da-f:.]+)(?:%[^\]/]+)?)(?:\/(\d{1,3}))?$/i;

/**
 * The caller that an address stands for: `192.0.2.1`, also of `::ffff:192.0.2.1` and `192.0.2.1:4711`; `2001:db8::/64`
 * of each address in it. Text that is no address is returned as it is, and "" for undefined, so that all callers
 * without an address share one limit.
 */
export function addressOf(text: string | undefined, options: AddressOptions = {}): string {
  checkMembers("addressOf", options, ["ipv6"]);
  const { ipv6: ipv6Bits = 64 } = options;
  checkWhole("ipv6", ipv6Bits, 1, BITS);
  if (text === undefined || text.length > CHARS_MAX || isIPv4(text)) return text ?? "";
  const [, dotted, bracketed, bare, length] = PARTS.exec(text.replace(/^[ \t]+|[ \t]+$/g, "")) ?? [];
  const groups = groupsOf(dotted, bracketed ?? bare);
  const bits = length === undefined ? BITS : Number(length) + (dotted === undefined ? 0 : MAPPED_BITS);
  if (groups === undefined || bits > BITS) return text;
  if (bits >= MAPPED_BITS && isMapped(groups)) return ipv4Text(masked(groups, bits), bits);
  const kept = Math.min(bits, ipv6Bits);
  return ipv6Text(masked(groups, kept), kept);
}

/** The eight groups of 16 bits; an IPv4 address has those of its IPv4-mapped one. */
function groupsOf(ipv4: string | undefined, ipv6: string | undefined): readonly number[] | undefined {
  if (ipv4 !== undefined) return isIPv4(ipv4) ? groupsOf(undefined, `::ffff:${ipv4}`) : undefined;
  if (ipv6 === undefined || !isIPv6(ipv6)) return undefined;
  const hexadecimal = ipv6.replace(
    /(\d+)\.(\d+)\.(\d+)\.(\d+)$/,
    (_, a: string, b: string, c: string, d: string) =>
      `${(Number(a) * 256 + Number(b)).toString(16)}:${(Number(c) * 256 + Number(d)).toString(16)}`,
  );
  const [before = [], after = []] = hexadecimal.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const zeros = new Array<string>(GROUPS - before.length - after.length).fill("0");
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16));
}

function isMapped(groups: readonly number[]): boolean {
  return groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
}

/** With zeros after the first `bits` bits. */
function masked(groups: readonly number[], bits: number): readonly number[] {
  return groups.map((group, i) => group & (0xffff << Math.min(16, Math.max(0, 16 * (i + 1) - bits))));
}

function ipv4Text(groups: readonly number[], bits: number): string {
  const text = groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 255])
    .join(".");
  return bits === BITS ? text : `${text}/${bits - MAPPED_BITS}`;
}

/** As RFC 5952 writes it: without the first of the longest runs of zeros. */
function ipv6Text(groups: readonly number[], bits: number): string {
  const all = groups.map((group) => group.toString(16)).join(":");
  const runs = [...all.matchAll(/(?<![\da-f])0(?::0)+(?![\da-f])/g)];
  const [run] = runs.toSorted(([a], [b]) => b.length - a.length);
  const text =
    run === undefined
      ? all
      : `${all.slice(0, run.index).replace(/:$/, "")}::${all.slice(run.index + run[0].length).replace(/^:/, "")}`;
  return bits === BITS ? text : `${text}/${bits}`;
}
