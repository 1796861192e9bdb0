// Warns of rules that callers can bypass: by values that match no rule, or from private networks that are exempt.

import type { LongWork } from "../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import { parseRange, type Range } from "./cidr.ts";
import type { ProblemLog } from "./problems.ts";
import type { Rule } from "./rule-set.ts";

/** Warns of such gaps in the rules of one level. */
export function* warnBypass(rules: readonly Rule[], log: ProblemLog): LongWork<void> {
  const byKey = new Map<string, Rule[]>();
  for (const rule of rules) {
    yield;
    if (yield* exemptsPrivateNetwork(rule)) {
      const message =
        "addresses of private networks are exempt here; behind a load balancer or a proxy every caller may have one";
      log.warn(rule.at, message, "Exempt single addresses or small ranges that are surely not the proxy's.");
    }
    // A key with a star matches other keys too, so nothing can be concluded.
    if (rule.pattern.kind === "compositeWildcard") return;
    const ofKey = byKey.get(rule.key);
    if (ofKey === undefined) byKey.set(rule.key, [rule]);
    else ofKey.push(rule);
  }
  for (const ofKey of byKey.values()) {
    yield;
    warnTiersWithoutRest(ofKey, log);
  }
}

// A value with rules below it is probably a class of callers, who must not escape it by sending another value. A value with a limit and
// no rules below it is more often a single thing, such as a path.
function warnTiersWithoutRest(ofKey: readonly Rule[], log: ProblemLog): void {
  const tier = ofKey.find(({ children }) => children !== undefined);
  if (tier === undefined || ofKey.some(takesAll)) return;
  const key = textOf(tier.key);
  log.warn(
    tier.at,
    `a descriptor with another '${key}' meets no rule and passes without a limit`,
    `Add a rule for '${key}' without a value, with limits or, if that is meant, unlimited: true.`,
  );
}

function takesAll({ pattern }: Rule): boolean {
  return pattern.kind === "any" || (pattern.kind === "wildcard" && pattern.pieces.every((piece) => piece === ""));
}

const PRIVATE_RANGES = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"].flatMap(rangesOf);

/** Ranges with at least this many bits are taken as single hosts and not as a network of many callers. */
const HOSTS_BITS = { ipv4: 24, ipv6: 64 } as const;

function* exemptsPrivateNetwork({ isUnlimited, pattern }: Rule): LongWork<boolean> {
  if (!isUnlimited || pattern.kind !== "cidr") return false;
  for (const range of pattern.ranges.flatMap(rangesOf)) {
    yield;
    if (range.bits >= HOSTS_BITS[range.network.kind()]) continue;
    if (PRIVATE_RANGES.some((each) => doMeet(each, range))) return true;
  }
  return false;
}

function doMeet(one: Range, other: Range): boolean {
  if (one.network.kind() !== other.network.kind()) return false;
  const bits = Math.min(one.bits, other.bits);
  const ofOther = other.network.toByteArray();
  return one.network.toByteArray().every((byte, i) => {
    const counted = Math.min(8, Math.max(0, bits - 8 * i));
    return (byte ^ (ofOther[i] ?? 0)) >> (8 - counted) === 0;
  });
}

function rangesOf(text: string): Range[] {
  const range = parseRange(text);
  return typeof range === "string" ? [] : [range];
}
