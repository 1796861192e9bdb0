// The first line of the operator's page and of `headgate doctor`: whether all is well, else what is wrong, who is
// refused by what, since when. Callers who are blocked, and calls that only shadow mode lets pass, are told apart:
// somebody wants both. Pure.

import { durationWords } from "../../base/units.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import { callsOver, type Flood, lastFlood, MINUTE_MS } from "../telemetry/call-rates.ts";
import type { CallsView } from "../telemetry/rate-history.ts";
import type { TopKey } from "../telemetry/top/top-view.ts";
import type { ConditionView } from "./join-conditions.ts";

/** A piece of a line: text, or what a page can link to. Times are as in ISO 8601. */
type VerdictWord =
  | string
  | { readonly says: string; readonly domain: string; readonly key: string; readonly descriptor?: TopKey["descriptor"] }
  | { readonly says: string; readonly rule: string };

interface Verdict {
  readonly severity: "well" | "warning" | "critical";
  readonly words: readonly VerdictWord[];
}

/** A key of /top, with what is set for its caller. */
export type SetKey = Pick<TopKey, "domain" | "rule" | "limit" | "key" | "refused" | "refused_overcount"> &
  Partial<Pick<TopKey, "descriptor" | "blocked">> & {
    readonly runtime_limit?: {
      readonly kind: string;
      readonly until?: string;
      readonly who?: string;
      readonly note?: string;
    };
  };

interface VerdictFacts {
  readonly atMs: number;
  readonly conditions: readonly ConditionView[];
  /** Undefined before the first sample. */
  readonly history: CallsView | undefined;
  /** The limit that refused most between two times, and its part of the refusals. */
  readonly refusingMost: (fromMs: number, toMs: number) => { readonly id: string; readonly part: number } | undefined;
  /** Of the last minute or, after a flood, of the last hour; undefined if none are kept. */
  readonly top: { readonly refused: number; readonly keys: readonly SetKey[] } | undefined;
}

/** The first problem in few words, by its id. */
const HEADS: Readonly<Record<string, string>> = {
  rules: "No rules are in force",
  "rules refused": "New rules are rejected",
  degraded: "Calls are decided without the store",
  overloaded: "Calls are rejected",
  internalErrors: "Calls fail because of a bug in Headgate",
  undecided: "Calls passed without a decision",
};

/** From this share of failed calls on the verdict names them. */
const FAILED_SHARE = 0.05;
/** Longest text of a caller in the line, in characters. */
const KEY_CHARS_MAX = 160;

export function verdictOf(facts: VerdictFacts): Verdict {
  const { conditions, history, atMs } = facts;
  const flood = history && lastFlood(history);
  const minute = history && lastMinute(history);
  const isFlooded = flood?.isNow === true;
  const failed =
    minute !== undefined && minute.failed >= FAILED_SHARE ? [`${percentWords(minute.failed)} of calls fail.`] : [];
  const refused = history === undefined || flood === undefined ? [] : floodWords(flood, facts);
  const told = problemWords(conditions, atMs);
  const problem = told.length > 0 ? told : failed;
  const apart = minute === undefined ? [] : apartWords(minute, facts);
  const severity = conditions[0]?.severity ?? (problem.length > 0 || isFlooded ? "warning" : "well");
  if (severity === "well") {
    const few = minute !== undefined && minute.refused > 0 && refused.length === 0;
    const head = few ? `All is well; ${percentWords(minute.refused)} of calls refused.` : "All is well.";
    return { severity, words: sentences([head], refused, apart) };
  }
  // Critical problems come first, then a flood, then other problems.
  const parts = isFlooded && severity !== "critical" ? [refused, problem] : [problem, refused];
  return { severity, words: sentences(...parts, apart) };
}

/** Calls of the last minute. */
export function lastMinute(history: CallsView) {
  const atMs = Date.parse(history.at);
  return callsOver(history, atMs - MINUTE_MS, atMs);
}

/** True for a problem of the store itself. */
export function isOfStore({ id }: Pick<ConditionView, "id">): boolean {
  return id === "store" || id.startsWith("breaker ");
}

function problemWords(conditions: readonly ConditionView[], atMs: number): VerdictWord[] {
  const [first] = conditions;
  if (first === undefined) return [];
  const more = conditions.length - 1;
  const rest = more === 0 ? "" : ` ${more} more to check.`;
  if (isOfStore(first)) {
    const length = durationWords(Math.round((atMs - Date.parse(first.since)) / 1_000));
    const effect = first.effect === undefined ? "" : `: ${first.effect}`;
    return [`${storeHead(first.says)} for ${length}${effect}.${rest}`];
  }
  const head = HEADS[first.id];
  const isUrgent = conditions.some(({ severity }) => severity === "critical");
  if (!isUrgent && head === undefined && more > 0) return [`${conditions.length} warnings.`];
  return [
    `${head ?? first.says.replace(/(: [\d,]+; the last within a minute)?\.( .*)?$/s, "").slice(0, KEY_CHARS_MAX)}.${rest}`,
  ];
}

/** From `Redis at 10.0.0.7:6379 refuses connections: nothing listens there.` */
function storeHead(says: string): string {
  const [, name = "The store"] = /^(\w+) at /.exec(says) ?? /^The breaker of (\w+)/.exec(says) ?? [];
  if (/refuses connections|can't be reached|hung up|is unknown/.test(says)) return `${name} has been down`;
  return /does not answer|breaker/.test(says) ? `${name} has not answered` : `${name} has been unusable`;
}

function floodWords(flood: Flood, facts: VerdictFacts): VerdictWord[] {
  const { isNow, share, fromMs, toMs } = flood;
  const [from, to] = [fromMs, toMs].map((ms) => new Date(ms).toISOString());
  const when = isNow
    ? `${percentWords(share)} of calls refused since ${from}`
    : `From ${from} to ${to} ${percentWords(share)} of calls were refused`;
  return [when, ...mostly(flood, facts), "."];
}

/** The key with at least half of the refusals, else the rule. */
function mostly({ isNow, fromMs, toMs }: Flood, { top, refusingMost }: VerdictFacts): VerdictWord[] {
  const keys = top?.keys ?? [];
  const blocked = keys.reduce((sum, key) => sum + (key.blocked === true ? leastOf(key) : 0), 0);
  const key = keys.find((one) => one.blocked !== true);
  if (key !== undefined && leastOf(key) > 0 && 2 * leastOf(key) >= (top?.refused ?? 0) - blocked)
    return [", mostly ", keyWord(key), " by ", ruleWord(key)];
  const rule = refusingMost(isNow ? toMs - MINUTE_MS : fromMs, toMs);
  return rule === undefined || rule.part < 0.5 ? [] : [", mostly by rule ", { says: rule.id, rule: rule.id }];
}

function leastOf({ refused, refused_overcount: over }: SetKey): number {
  return refused - over;
}

/** What somebody wants to be refused, or to pass for now. */
function apartWords({ blocked, shadowed }: ReturnType<typeof lastMinute>, { top }: VerdictFacts): VerdictWord[] {
  const keys = (top?.keys ?? []).filter((key) => key.blocked === true && key.runtime_limit?.kind === "block");
  const [key] = keys;
  const words: VerdictWord[] = [];
  if (blocked > 0) {
    words.push(`${percentWords(blocked)} refused: `);
    if (key === undefined) words.push("callers who are blocked at run time.");
    else if (keys.length > 1) words.push(keyWord(key), ` and ${keys.length - 1} more, blocked at run time.`);
    else words.push(keyWord(key), `, ${blockedWords(key)}.`);
  }
  if (shadowed > 0)
    words.push(`${words.length > 0 ? " " : ""}${percentWords(shadowed)} pass only because of shadow mode.`);
  return words;
}

function blockedWords({ runtime_limit: set }: SetKey): string {
  const by = set?.who === undefined ? "" : ` by ${set.who}`;
  const until = set?.until === undefined ? "" : ` until ${set.until}`;
  return `blocked${by}${until}${set?.note === undefined ? "" : ` (${set.note})`}`;
}

function keyWord({ rule, domain, key, descriptor }: SetKey): VerdictWord {
  const says = rule === "" ? `all calls of ${domain}` : descriptor === undefined ? key : typedText(descriptor);
  const shown = says.length > KEY_CHARS_MAX ? `${says.slice(0, 80)}...${says.slice(-60)}` : says;
  return { says: shown, domain, key, ...(descriptor === undefined ? {} : { descriptor }) };
}

function ruleWord({ rule, domain, limit }: SetKey): VerdictWord {
  if (rule === "") return { says: "the domain's global limit", rule: `${domain}#${limit === "" ? "global" : limit}` };
  const of = limit === "" ? "" : ` (${limit})`;
  return { says: `rule ${rule}${of} of ${domain}`, rule: `${domain}/${rule}${limit === "" ? "" : `#${limit}`}` };
}

function sentences(...parts: readonly (readonly VerdictWord[])[]): VerdictWord[] {
  return parts.filter((words) => words.length > 0).flatMap((words, i) => (i === 0 ? words : [" ", ...words]));
}

/** Part of a whole: `64 %`. `part` is 0 to 1. */
export function percentWords(part: number): string {
  if (part > 0 && part < 0.01) return "under 1 %";
  return part < 1 && part > 0.99 ? "over 99 %" : `${Math.round(part * 100)} %`;
}
