// What `address` costs an entry: from text to its group's text, next to ipaddr.js, in turns in one process. Run after `npm run build`:
//   node --expose-gc bench/micro/addresses.mjs
// The goals are at most 500 ns for an IPv6 address, a fifth of ipaddr.js, and no text for most callers who come again.

import ipaddr from "ipaddr.js";
import { median, printTable } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";

const { AddressGroups } = await loadDist("engine/rules/address-groups.js");

const CALLERS = 1_000;
const PER_ROUND = 100_000;
const ROUNDS = 15;
const hex = (i) => (i % 0xffff).toString(16);
const KINDS = {
  IPv4: (i) => `203.0.${i >> 8}.${i & 255}`,
  "IPv4-mapped": (i) => `::ffff:203.0.${i >> 8}.${i & 255}`,
  "IPv6, short": (i) => `2001:db8:${hex(i)}::1`,
  "IPv6, whole": (i) => `2001:0db8:85a3:${hex(i + 4096)}:1319:8a2e:0370:7334`,
  "IPv6, masked by Envoy": (i) => `2001:db8:${hex(i)}::/64`,
  "no address": (i) => `unknown-${i}`,
};
const groups = new AddressGroups(64, []);

function byIpaddr(text) {
  if (!ipaddr.isValid(text)) return text;
  const address = ipaddr.process(text);
  if (address.kind() === "ipv4") return address.toString();
  return `${ipaddr.IPv6.networkAddressFromCIDR(`${address.toNormalizedString()}/64`).toRFC5952String()}/64`;
}

/** Texts as decoded messages have them: each flat, and each an object of its own. */
const textsOf = (kind, count, from = 0) =>
  Array.from({ length: count }, (_, i) => Buffer.from(kind(from + i)).latin1Slice());

function nsOf(texts, run) {
  const before = process.cpuUsage();
  for (const text of texts) run(text);
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1_000) / texts.length;
}

const rows = Object.entries(KINDS).map(([name, kind]) => {
  const known = Array.from({ length: PER_ROUND / CALLERS }, () => textsOf(kind, CALLERS)).flat();
  const some = known.slice(0, PER_ROUND / 20);
  const ours = [];
  const fresh = [];
  const theirs = [];
  nsOf(known, (text) => groups.groupOf(text));
  nsOf(some, byIpaddr);
  globalThis.gc?.();
  const heapBefore = process.memoryUsage().heapUsed;
  nsOf(known, (text) => groups.groupOf(text));
  const bytes = Math.max(0, process.memoryUsage().heapUsed - heapBefore) / known.length;
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(nsOf(known, (text) => groups.groupOf(text)));
    fresh.push(nsOf(textsOf(kind, CALLERS * 4, round * CALLERS * 4), (text) => groups.groupOf(text)));
    theirs.push(nsOf(some, byIpaddr));
  }
  return {
    address: name,
    ns: median(ours).toFixed(0),
    "ns, new callers": median(fresh).toFixed(0),
    "ns, ipaddr.js": median(theirs).toFixed(0),
    share: (median(ours) / median(theirs)).toFixed(3),
    "heap bytes": bytes.toFixed(1),
  };
});
printTable(`The group of an address, ${ROUNDS} rounds of ${PER_ROUND}; CPU`, rows);
