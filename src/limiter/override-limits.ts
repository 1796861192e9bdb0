// Limits that calls bring along (overrides): made once for each amount and unit under a rule, and kept in bounded number. An
// override takes the place of the rule's numbers; what else the rule says holds for it, too.

import { RequestError } from "../core/errors.ts";
import { Algorithm, type Limit, type OnStoreFailure, Sync, UNIT_SECONDS, Unit } from "../core/limit.ts";
import type { StatsBook } from "../core/limit-stats.ts";
import type { Descriptor } from "../core/request.ts";
import { AMOUNT_MAX } from "../core/units.ts";
import { limitKeySuffix } from "../rules/bucket-key.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { asCounter } from "./fill-counter.ts";

/**
 * Limits of one generation; there are at most two, so callers can't fill memory: some 8 MB. Whatever remembers a bucket
 * (leases, refusals) tells limits apart by identity, so those in use have to stay: they move to the next generation.
 */
const GENERATION_MAX = 16_384;

interface OverrideOptions {
  /** Of limits whose entries lead to no rule. */
  readonly onStoreFailure: OnStoreFailure;
  readonly retryAfterJitter: number;
  readonly statsBook: StatsBook;
}

/** Limits by unit and amount, of each rule's first limit or of a domain. */
type Generation = WeakMap<Limit | DomainRules, Map<number, Limit>>;

/** Makes and keeps limits of overrides. */
export class OverrideLimits {
  readonly #options: OverrideOptions;
  #recent: Generation = new WeakMap();
  #older: Generation = new WeakMap();
  #recentCount = 0;

  constructor(options: OverrideOptions) {
    this.#options = options;
  }

  /**
   * The limit that the descriptor brings along, the same object as long as it is asked for now and then. `rule` has a limit;
   * undefined: the entries lead to none. Throws RequestError for a unit that doesn't exist.
   */
  limitOf(descriptor: Descriptor, rules: DomainRules, rule: Rule | undefined): Limit {
    const owner = rule?.limits[0] ?? rules;
    const id = descriptor.overrideUnit * (AMOUNT_MAX + 1) + descriptor.overrideAmount;
    const kept = this.#recent.get(owner)?.get(id);
    return kept ?? this.#keep(owner, id, this.#older.get(owner)?.get(id) ?? this.#make(descriptor, rules, rule));
  }

  #keep(owner: Limit | DomainRules, id: number, limit: Limit): Limit {
    if (this.#recentCount >= GENERATION_MAX) {
      this.#older = this.#recent;
      this.#recent = new WeakMap();
      this.#recentCount = 0;
    }
    let limits = this.#recent.get(owner);
    if (limits === undefined) {
      limits = new Map();
      this.#recent.set(owner, limits);
    }
    limits.set(id, limit);
    this.#recentCount++;
    return limit;
  }

  #make({ overrideAmount: amount, overrideUnit: unit }: Descriptor, rules: DomainRules, rule: Rule | undefined): Limit {
    const windowSeconds = UNIT_SECONDS[unit];
    if (windowSeconds === undefined || unit === Unit.unknown) {
      throw new RequestError(
        "REQUEST_OVERRIDE_UNIT",
        `the limit of a descriptor has unit ${unit}; expected 1 to 7 (SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK)`,
      );
    }
    // Of a rule with several limits the first speaks: an override takes the place of all of them.
    const words = rule?.limits[0];
    const limit: Limit = {
      algorithm: Algorithm.slidingWindow,
      amount,
      burst: amount,
      windowSeconds,
      writtenSeconds: windowSeconds,
      debtMax: amount,
      shownAmount: amount,
      shownUnit: unit as Unit,
      name: "",
      id: rule === undefined ? `${rules.domain}/override` : `${rules.domain}/${rule.path}#override`,
      path: rule?.path ?? "override",
      keySuffix: limitKeySuffix(Algorithm.slidingWindow, windowSeconds, ""),
      isCounter: false,
      retryAfterJitter: words?.retryAfterJitter ?? this.#options.retryAfterJitter,
      onStoreFailure: words?.onStoreFailure ?? this.#options.onStoreFailure,
      // A lease ends where another limit comes. The other ways to share have no bound for limits that change with each call.
      sync: words?.sync === Sync.lease ? Sync.lease : Sync.exact,
      replaces: [],
      // One series for all of a domain, however many amounts callers bring.
      stats: this.#options.statsBook.statsOf(rules.domain, ["override"], ""),
    };
    return rules.counterPrefix === undefined ? limit : asCounter(limit);
  }
}
