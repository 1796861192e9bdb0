// Bucket ids that no rule hands out. Envoy is told to deny them; operators are told why. Bounded, and without values.

import { nearestName } from "../base/near-name.ts";
import { Descriptor, textOf } from "../engine/domain/request.ts";
import { findRule } from "../engine/rules/match.ts";
import type { DomainRules, RuleSet } from "../engine/rules/rule-set.ts";
import type { Entries } from "./wire.ts";

/** Kinds of ids that are remembered. */
const KINDS_MAX = 100;
/** Envoys report every 5 s, so what is wrong shows again soon. */
const FORGET_US = 60_000_000;
/** Orders of the entries of so many are tried. */
const ORDERED_MAX = 4;

export interface UnknownBucket {
  /** Ordinary text. */
  readonly domain: string;
  readonly keys: readonly string[];
  readonly why: string;
  seenUs: number;
}

export class UnknownBuckets {
  readonly #kinds = new Map<string, UnknownBucket>();

  /** Notes an id; returns what is new about it. */
  note(rules: RuleSet | undefined, domain: string, entries: Entries, nowUs: number): UnknownBucket | undefined {
    const keys = entries.map(([key]) => textOf(key));
    const kind = [textOf(domain), ...keys].join("\0");
    const known = this.#kinds.get(kind);
    if (known !== undefined && nowUs - known.seenUs < FORGET_US) {
      known.seenUs = nowUs;
      return undefined;
    }
    if (this.#kinds.size >= KINDS_MAX) this.#forget(nowUs);
    if (this.#kinds.size >= KINDS_MAX) return undefined;
    const bucket = { domain: textOf(domain), keys, why: whyNot(rules, domain, entries), seenUs: nowUs };
    this.#kinds.set(kind, bucket);
    return bucket;
  }

  list(nowUs: number): readonly UnknownBucket[] {
    this.#forget(nowUs);
    return [...this.#kinds.values()];
  }

  #forget(nowUs: number): void {
    for (const [kind, { seenUs }] of this.#kinds) if (nowUs - seenUs >= FORGET_US) this.#kinds.delete(kind);
  }
}

/** Why no rule hands the bucket out, with what is near. */
function whyNot(ruleSet: RuleSet | undefined, domain: string, entries: Entries): string {
  const domains = ruleSet?.domains ?? new Map<string, DomainRules>();
  const rules = domains.get(domain);
  if (rules === undefined) {
    const near = nearestName(textOf(domain), [...domains.keys()].map(textOf));
    return near === undefined
      ? "no rule file has this domain"
      : `no rule file has this domain; did you mean '${near}'?`;
  }
  const asked = matching(rules, entries);
  if (asked !== undefined) return `the rule ${textOf(asked)} has no 'hand_out'`;
  const own = new Set(entries.map(([key]) => key));
  let near: readonly string[] | undefined;
  let most = -1;
  for (const keys of rules.handedOut.values()) {
    const shared = keys.filter((key) => own.has(key)).length * 2 - keys.length;
    if (shared <= most && near !== undefined) continue;
    near = keys;
    most = shared;
  }
  if (near === undefined) return "no rule of the domain has 'hand_out'";
  if (near.length === own.size && near.every((key) => own.has(key)))
    return `no rule with 'hand_out' and these keys has the values`;
  return `the nearest rule with 'hand_out' has ${near.length === 1 ? "the key" : "the keys"} ${near.map(textOf).join(", ")}`;
}

/** The path of a rule with limits that the entries meet in some order. */
function matching(rules: DomainRules, entries: Entries): string | undefined {
  if (entries.length > ORDERED_MAX) return undefined;
  for (const order of ordersOf(entries)) {
    const descriptor = new Descriptor();
    for (const [key, value] of order) descriptor.addEntry(key, value);
    const rule = findRule(rules, descriptor, []);
    if (rule !== undefined && rule.limits.length > 0 && rule.handOut === undefined) return rule.path;
  }
  return undefined;
}

function ordersOf(entries: Entries): Entries[] {
  if (entries.length < 2) return [entries];
  return entries.flatMap((first, i) => ordersOf(entries.filter((_, j) => j !== i)).map((rest) => [first, ...rest]));
}
