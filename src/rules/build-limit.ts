// From a limit's draft to the Limit that the decision path pays from.

import type { CalendarWindows } from "../core/calendar-windows.ts";
import { ALGORITHM_NAMES, Algorithm, type Limit, OnStoreFailure, type Priority } from "../core/limit.ts";
import type { StatsBook } from "../core/limit-stats.ts";
import type { UnmatchedStatsBook } from "../core/unmatched-stats.ts";
import { CONCURRENT_KEY_SUFFIX, limitKeySuffix } from "./bucket-key.ts";
import { type Calendar, calendarKey, calendarWindows } from "./calendar.ts";
import type { LimitDraft } from "./draft.ts";
import { reduceRate } from "./limit-shape.ts";
import type { SafeNames } from "./names.ts";
import { LOW_LABEL, lowLimit, type PriorityWords, reserveOf } from "./priority.ts";

/** What limits are built with, besides their drafts. */
export interface CompileOptions {
  /** Start of every bucket key; CACHE_KEY_PREFIX. */
  readonly cacheKeyPrefix?: string;
  /** True: files of the same domain are joined at the root; false: they are an error. */
  readonly mergeDomains?: boolean;
  /** Policy of limits that name none. Allow unless given. */
  readonly defaultOnStoreFailure?: OnStoreFailure;
  /** Jitter of limits that name none, 0 to 0.5. None unless given. */
  readonly defaultRetryAfterJitter?: number;
  readonly statsBook: StatsBook;
  /** Where descriptors without a rule are counted; nowhere that lasts unless given. */
  readonly unmatchedBook?: UnmatchedStatsBook;
  /** COMPATIBILITY_MODE: rules are matched, and limits of the reference's kind are counted, as envoyproxy/ratelimit does. */
  readonly compatible?: boolean;
  /** Version and hash that the rule set carries; 1 and empty unless given. */
  readonly version?: number;
  readonly hash?: string;
}

/** What stands for a limit's window in its bucket key and label. */
export function windowKeyOf({ calendar, keySeconds }: LimitDraft): number | string {
  return calendar === undefined ? keySeconds : calendarKey(calendar);
}

/** The rule a limit belongs to. */
export interface LimitOwner {
  /** One-byte. */
  readonly domain: string;
  readonly path: string;
  /** Elements of the reference's stat key, one per level. */
  readonly statPath: readonly string[];
  /** Name of all its limits together, safe in headers; empty if they have none. */
  readonly limitsName: string;
  /** What stands for the name of a limit that has none, for reading alone. */
  readonly readableName: string;
  readonly onStoreFailure: OnStoreFailure | undefined;
  /** How long a payment of its limits waits for its settlement, in seconds; 0: it is final. */
  readonly holdSeconds: number;
  /** True if the limits need a label each, because there may be several. */
  readonly isList: boolean;
  /** True if the rule asks for what only Headgate knows, so that its limits are no counters of the reference's. */
  readonly isOwnKind: boolean;
}

/** Makes limits of one domain; ids are unique across everything that shares `ids`. */
export class LimitBuilder {
  readonly #options: CompileOptions;
  readonly #names: SafeNames;
  readonly #ids: Set<string>;
  readonly #calendars = new Map<string, CalendarWindows>();

  constructor(options: CompileOptions, names: SafeNames, ids: Set<string>) {
    this.#options = options;
    this.#names = names;
    this.#ids = ids;
  }

  build(draft: LimitDraft, owner: LimitOwner): Limit {
    const name = this.#names.safe(draft.name);
    const { burst, keySeconds, debtMax, unit, calendar } = draft;
    const isCounter = this.#options.compatible === true && draft.isPlain && !owner.isOwnKind;
    const algorithm = isCounter ? Algorithm.fixedWindow : draft.algorithm;
    const label = this.#labelOf(draft, owner, algorithm, name);
    const { defaultOnStoreFailure, defaultRetryAfterJitter, statsBook } = this.#options;
    const { amount, windowSeconds } =
      algorithm === Algorithm.tokenBucket ? reduceRate(draft.amount, draft.windowSeconds) : draft;
    const limit: { -readonly [Key in keyof Limit]: Limit[Key] } = {
      algorithm,
      amount,
      burst,
      windowSeconds,
      calendar: calendar === undefined ? undefined : this.#windowsOf(calendar),
      writtenSeconds: keySeconds,
      debtMax,
      holdSeconds: owner.holdSeconds,
      isConcurrent: draft.isConcurrent,
      reserve: 0,
      priority: undefined,
      shownAmount: draft.amount,
      shownUnit: unit,
      name,
      readableName: readableNameOf(owner, name),
      id: this.#uniqueId(idOf(owner, label)),
      path: owner.path,
      keySuffix: draft.isConcurrent ? CONCURRENT_KEY_SUFFIX : limitKeySuffix(algorithm, windowKeyOf(draft), name),
      isCounter,
      retryAfterJitter: draft.retryAfterJitter ?? defaultRetryAfterJitter ?? 0,
      onStoreFailure: draft.onStoreFailure ?? owner.onStoreFailure ?? defaultOnStoreFailure ?? OnStoreFailure.allow,
      sync: draft.sync,
      replaces: draft.replaces.map((replaced) => this.#names.safe(replaced.name)),
      stats: statsBook.statsOf(owner.domain, owner.statPath, label === "" ? owner.readableName : label),
    };
    if (draft.priority !== undefined) limit.priority = this.#priority(limit, draft.priority, owner, label);
    return limit;
  }

  #priority(limit: Limit, { entry, values, percent }: PriorityWords, owner: LimitOwner, label: string): Priority {
    const shown = label === "" && owner.path === "" ? "global" : label;
    const lowLabel = joined(shown, LOW_LABEL);
    const low = lowLimit(limit, reserveOf(limit.burst, percent), {
      id: this.#uniqueId(idOf(owner, lowLabel)),
      stats: this.#options.statsBook.statsOf(owner.domain, owner.statPath, lowLabel),
    });
    return { entry, values, percent, low };
  }

  #labelOf(draft: LimitDraft, owner: LimitOwner, algorithm: Algorithm, name: string): string {
    const shape = owner.isList ? `${ALGORITHM_NAMES[algorithm]}/${windowKeyOf(draft)}` : "";
    return joined(owner.limitsName, draft.isConcurrent ? "concurrent" : name === "" ? shape : name);
  }

  // Equal calendars share their edges: a zone's midnight is reckoned once, however many limits it is of.
  #windowsOf(calendar: Calendar): CalendarWindows {
    const key = calendarKey(calendar);
    let windows = this.#calendars.get(key);
    if (windows === undefined) {
      windows = calendarWindows(calendar);
      this.#calendars.set(key, windows);
    }
    return windows;
  }

  // Paths are made to be read and could meet: {key: a, value: b/c} and {key: a, value: b} above {key: c}.
  #uniqueId(wanted: string): string {
    let id = wanted;
    for (let number = 2; this.#ids.has(id); number++) id = `${wanted}~${number}`;
    this.#ids.add(id);
    return id;
  }
}

// edge/plan/api_key#per-day; the global limit, which has no path, is edge#global unless it has a name.
function idOf({ domain, path }: LimitOwner, label: string): string {
  if (path === "") return `${domain}#${label === "" ? "global" : label}`;
  return label === "" ? `${domain}/${path}` : `${domain}/${path}#${label}`;
}

function readableNameOf({ limitsName, readableName }: LimitOwner, name: string): string {
  const own = joined(limitsName, name);
  if (own === "") return readableName;
  // The words that stand for a gateway's rule say nothing of which of its limits applies.
  return limitsName === "" || readableName === "" ? own : `${readableName}, ${own}`;
}

function joined(one: string, other: string): string {
  return one === "" || other === "" ? one + other : `${one}/${other}`;
}
