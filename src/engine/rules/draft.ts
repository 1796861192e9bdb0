// Rules between reading and building: typed, with defaults not applied yet, and with their places, so that checks of
// the whole domain can name the line. Text is one-byte.

import { getOrInsert } from "../../base/get-or-insert.ts";
import type { LongWork } from "../../base/long-work.ts";
import type { Algorithm, OnStoreFailure, Sync } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";
import type { Rate } from "./limit-shape.ts";
import type { readPriority } from "./priority.ts";
import { formatPlace, type ProblemLog } from "./problems.ts";
import type { DomainRules, Pattern, RequiredEntries, RuleSettings } from "./rule-set.ts";
import type { Place } from "./source.ts";

/** A name as written, with its place. */
export interface PlacedName {
  readonly name: string;
  readonly at: Place;
}

/** `guarantee` of a limit. */
export interface GuaranteeDraft extends Rate {
  readonly at: Place;
  /** Key of the entry that names the caller, one-byte. */
  readonly entry: string;
  readonly burst: number;
  readonly percent: number;
  /** For how many callers it shall be kept; undefined: not said. */
  readonly callers: number | undefined;
}

/** One limit. */
export interface LimitDraft extends Rate {
  readonly at: Place;
  /** As written; empty if it has none. */
  readonly name: string;
  readonly nameAt: Place;
  readonly algorithm: Algorithm;
  /**
   * True if envoyproxy/ratelimit would read the same limit: `requests_per_unit` and `unit`, without algorithm, window,
   * sync or priority.
   */
  readonly isPlain: boolean;
  /** True for `concurrent`, which limits live holds. */
  readonly isConcurrent: boolean;
  readonly burst: number;
  readonly debtMax: number;
  /** Place of `debt_max`; undefined if it is not written. */
  readonly debtMaxAt: Place | undefined;
  readonly retryAfterJitter: number | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  readonly sync: Sync;
  readonly syncAt: Place;
  readonly replaces: readonly PlacedName[];
  readonly priority: ReturnType<typeof readPriority>;
  readonly guarantee?: GuaranteeDraft | undefined;
}

/** What limits and unlimited rules have. */
type NamedDraft = Pick<LimitDraft, "name" | "replaces" | "guarantee"> & {
  readonly priority?: LimitDraft["priority"];
};

/** The limits of a rule. */
export interface LimitsDraft {
  /** Their name in the file's `limits`; empty if the rule itself writes them. */
  readonly name: string;
  /** True if the rule has a limit or is unlimited. */
  readonly hasLimit: boolean;
  /** What an unlimited rule says, with its `requests_per_unit` as written; it has no limits. */
  readonly unlimited: (NamedDraft & { readonly requests: number }) | undefined;
  readonly limits: readonly LimitDraft[];
  /** True if the limits come from a list, so that each needs a label. */
  readonly isList: boolean;
  /** `post_paid` of the rule or, without one, of its domain's defaults; undefined if neither has it. */
  readonly postPaid: boolean | undefined;
}

/** One pattern of a rule; `one_of` has several. */
export interface PatternDraft {
  readonly pattern: Pattern;
  /** The pattern in paths and shared bucket keys; empty for `any`. */
  readonly text: string;
  readonly at: Place;
  /** True for ranges of addresses that many callers of a private network may have. */
  readonly coversPrivateNetwork?: boolean;
}

/** The limits among which an entry chooses (`tier`). */
export interface TierDraft {
  /** Key of the entry, one-byte. */
  readonly entry: string;
  /** The limits of all tiers. Their names are the values of the entry. */
  readonly choices: readonly LimitsDraft[];
}

/** `address`: the values of the rule's key are addresses. */
export interface AddressDraft {
  readonly at: Place;
  readonly ipv6Bits: number;
}

export interface RuleDraft extends RuleSettings {
  readonly keyAt: Place;
  readonly address: AddressDraft | undefined;
  readonly patterns: readonly PatternDraft[];
  /** With a tier, the limits of callers whose entry names none. */
  readonly limits: LimitsDraft;
  readonly tier: TierDraft | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  /** `hash_values` as written; it applies to all rules below, too. */
  readonly hashesValues: boolean;
  readonly children: RuleDraft[];
}

export interface GlobalLimitDraft {
  readonly limit: LimitDraft;
  readonly countsHits: boolean;
}

/** All limits that the rule may apply. */
export function limitsOfDraft({ limits, tier }: RuleDraft): readonly LimitsDraft[] {
  return tier?.choices ?? [limits];
}

interface SideUse {
  readonly at: Place;
  /** What a rule uses the entry for, as the predicate of a sentence. */
  readonly says: string;
}

export class DomainDraft {
  /** One-byte. */
  readonly domain: string;
  /** Where the first file names the domain. */
  readonly at: Place;
  /** Names of the files and resources, in their order. */
  readonly files: string[] = [];
  /** The rules of the top level. */
  readonly rules: RuleDraft[] = [];
  readonly globalLimits: GlobalLimitDraft[] = [];
  /** See DomainRules. */
  required: RequiredEntries | undefined;
  chargesGivenHits = false;
  /** By the key whose values are addresses. */
  readonly addresses = new Map<string, AddressDraft>();
  /** The names of all limits. */
  readonly names = new Set<string>();
  readonly #replaced: PlacedName[] = [];
  /** Where rules write a key, by key. */
  readonly #keys = new Map<string, Place[]>();
  /** The first use of each entry that matching skips. */
  readonly #sideUses = new Map<string, SideUse>();
  /** The first use that is no mark of settlements. */
  readonly #carried = new Map<string, SideUse>();
  /** Where settlements are marked with any value, by entry. */
  readonly #marks = new Map<string, Place>();
  readonly #settleValues = new Map<string, Set<string>>();

  constructor(domain: string, at: Place) {
    this.domain = domain;
    this.at = at;
  }

  addGlobalLimit(draft: GlobalLimitDraft): void {
    this.globalLimits.push(draft);
    this.#noteLimit(draft.limit);
  }

  addRequired(required: RequiredEntries, at: Place, log: ProblemLog): void {
    if (this.required === undefined) this.required = required;
    else log.error(at, "the domain already has a 'require', in its defaults or in another file");
  }

  /** Notes a rule of any level. */
  note(rule: RuleDraft, log: ProblemLog): void {
    const { key, keyAt, at, address, tier, cost, hold } = rule;
    if (address !== undefined) this.#noteAddress(key, address, log);
    getOrInsert(this.#keys, key, () => []).push(keyAt);
    if (tier !== undefined) this.#noteCarried(tier.entry, at, "carries the tier");
    for (const { limits, unlimited } of limitsOfDraft(rule)) {
      for (const limit of unlimited === undefined ? limits : [unlimited]) {
        this.#noteLimit(limit);
        const { guarantee } = limit;
        if (guarantee !== undefined && guarantee.entry !== key)
          this.#noteCarried(guarantee.entry, guarantee.at, "names the callers of the guarantee");
      }
    }
    if (cost?.entry !== undefined) this.#noteCarried(cost.entry, at, "carries the cost");
    if (hold === undefined) return;
    const { idEntry, settleEntry, settleValue, estimate } = hold;
    this.#noteCarried(idEntry, at, "names the holds");
    this.#noteUse(settleEntry, at, "marks the settlements");
    if (estimate?.entry !== undefined) this.#noteCarried(estimate.entry, at, "carries the estimate");
    const values = getOrInsert(this.#settleValues, settleEntry, () => new Set());
    if (settleValue !== undefined) values.add(settleValue);
    else if (!this.#marks.has(settleEntry)) this.#marks.set(settleEntry, at);
  }

  /** Warns of limits that replace one that does not exist. */
  *warnUnknownReplaces(log: ProblemLog): LongWork<void> {
    for (const { name, at } of this.#replaced) {
      yield;
      if (!this.names.has(name))
        log.warn(at, `replaces: no limit of this domain is named '${textOf(name)}', so nothing is replaced`);
    }
  }

  /**
   * The keys of entries that matching skips. Reports rules that use one of them as their key, and entries that carry
   * something in one rule and mark settlements in another: all calls with them would be settlements, which are never
   * refused.
   */
  sideEntries(log: ProblemLog): ReadonlySet<string> {
    for (const [entry, use] of this.#sideUses) {
      const message = `'${textOf(entry)}' ${use.says} of the rule at ${formatPlace(use.at)} and is skipped in matching, so it can't be a key`;
      for (const keyAt of this.#keys.get(entry) ?? []) log.error(keyAt, message, "Rename the entry or the key.");
    }
    for (const [entry, markedAt] of this.#marks) {
      const use = this.#carried.get(entry);
      if (use === undefined) continue;
      const message = `'${textOf(entry)}' ${use.says} here, but marks settlements with any value by the rule at ${formatPlace(markedAt)}, so calls with it would never be refused`;
      log.error(use.at, message, "Name different entries, or give that 'settle' a 'value'.");
    }
    return new Set(this.#sideUses.keys());
  }

  /**
   * The entries that mark settlements, each with its values. If one rule accepts any value of the entry, all values
   * mark one.
   */
  get settleEntries(): DomainRules["settleEntries"] {
    for (const entry of this.#marks.keys()) this.#settleValues.set(entry, new Set());
    return this.#settleValues;
  }

  #noteAddress(key: string, address: AddressDraft, log: ProblemLog): void {
    const first = getOrInsert(this.addresses, key, () => address);
    if (first.ipv6Bits === address.ipv6Bits) return;
    const message = `address: '${textOf(key)}' is grouped by ${first.ipv6Bits} bits of IPv6 at ${formatPlace(first.at)}, here by ${address.ipv6Bits}`;
    log.error(
      address.at,
      message,
      "Write the same number; one 'address' counts for all rules of the key in the domain.",
    );
  }

  #noteLimit({ name, replaces, priority }: NamedDraft): void {
    if (name !== "") this.names.add(name);
    for (const replaced of replaces) this.#replaced.push(replaced);
    if (priority !== undefined) this.#noteCarried(priority.entry, priority.at, "carries the priority");
  }

  #noteCarried(entry: string, at: Place, says: string): void {
    this.#noteUse(entry, at, says);
    if (!this.#carried.has(entry)) this.#carried.set(entry, { at, says });
  }

  #noteUse(entry: string, at: Place, says: string): void {
    if (!this.#sideUses.has(entry)) this.#sideUses.set(entry, { at, says });
  }
}
