// Makes Limits from the drafts that were read from rule files.

import { getOrInsert } from "../../base/get-or-insert.ts";
import type { CalendarWindows } from "../domain/calendar-windows.ts";
import { ALGORITHM_NAMES, Algorithm, type Limit, OnStoreFailure } from "../domain/limit.ts";
import type { DomainStatsBook, StatsBook } from "../domain/stats.ts";
import { CONCURRENT_KEY_SUFFIX, limitKeySuffix } from "./bucket-key.ts";
import { type Calendar, calendarKey, calendarWindows } from "./calendar.ts";
import type { LimitDraft, PlacedName } from "./draft.ts";
import { guaranteePriority, whyNoGuarantee } from "./guarantee.ts";
import { reduceRate } from "./limit-shape.ts";
import { safeName } from "./names.ts";
import { LOW_LABEL, priorityOf } from "./priority.ts";
import type { ProblemLog } from "./problems.ts";
import type { DomainRules } from "./rule-set.ts";

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
  /** Keeps the counters of limits. Default: each counts for itself. */
  readonly statsBook?: StatsBook;
  /** Keeps the counters of descriptors without a rule across reloads. Default: they are lost on reload. */
  readonly domainBook?: DomainStatsBook;
  /** COMPATIBILITY_MODE: matches rules and counts plain limits as envoyproxy/ratelimit does. Default: false. */
  readonly compatible?: boolean;
  /**
   * True: rules of a control plane will join these files, so nothing is said to match none of its names. Default:
   * false.
   */
  readonly isPartial?: boolean;
  /** Version of the rule set. Default: 1. */
  readonly version?: number;
  /** Hash of the rule set. Default: empty. */
  readonly hash?: string;
}

/** What is needed to build the rules of one domain. */
export interface DomainContext {
  /** One-byte. */
  readonly domain: string;
  readonly options: CompileOptions & Required<Pick<CompileOptions, "statsBook">>;
  readonly log: ProblemLog;
  readonly addresses: DomainRules["addresses"];
  readonly counters: DomainRules["counters"];
  /** Names of the domain's limits, as they are written. */
  readonly names: ReadonlySet<string>;
  /** Ids of the limits of all domains. */
  readonly ids: Set<string>;
  /** Equal calendars share one CalendarWindows, so that edges are computed once for all their limits. */
  readonly calendars: Map<string, CalendarWindows>;
  /** Receives every limit built, in the order of the files. */
  readonly limits: Limit[];
  /** Set to true by the first limit that replaces others. */
  hasReplaces: boolean;
  /** Receives the keys of rules that hide values. */
  readonly hiddenKeys: Set<string>;
}

/** The rule to which a limit belongs. */
export interface LimitOwner {
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

/** Makes a limit. `label` is the first of its labels (`labelsOf`). Ids are unique in the context. */
export function buildLimit(draft: LimitDraft, owner: LimitOwner, label: string, context: DomainContext): Limit {
  const { domain, options, ids } = context;
  const { defaultOnStoreFailure, defaultRetryAfterJitter, statsBook } = options;
  const name = safeName(draft.name);
  const isCounter = options.compatible === true && draft.isPlain && !owner.isOwnKind;
  const algorithm = isCounter ? Algorithm.fixedWindow : draft.algorithm;
  const { amount, windowSeconds } =
    algorithm === Algorithm.tokenBucket ? reduceRate(draft.amount, draft.windowSeconds) : draft;
  const limit: { -readonly [Key in keyof Limit]: Limit[Key] } = {
    algorithm,
    amount,
    burst: draft.burst,
    windowSeconds,
    calendar: draft.calendar === undefined ? undefined : windowsOf(draft.calendar, context),
    debtMax: draft.debtMax,
    holdSeconds: owner.holdSeconds,
    isConcurrent: draft.isConcurrent,
    isCounter,
    reserve: 0,
    keySuffix: keySuffixOf(draft, algorithm, name),
    shownAmount: draft.amount,
    shownUnit: draft.unit,
    writtenSeconds: draft.keySeconds,
    priority: undefined,
    policy: {
      onStoreFailure: draft.onStoreFailure ?? owner.onStoreFailure ?? defaultOnStoreFailure ?? OnStoreFailure.allow,
      sync: draft.sync,
      retryAfterJitter: draft.retryAfterJitter ?? defaultRetryAfterJitter ?? 0,
      replaces: namesOfReplaced(draft.replaces, context),
    },
    names: {
      id: uniqueId(idOf(domain, owner, label), ids),
      path: owner.path,
      name,
      readableName: readableNameOf(owner, name),
    },
    stats: statsBook.statsOf(domain, owner.statPath, label === "" ? owner.readableName : label),
  };
  if (draft.guarantee !== undefined) {
    const whyNot = whyNoGuarantee(options.compatible === true, limit.policy.onStoreFailure);
    if (whyNot !== undefined) context.log.error(draft.guarantee.at, whyNot);
    limit.priority = guaranteePriority(draft.guarantee, limit);
  }
  if (draft.priority === undefined) return limit;
  const lowLabel = joined(label === "" && owner.path === "" ? "global" : label, LOW_LABEL);
  limit.priority = priorityOf(draft.priority, limit, {
    id: uniqueId(idOf(domain, owner, lowLabel), ids),
    stats: statsBook.statsOf(domain, owner.statPath, lowLabel),
  });
  return limit;
}

/** The names of the limits that are replaced, as far as the domain has limits of these names. */
export function namesOfReplaced(replaces: readonly PlacedName[], { names }: DomainContext): readonly string[] {
  return replaces.filter(({ name }) => names.has(name)).map(({ name }) => safeName(name));
}

/** End of the limit's bucket key. */
export function keySuffixOf(draft: LimitDraft, algorithm: Algorithm, name: string): string {
  return draft.isConcurrent ? CONCURRENT_KEY_SUFFIX : limitKeySuffix(algorithm, windowKeyOf(draft), name);
}

// The window as the bucket key and the label write it.
function windowKeyOf({ calendar, keySeconds }: LimitDraft): number | string {
  return calendar === undefined ? keySeconds : calendarKey(calendar);
}

function windowsOf(calendar: Calendar, { calendars }: DomainContext): CalendarWindows {
  return getOrInsert(calendars, calendarKey(calendar), () => calendarWindows(calendar));
}

// Different rules may have the same path, such as {key: a, value: b/c}, and {key: c} below {key: a, value: b}.
function uniqueId(wanted: string, ids: Set<string>): string {
  let id = wanted;
  for (let number = 2; ids.has(id); number++) id = `${wanted}~${number}`;
  ids.add(id);
  return id;
}

/** The labels of the limit's series: its own, and its low priority's if it has one. */
export function labelsOf(draft: LimitDraft, owner: LimitOwner): readonly [string, string?] {
  const name = safeName(draft.name);
  const shape = owner.isList ? `${ALGORITHM_NAMES[draft.algorithm]}/${windowKeyOf(draft)}` : "";
  const label = joined(owner.limitsName, draft.isConcurrent ? "concurrent" : name === "" ? shape : name);
  return draft.priority === undefined ? [label] : [label, joined(label, LOW_LABEL)];
}

// Such as edge/plan/api_key#per-day. The global limit has no path: edge#global, or edge#name if it has a name.
function idOf(domain: string, { path }: LimitOwner, label: string): string {
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
