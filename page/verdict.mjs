// The first lines of the page: whether all is well, who is refused most, what is wrong, what it was like before. Pure but for what draws.

import { byId, keepChildren, make, part, setSaid, setShown, setText, withCode } from "./dom.mjs";
import { callsOver, lastFlood, MINUTE_MS, refusingMost } from "./rates.mjs";
import { keyWords, ruleWords } from "./top.mjs";
import {
  durationWords,
  millisWords,
  percentWords,
  plural,
  processName,
  rateWords,
  sentence,
  shown,
  sinceWords,
  timeWords,
} from "./words.mjs";

/**
 * @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State
 * @typedef {State["conditions"][number]} Condition
 * @typedef {import("./top.mjs").TopAnswer} TopAnswer
 */

/** @typedef {import("./rates.mjs").History} History */
/** @typedef {{ state: State, history: History | null, top: TopAnswer | undefined }} Seen */

/** The first problem in few words, by its id. @type {Readonly<Record<string, string>>} */
const HEADS = {
  store: "The store is away",
  rules: "No rules are in force",
  "rules refused": "New rules are rejected",
  degraded: "Calls are decided without the store",
  overloaded: "Calls are rejected",
  internalErrors: "Calls fail because of a bug in Headgate",
  undecided: "Calls passed without a decision",
};

/** From this share of failed calls on the verdict names them. */
const FAILED_SHARE = 0.05;

/** The first line, and its colour. @param {Seen} seen */
export function verdictOf({ state, history, top }) {
  const { status } = state;
  const flood = lastFlood(history);
  const minute = lastMinute(history);
  const isFlooded = flood?.isNow === true;
  const failed =
    minute !== undefined && minute.failed >= FAILED_SHARE ? `${percentWords(minute.failed)} of calls fail` : "";
  const refused = history !== null && flood !== undefined ? refusedWords(flood, history, top) : "";
  const problem = problemWords(state) || failed;
  // Critical problems come first, then a flood, then other problems.
  const parts = isFlooded && status !== "critical" ? [refused, problem] : [problem, refused];
  const isWell = status === "well" && failed === "" && !isFlooded;
  if (isWell) {
    const few = minute !== undefined && minute.refused > 0 ? `; ${percentWords(minute.refused)} of calls refused` : "";
    return { says: refused === "" ? `All is well${few}.` : `All is well now; ${refused}.`, colour: "well" };
  }
  return {
    says: parts
      .filter((part) => part !== "")
      .map(sentence)
      .join(" "),
    colour: status === "critical" ? status : "warning",
  };
}

/** @param {string} id of a problem */
function isOfStore(id) {
  return id === "store" || id.startsWith("breaker ");
}

/** @param {State} state */
function problemWords({ conditions }) {
  const [first] = conditions;
  if (first === undefined) return "";
  const head = HEADS[isOfStore(first.id) ? "store" : first.id];
  const critical = conditions.filter(({ severity }) => severity === "critical").length;
  const warnings = conditions.length - critical;
  if (critical === 0 && head === undefined) return `${plural(warnings, "thing")} to check, nothing urgent`;
  const named = head ?? shown(first.says.replace(/\.( .*)?$/s, ""), 120);
  const more = conditions.length - 1;
  return more === 0 ? named : `${named}, and ${more} more to check`;
}

/** @param {import("./rates.mjs").Flood} flood @param {History} history @param {TopAnswer | undefined} top */
function refusedWords({ isNow, share, fromMs, toMs }, history, top) {
  const [from, to] = [fromMs, toMs].map((ms) => timeWords(ms, toMs));
  const [key] = top?.keys ?? [];
  const rule = refusingMost(history, isNow ? toMs - MINUTE_MS : fromMs, toMs);
  const surely = key === undefined ? 0 : key.refused - key.refused_overcount;
  const isMostly = key !== undefined && surely > 0 && 2 * surely >= (top?.refused ?? 0);
  const whose = isMostly ? `, mostly ${shown(keyWords(key), 80)} by ${shown(ruleWords(key), 80)}` : "";
  const whichRule =
    whose === "" && rule !== undefined && rule.part >= 0.5 ? `, mostly by rule ${shown(rule.id, 80)}` : "";
  const when = isNow ? `of calls refused since ${from}` : `of calls were refused from ${from} to ${to}`;
  return `${percentWords(share)} ${when}${whose}${whichRule}`;
}

/** @param {History | null} history */
function lastMinute(history) {
  if (history === null) return undefined;
  const atMs = Date.parse(history.at);
  return callsOver(history, atMs - MINUTE_MS, atMs);
}

/** What it was like ten minutes ago, or as long ago as is known, and how the store does. @param {Seen} seen */
export function beforeWords({ state, history }) {
  if (history === null) return "";
  const atMs = Date.parse(history.at);
  const knownMs = history.seconds.reduce((sum, seconds) => sum + seconds, 0) * 1_000;
  const store = state.store === "memory" ? "Store: memory." : `Store: ${state.store}, ${storeWords(state, history)}.`;
  const agoMs = Math.min(10 * MINUTE_MS, knownMs - MINUTE_MS);
  if (agoMs < MINUTE_MS) return store;
  const then = callsOver(history, atMs - agoMs - MINUTE_MS, atMs - agoMs);
  const refused = then.refused === 0 ? "none refused" : `${percentWords(then.refused)} refused`;
  const calls = `${rateWords(then.perSecond)} calls per second, ${refused}`;
  return `${durationWords(agoMs / 1_000)} ago: ${then.all === 0 ? "no calls" : calls}. ${store}`;
}

/** @param {State} state @param {History} history */
function storeWords({ conditions }, { times_us: { store_p99: times } }) {
  if (conditions.some(({ id }) => isOfStore(id))) return "away";
  const slow = times.slice(-12).findLast((us) => us !== null) ?? null;
  return slow === null ? "not asked in the last minute" : `p99 ${millisWords(slow)}`;
}

/** @param {Seen} seen */
export function showBefore(seen) {
  const says = beforeWords(seen);
  setText(byId("before"), says);
  setShown(byId("before"), says !== "");
}

/** Words with a colour. @param {string} says @param {string} colour */
export function showVerdict(says, colour) {
  const verdict = byId("verdict");
  setText(verdict, says);
  verdict.className = colour;
  const title = colour === "well" ? "Headgate: well" : `Headgate: ${says}`;
  if (document.title !== title) document.title = title;
}

/** @param {State} state */
export function showConditions(state) {
  keepChildren(byId("conditions"), state.conditions, {
    key: ({ id, severity, see }) => JSON.stringify([id, severity, see]),
    create: createCondition,
    update: (item, condition) => {
      item.className = condition.severity;
      setSaid(part(item, "strong"), shown(condition.says, 600));
      setText(part(item, ".age"), ageOf(condition, state.at));
      keepChildren(part(item, ".details"), condition.details, {
        key: (line) => line,
        create: (line) => make("li", {}, ...withCode(shown(line, 600))),
        update: () => undefined,
      });
    },
  });
}

/** @param {Condition} condition */
function createCondition({ severity, advice, see }) {
  const strong = make("strong", { class: severity });
  const more = make("p", {}, ...withCode(advice), " More: ", make("code", {}, `docs/operations.md#${see}`));
  return make("li", {}, strong, make("span", { class: "age" }), more, make("ul", { class: "details" }));
}

/** @param {Condition} condition @param {string} now */
function ageOf({ severity, since, seen_by: seenBy = [] }, now) {
  return shown([`${severity}, since ${sinceWords(since, now)}`, ...seenBy.map(processName)].join(", "), 600);
}
