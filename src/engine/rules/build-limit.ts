// Makes Limits of the drafts that were read from rule files.

import type { CalendarWindows } from "../domain/calendar-windows.ts";
import { ALGORITHM_NAMES, Algorithm, type Limit, OnStoreFailure, type Priority } from "../domain/limit.ts";
import type { StatsBook, UnmatchedStatsBook } from "../domain/stats.ts";
import { CONCURRENT_KEY_SUFFIX, limitKeySuffix } from "./bucket-key.ts";
import { type Calendar, calendarKey, calendarWindows } from "./calendar.ts";
import type { LimitDraft } from "./draft.ts";
import { reduceRate } from "./limit-shape.ts";
import type { SafeNames } from "./names.ts";
import { LOW_LABEL, lowLimit, type PrioritySettings, reserveOf } from "./priority.ts";

/** Options of the compiler. */
export interface CompileOptions {
  /** Start of every bucket key (CACHE_KEY_PREFIX). Default: empty. */
  readonly cacheKeyPrefix?: string;
  /** True: files of one domain are merged. False, the default: they are an error. */
  readonly mergeDomains?: boolean;
  /** Failure policy of limits without one. Default: allow. */
  readonly defaultOnStoreFailure?: OnStoreFailure;
  /** Jitter of limits without one, 0 to 0.5. Default: 0. */
  readonly defaultRetryAfterJitter?: number;
  readonly statsBook: StatsBook;
  /** Keeps the counters of descriptors without a rule across reloads. Default: they are lost on reload. */
  readonly unmatchedBook?: UnmatchedStatsBook;
  /** COMPATIBILITY_MODE: matches rules and counts plain limits as envoyproxy/ratelimit does. Default: false. */
  readonly compatible?: boolean;
  /** True: rules of a control plane will join these files, so nothing is said to match none of its names. Default: false. */
  readonly isPartial?: boolean;
  /** Version of the rule set. Default: 1. */
  readonly version?: number;
  /** Hash of the rule set. Default: empty. */
  readonly hash?: string;
}

/** The window as the bucket key and the label write it. */
export function windowKeyOf({ calendar, keySeconds }: LimitDraft): number | string {
  return calendar === undefined ? keySeconds : calendarKey(calendar);
}

/** The rule to which a limit belongs. */
export interface LimitOwner {
  /** One-byte. */
  readonly domain: string;
  readonly path: string;
  /** Elements of the reference service's stat key, one per level. */
  readonly statPath: readonly string[];
  /** The name of the rule's limits in the file's `limits`, safe in headers; empty if they have none. */
  readonly limitsName: string;
  /** Description of limits without a name (gateway-name.ts), only for people to read. */
  readonly readableName: string;
  readonly onStoreFailure: OnStoreFailure | undefined;
  /** How long payments wait for their settlement, in seconds; 0: payments are final. */
  readonly holdSeconds: number;
  /** True if each limit needs a label, because there may be several. */
  readonly isList: boolean;
  /** True if the rule uses settings that the reference service lacks, so that its limits can't be counters. */
  readonly isOwnKind: boolean;
}

/** Makes the limits of one domain. Ids are unique among all builders that share `ids`. */
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

  /** The labels of the limit's series: its own, and that of its low priority if it has one. */
  labelsOf(draft: LimitDraft, owner: LimitOwner): readonly string[] {
    const label = labelOf(draft, owner, this.#algorithmOf(draft, owner), this.#names.safe(draft.name));
    return draft.priority === undefined ? [label] : [label, joined(label, LOW_LABEL)];
  }

  build(draft: LimitDraft, owner: LimitOwner): Limit {
    const name = this.#names.safe(draft.name);
    const { burst, keySeconds, debtMax, unit, calendar } = draft;
    const algorithm = this.#algorithmOf(draft, owner);
    const isCounter = this.#isCounter(draft, owner);
    const label = labelOf(draft, owner, algorithm, name);
    const { defaultOnStoreFailure, defaultRetryAfterJitter, statsBook } = this.#options;
    const { amount, windowSeconds } =
      algorithm === Algorithm.tokenBucket ? reduceRate(draft.amount, draft.windowSeconds) : draft;
    const limit: { -readonly [Key in keyof Limit]: Limit[Key] } = {
      algorithm,
      amount,
      burst,
      windowSeconds,
      calendar: calendar === undefined ? undefined : this.#windowsOf(calendar),
      debtMax,
      holdSeconds: owner.holdSeconds,
      isConcurrent: draft.isConcurrent,
      isCounter,
      reserve: 0,
      keySuffix: draft.isConcurrent ? CONCURRENT_KEY_SUFFIX : limitKeySuffix(algorithm, windowKeyOf(draft), name),
      shownAmount: draft.amount,
      shownUnit: unit,
      writtenSeconds: keySeconds,
      priority: undefined,
      policy: {
        onStoreFailure: draft.onStoreFailure ?? owner.onStoreFailure ?? defaultOnStoreFailure ?? OnStoreFailure.allow,
        sync: draft.sync,
        retryAfterJitter: draft.retryAfterJitter ?? defaultRetryAfterJitter ?? 0,
        replaces: this.#names.safeOfKnown(draft.replaces),
      },
      names: {
        id: this.#uniqueId(idOf(owner, label)),
        path: owner.path,
        name,
        readableName: readableNameOf(owner, name),
      },
      stats: statsBook.statsOf(owner.domain, owner.statPath, label === "" ? owner.readableName : label),
    };
    if (draft.priority !== undefined) limit.priority = this.#priority(limit, draft.priority, owner, label);
    return limit;
  }

  #priority(limit: Limit, { entry, values, percent }: PrioritySettings, owner: LimitOwner, label: string): Priority {
    const shown = label === "" && owner.path === "" ? "global" : label;
    const lowLabel = joined(shown, LOW_LABEL);
    const low = lowLimit(limit, reserveOf(limit.burst, percent), {
      id: this.#uniqueId(idOf(owner, lowLabel)),
      stats: this.#options.statsBook.statsOf(owner.domain, owner.statPath, lowLabel),
    });
    return { entry, values, percent, low };
  }

  #isCounter(draft: LimitDraft, owner: LimitOwner): boolean {
    return this.#options.compatible === true && draft.isPlain && !owner.isOwnKind;
  }

  #algorithmOf(draft: LimitDraft, owner: LimitOwner): Algorithm {
    return this.#isCounter(draft, owner) ? Algorithm.fixedWindow : draft.algorithm;
  }

  // Equal calendars share one CalendarWindows, so that edges are computed once for all their limits.
  #windowsOf(calendar: Calendar): CalendarWindows {
    const key = calendarKey(calendar);
    let windows = this.#calendars.get(key);
    if (windows === undefined) {
      windows = calendarWindows(calendar);
      this.#calendars.set(key, windows);
    }
    return windows;
  }

  // Different rules may have the same path, such as {key: a, value: b/c}, and {key: c} below {key: a, value: b}.
  #uniqueId(wanted: string): string {
    let id = wanted;
    for (let number = 2; this.#ids.has(id); number++) id = `${wanted}~${number}`;
    this.#ids.add(id);
    return id;
  }
}

function labelOf(draft: LimitDraft, owner: LimitOwner, algorithm: Algorithm, name: string): string {
  const shape = owner.isList ? `${ALGORITHM_NAMES[algorithm]}/${windowKeyOf(draft)}` : "";
  return joined(owner.limitsName, draft.isConcurrent ? "concurrent" : name === "" ? shape : name);
}

// Such as edge/plan/api_key#per-day. The global limit has no path: edge#global, or edge#name if it has a name.
function idOf({ domain, path }: LimitOwner, label: string): string {
  if (path === "") return `${domain}#${label === "" ? "global" : label}`;
  return label === "" ? `${domain}/${path}` : `${domain}/${path}#${label}`;
}

function readableNameOf({ limitsName, readableName }: LimitOwner, name: string): string {
  const own = joined(limitsName, name);
  if (own === "") return readableName;
  // The description of a gateway's rule does not tell its limits apart, so the name is added.
  return limitsName === "" || readableName === "" ? own : `${readableName}, ${own}`;
}

function joined(one: string, other: string): string {
  return one === "" || other === "" ? one + other : `${one}/${other}`;
}
