// One spelling and one group for each address, against ipaddr.js as the oracle. The client's helper and the service agree.

import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { expect, test } from "vitest";
import { addressOf } from "../../packages/client/src/address-of.ts";
import { Address } from "../../src/engine/rules/address.ts";
import { AddressGroups } from "../../src/engine/rules/address-groups.ts";
import { AddressRanges, parseRange, type Range, rangeOf } from "../../src/engine/rules/cidr.ts";
import { runs } from "../support/runs.ts";

const RUNS = { numRuns: runs(5_000) };

/** Zeros often, so that runs of them begin anywhere. */
const group = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  fc.integer({ min: 0, max: 0xffff }),
  fc.integer({ min: 0, max: 15 }),
);
const groups = fc.oneof(
  fc.array(group, { minLength: 8, maxLength: 8 }),
  fc
    .tuple(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0, max: 0xffff }))
    .map((v4) => [0, 0, 0, 0, 0, 0xffff, ...v4]),
);

/** How an address is written: what a proxy or a hostile caller may do without changing what it means. */
const style = fc.record({
  dotted: fc.boolean(),
  plain: fc.boolean(),
  width: fc.integer({ min: 1, max: 4 }),
  upper: fc.boolean(),
  gap: fc.nat({ max: 7 }),
  around: fc.constantFrom("", "brackets", "port", "zone", "blanks"),
  port: fc.integer({ min: 0, max: 65_535 }),
});
type Style = typeof style extends fc.Arbitrary<infer T> ? T : never;

function written(all: readonly number[], how: Style): string {
  const { dotted, plain, width, upper, gap, around, port } = how;
  const [high = 0, low = 0] = all.slice(6);
  const ipv4 = [high >> 8, high & 255, low >> 8, low & 255].join(".");
  const isIPv4 = all.slice(0, 5).every((each) => each === 0) && all[5] === 0xffff;
  if (plain && isIPv4) {
    if (around === "blanks") return ` ${ipv4}\t`;
    return around === "port" ? `${ipv4}:${port}` : ipv4;
  }
  const shown = dotted ? all.slice(0, 6) : all;
  // A run of zeros that contains `gap`, whole or in part, or no `::`.
  let end = gap;
  while (end < shown.length && shown[end] === 0) end++;
  const hex = shown.map((each) => each.toString(16).padStart(width, "0"));
  const tail = dotted ? [ipv4] : [];
  const text =
    end === gap
      ? [...hex, ...tail].join(":")
      : `${hex.slice(0, gap).join(":")}::${[...hex.slice(end), ...tail].join(":")}`;
  const cased = upper ? text.toUpperCase() : text;
  if (around === "brackets") return `[${cased}]`;
  if (around === "port") return `[${cased}]:${port}`;
  if (around === "zone") return `${cased}%eth0`;
  return around === "blanks" ? `\t ${cased} ` : cased;
}

function oracle(all: readonly number[], ipv6Bits: number): string {
  const address = new ipaddr.IPv6([...all]);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  const network = ipaddr.IPv6.networkAddressFromCIDR(`${address.toNormalizedString()}/${ipv6Bits}`) as ipaddr.IPv6;
  return ipv6Bits === 128 ? network.toRFC5952String() : `${network.toRFC5952String()}/${ipv6Bits}`;
}

const bits = fc.integer({ min: 1, max: 128 });

// Promise(rules): With `address`, every spelling of an address is one caller, and so are all addresses of an IPv6 network.
test("every spelling of an address has one text, and the addresses of a network share it", () => {
  fc.assert(
    fc.property(groups, style, bits, (all, how, ipv6Bits) => {
      const rule = new AddressGroups(ipv6Bits, []);
      const name = rule.groupOf(written(all, how));
      expect(name).toBe(oracle(all, ipv6Bits));
      expect(addressOf(written(all, how), { ipv6: ipv6Bits })).toBe(name);
      expect(rule.groupOf(name)).toBe(name);
    }),
    RUNS,
  );
});

test("a network that Envoy has masked keeps its length if that is shorter", () => {
  fc.assert(
    fc.property(groups, fc.integer({ min: 0, max: 128 }), bits, (all, length, ipv6Bits) => {
      const address = new ipaddr.IPv6([...all]);
      const text = `${address.toNormalizedString()}/${length}`;
      const isIPv4 = address.isIPv4MappedAddress() && length >= 96;
      const kept = isIPv4 ? length : Math.min(length, ipv6Bits);
      const network = ipaddr.IPv6.networkAddressFromCIDR(`${address.toNormalizedString()}/${kept}`) as ipaddr.IPv6;
      const shown = isIPv4 ? network.toIPv4Address().toString() : network.toRFC5952String();
      const suffix = kept === 128 ? "" : `/${isIPv4 ? kept - 96 : kept}`;
      expect(new AddressGroups(ipv6Bits, []).groupOf(text)).toBe(`${shown}${suffix}`);
      expect(addressOf(text, { ipv6: ipv6Bits })).toBe(`${shown}${suffix}`);
    }),
    RUNS,
  );
});

/** Letters that addresses are written with, and hostile ones. */
const hostile = fc.oneof(
  fc.string({
    unit: fc.constantFrom("0", "1", "2", "5", "f", "F", "x", ".", ":", "::", "/", "%", "[", "]", " "),
    maxLength: 24,
  }),
  fc.string({ unit: "binary", maxLength: 80 }).map((text) => Buffer.from(text).toString("latin1")),
  fc.tuple(groups, style, fc.nat(60), fc.string({ maxLength: 2 })).map(([all, how, at, piece]) => {
    const text = written(all, how);
    return text.slice(0, at) + piece + text.slice(at);
  }),
);

test("text is an address only if ipaddr.js reads it, and means the same; other text stays", () => {
  const address = new Address();
  const rule = new AddressGroups(128, []);
  fc.assert(
    fc.property(hostile, (text) => {
      expect(addressOf(text, { ipv6: 128 })).toBe(rule.groupOf(text));
      if (!address.read(text)) {
        expect(rule.groupOf(text)).toBe(text);
        return;
      }
      const bare = text
        .trim()
        .replace(/^\[(.*)\](:\d+)?$/, "$1")
        .replace(/^([\d.]+):\d+$/, "$1")
        .replace(/%[^/]*/, "")
        // ipaddr.js takes this form, IPv4-compatible IPv6, for IPv4-mapped.
        .replace(/^::(?=\d+\.)/, "::0:");
      const [written = "", length] = bare.split("/");
      const parsed = ipaddr.process(written);
      const kept = length === undefined ? "" : `/${length}`;
      const shown = parsed instanceof ipaddr.IPv6 ? parsed.toRFC5952String() : parsed.toString();
      expect(rule.groupOf(text)).toBe(kept === "" ? shown : rule.groupOf(`${shown}${kept}`));
    }),
    RUNS,
  );
});

const range = fc.tuple(groups, fc.integer({ min: 0, max: 128 })).map(([all, length]) => {
  const address = new Address();
  address.read(`${new ipaddr.IPv6([...all]).toNormalizedString()}/${length}`);
  return rangeOf(address);
});

function isWithin(all: readonly number[], { text, isIPv4 }: Range): boolean {
  const address = ipaddr.process(new ipaddr.IPv6([...all]).toNormalizedString());
  return (address.kind() === "ipv4") === isIPv4 && address.match(ipaddr.parseCIDR(text) as never);
}

test("a group is in just those ranges of rules in which its address is", () => {
  fc.assert(
    fc.property(
      groups,
      fc.array(range, { maxLength: 6 }),
      fc.nat({ max: 128 }),
      bits,
      (all, others, length, ipv6Bits) => {
        const address = new Address();
        address.read(`${new ipaddr.IPv6([...all]).toNormalizedString()}/${length}`);
        const ranges = [...others, rangeOf(address)];
        const name = new AddressGroups(
          ipv6Bits,
          ranges.filter(({ isIPv4 }) => !isIPv4),
        ).groupOf(new ipaddr.IPv6([...all]).toNormalizedString());
        for (const each of ranges) {
          expect(parseRange(each.text)).toEqual(each);
          const one = new AddressRanges(1);
          one.add(each);
          expect([each.text, name, one.has(name)]).toEqual([each.text, name, isWithin(all, each)]);
        }
      },
    ),
    RUNS,
  );
});
