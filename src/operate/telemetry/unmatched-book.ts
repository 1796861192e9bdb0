// Counts descriptors that met no rule, by domain, kept over reloads: for metrics, /config and the log. Bounded, because callers choose
// the domain.

import { showable, textOf } from "../../engine/domain/request.ts";
import { OTHER_DOMAINS, UnmatchedStats, type UnmatchedStatsBook } from "../../engine/domain/stats.ts";
import type { RateLimitedLog } from "./rate-limited-log.ts";
import { shortText } from "./short-text.ts";

/** Most domains without rules that are told apart; all further ones count as OTHER_DOMAINS. */
export const UNKNOWN_DOMAINS_MAX = 200;
/** Most keys of an example. */
const KEYS_SHOWN_MAX = 8;

/** What a domain has counted. */
export interface UnmatchedEntry {
  readonly domain: string;
  readonly hasRules: boolean;
  readonly descriptors: number;
  /** The keys of one descriptor that met no rule; empty if none was noted. */
  readonly exampleKeys: readonly string[];
}

interface Kept {
  readonly domain: string;
  hasRules: boolean;
  readonly stats: UnmatchedStats;
  toldDescriptors: number;
}

/** Keeps UnmatchedStats by domain. Domains are given as one-byte text. */
export class UnmatchedBook implements UnmatchedStatsBook {
  readonly #kept = new Map<string, Kept>();
  /** Given to sets of rules that are not in force, and may never be. */
  readonly #offered = new Map<string, UnmatchedStats>();
  #unknown = 0;

  unmatchedOf(domain: string): UnmatchedStats {
    const name = nameOf(domain);
    const known = this.#kept.get(name)?.stats ?? this.#offered.get(name);
    if (known !== undefined) return known;
    const stats = new UnmatchedStats();
    this.#offered.set(name, stats);
    return stats;
  }

  /** Counts the descriptors of a call that named a domain without rules. */
  countUnknown(domain: string, descriptors: number): void {
    const name = nameOf(domain);
    const kept = this.#kept.get(name)?.stats ?? this.#keepUnknown(name);
    kept.descriptors += descriptors;
  }

  /** Takes the domains that have rules after a reload. Domains that have lost their rules count as unknown from now on. */
  retain(domains: Iterable<{ readonly domain: string; readonly unmatched: UnmatchedStats }>): void {
    this.#offered.clear();
    const names = new Set<string>();
    for (const { domain, unmatched } of domains) {
      const name = nameOf(domain);
      names.add(name);
      this.#noteRules(name, unmatched);
    }
    for (const [name, kept] of this.#kept) {
      if (!kept.hasRules || names.has(name)) continue;
      kept.hasRules = false;
      if (kept.stats.descriptors === 0 || this.#unknown >= UNKNOWN_DOMAINS_MAX) this.#kept.delete(name);
      else this.#unknown++;
    }
  }

  /** The domains with at least one descriptor that met no rule. */
  *entries(): Generator<UnmatchedEntry> {
    for (const { domain, hasRules, stats } of this.#kept.values()) {
      if (stats.descriptors > 0)
        yield { domain, hasRules, descriptors: stats.descriptors, exampleKeys: shownKeys(stats) };
    }
  }

  /** Logs each domain with new descriptors since the last call; to be called now and then. */
  tell(log: RateLimitedLog): void {
    for (const kept of this.#kept.values()) {
      const { domain, hasRules, stats } = kept;
      const fresh = stats.descriptors - kept.toldDescriptors;
      if (fresh === 0) continue;
      kept.toldDescriptors = stats.descriptors;
      const message = hasRules
        ? "descriptors met no rule and passed without a limit of their own"
        : "calls named a domain without rules and passed without a limit";
      const fields = { domain, descriptors: fresh, ...(hasRules ? { keys: shownKeys(stats) } : {}) };
      log.warn(`unmatched ${domain}`, message, () => fields);
      stats.wantsExample = true;
    }
  }

  #noteRules(name: string, stats: UnmatchedStats): void {
    const kept = this.#kept.get(name);
    if (kept === undefined) this.#keep(name, true, stats);
    else if (!kept.hasRules) {
      kept.hasRules = true;
      this.#unknown--;
    }
  }

  #keep(domain: string, hasRules: boolean, stats = this.#offered.get(domain) ?? new UnmatchedStats()): UnmatchedStats {
    this.#kept.set(domain, { domain, hasRules, stats, toldDescriptors: 0 });
    return stats;
  }

  #keepUnknown(name: string): UnmatchedStats {
    if (this.#unknown < UNKNOWN_DOMAINS_MAX) {
      this.#unknown++;
      return this.#keep(name, false);
    }
    return this.#kept.get(OTHER_DOMAINS)?.stats ?? this.#keep(OTHER_DOMAINS, false);
  }
}

function nameOf(oneByte: string): string {
  return textOf(shortText(showable(oneByte)));
}

function shownKeys({ exampleKeys }: UnmatchedStats): readonly string[] {
  return exampleKeys.slice(0, KEYS_SHOWN_MAX).map(nameOf);
}
