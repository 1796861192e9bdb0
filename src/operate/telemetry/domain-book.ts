// Counts descriptors that met no rule, by domain, kept over reloads: for metrics, /config and the log. Bounded, because
// callers choose the domain. For domains with rules it keeps the shapes of recent descriptors, to say why no call
// matches a rule.

import { getOrInsert } from "../../base/get-or-insert.ts";
import type { LongWork } from "../../base/long-work.ts";
import { showable, textOf } from "../../engine/domain/request.ts";
import { DomainStats, type DomainStatsBook, OTHER_DOMAINS } from "../../engine/domain/stats.ts";
import type { UnmatchedShape } from "../../engine/rules/why-unmatched.ts";
import type { RateLimitedLog } from "./rate-limited-log.ts";
import { shortText } from "./short-text.ts";

/** Most domains without rules that are counted by name; all further ones count as OTHER_DOMAINS. */
export const UNKNOWN_DOMAINS_MAX = 200;
/** Most keys of an example. */
const KEYS_SHOWN_MAX = 8;

/** Most shapes of a domain, and most examples of a shape; the newest are kept. One example is taken a second. */
const SHAPES_MAX = 32;
const EXAMPLES_MAX = 8;

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
  /** Offered: given to a set of rules that is not in force, and may never be. */
  state: "offered" | "with rules" | "unknown";
  readonly stats: DomainStats;
  toldDescriptors: number;
  /** The set of rules that last had it, or asked for it, by its number. */
  set: number;
  /** By their keys, the newest last. */
  readonly shapes: Map<string, UnmatchedShape>;
}

/** Keeps DomainStats by domain. Domains are given as one-byte text. */
export class DomainBook implements DomainStatsBook {
  readonly #kept = new Map<string, Kept>();
  /** Number of the set in force. */
  #set = 0;
  #unknown = 0;

  domainStatsOf(domain: string): DomainStats {
    const name = nameOf(domain);
    const kept = getOrInsert(this.#kept, name, () => this.#open(name));
    kept.set = this.#set;
    return kept.stats;
  }

  /** Counts the descriptors of a call that named a domain without rules. */
  countUnknown(domain: string, descriptors: number): void {
    const name = nameOf(domain);
    const { stats } = this.#inUse(name) ?? this.#keepUnknown(name);
    stats.descriptors += descriptors;
  }

  /**
   * Takes the domains of the set in force from now on. Domains that have lost their rules become unknown. Keeps what
   * the next set asks for meanwhile. The work for one set must be done before the work for the next begins.
   */
  retain(domains: Iterable<{ readonly domain: string; readonly stats: DomainStats }>): LongWork<void> {
    return this.#retain(++this.#set, domains);
  }

  *#retain(set: number, domains: Parameters<DomainBook["retain"]>[0]): LongWork<void> {
    for (const { domain, stats } of domains) {
      yield;
      this.#noteRules(nameOf(domain), stats, set);
    }
    for (const kept of this.#kept.values()) {
      yield;
      if (kept.set < set && kept.state !== "unknown") this.#loseRules(kept);
    }
  }

  #loseRules(kept: Kept): void {
    const { domain, state, stats } = kept;
    if (state === "with rules" && stats.descriptors > 0 && this.#unknown < UNKNOWN_DOMAINS_MAX) {
      this.#addUnknown(kept);
      return;
    }
    this.#kept.delete(domain);
  }

  #inUse(name: string): Kept | undefined {
    const kept = this.#kept.get(name);
    return kept?.state === "offered" ? undefined : kept;
  }

  /** The domains with at least one descriptor that met no rule. */
  *entries(): Generator<UnmatchedEntry & Pick<Kept, "stats">> {
    for (const { domain, state, stats } of this.#kept.values()) {
      const descriptors = state === "offered" ? 0 : stats.descriptors;
      const hasRules = state === "with rules";
      if (descriptors > 0) yield { domain, hasRules, descriptors, stats, exampleKeys: shownKeys(stats) };
    }
  }

  /** Shapes of a domain's descriptors that met no rule; of many, the newest. */
  shapesOf(domain: string): Iterable<UnmatchedShape> {
    return this.#kept.get(nameOf(domain))?.shapes.values() ?? [];
  }

  /** Logs each domain with new descriptors since the last call. Called once a second. */
  tell(log: RateLimitedLog): void {
    for (const kept of this.#kept.values()) {
      const { domain, state, stats } = kept;
      const fresh = stats.descriptors - kept.toldDescriptors;
      if (fresh === 0 || state === "offered") continue;
      const hasRules = state === "with rules";
      kept.toldDescriptors = stats.descriptors;
      const message = hasRules
        ? "descriptors met no rule and passed without a limit of their own"
        : "calls named a domain without rules and passed without a limit";
      const fields = { domain, descriptors: fresh, ...(hasRules ? { keys: shownKeys(stats) } : {}) };
      log.warn(`unmatched ${domain}`, message, () => fields);
      if (hasRules) noteShape(kept);
      stats.wantsExample = true;
    }
  }

  #noteRules(name: string, unmatched: DomainStats, set: number): void {
    const kept = this.#kept.get(name) ?? this.#open(name);
    // A set that was compiled before the last one came into force has other stats, which go on from those of the last
    // one.
    if (kept.stats !== unmatched) {
      const { descriptors, calls, incomplete } = kept.stats;
      Object.assign(unmatched, { descriptors, calls, incomplete });
    }
    if (kept.state === "unknown") this.#unknown--;
    this.#kept.set(name, { ...kept, stats: unmatched, state: "with rules", set: Math.max(kept.set, set) });
  }

  #open(domain: string): Kept {
    const stats = new DomainStats();
    return { domain, state: "offered", stats, toldDescriptors: 0, set: this.#set, shapes: new Map() };
  }

  #keepUnknown(name: string): Kept {
    const room = this.#unknown < UNKNOWN_DOMAINS_MAX ? name : OTHER_DOMAINS;
    return this.#inUse(room) ?? this.#addUnknown(this.#kept.get(room) ?? this.#open(room));
  }

  #addUnknown(kept: Kept): Kept {
    kept.state = "unknown";
    this.#kept.set(kept.domain, kept);
    if (kept.domain !== OTHER_DOMAINS) this.#unknown++;
    return kept;
  }
}

function noteShape({ stats: { exampleKeys, exampleValues }, shapes }: Kept): void {
  const keys = exampleKeys.slice(0, KEYS_SHOWN_MAX).map((key) => shortText(key));
  const name = JSON.stringify(keys);
  const values = exampleValues.slice(0, KEYS_SHOWN_MAX).map((value) => shortText(value));
  const known = shapes.get(name)?.values.slice(1 - EXAMPLES_MAX) ?? [];
  shapes.delete(name);
  shapes.set(name, { keys, values: [...known, values] });
  if (shapes.size > SHAPES_MAX) shapes.delete(shapes.keys().next().value as string);
}

function nameOf(oneByte: string): string {
  return textOf(shortText(showable(oneByte)));
}

function shownKeys({ exampleKeys }: DomainStats): readonly string[] {
  return exampleKeys.slice(0, KEYS_SHOWN_MAX).map(nameOf);
}
