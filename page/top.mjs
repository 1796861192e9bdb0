// The keys that are refused or asked most, and their names.

import { byId, fillTable, make, setShown, setText } from "./dom.mjs";
import { actionButtons, callerWords } from "./limits.mjs";
import { countWords, plural, shown, sinceWords } from "./words.mjs";

/** @typedef {import("./address.mjs").View} View */

/** Keys that are shown, unless the view narrows them down. */
const SHOWN_MAX = 10;

/**
 * Shows the keys that the view asks for.
 * @param {TopAnswer} answer @param {View} view @param {(key: TopKey) => string} hrefOfKey of its explanation
 * @param {import("./limits.mjs").Act | undefined} act undefined: nobody may
 */
export function showTop(answer, view, hrefOfKey, act) {
  const { at, by, window, processes } = answer;
  const isNarrowed = view.rule + view.find !== "";
  const keys = answer.keys
    .filter((key) => by === "asked" || key.refused > 0)
    .filter((key) => view.rule === "" || [idOf(key), idOf({ ...key, limit: "" })].includes(view.rule))
    .filter((key) => isFound(`${keyWords(key)} ${ruleWords(key)}`, view.find))
    .slice(0, isNarrowed ? answer.keys.length : SHOWN_MAX);
  setText(byId("top-heading"), `Most ${by} keys${view.rule === "" ? "" : ` of ${shown(view.rule, 80)}`}`);
  const none = isNarrowed
    ? `None of the ${plural(answer.keys.length, "key")} within the last ${window}.`
    : noKeyWords(answer);
  const of = processes === undefined ? "" : `, ${plural(processes, "process", "processes")}`;
  const counted = `In the last ${window}${of}; counts may be slightly high.`;
  setText(byId("top-note"), keys.length === 0 ? none : counted);
  fillTable(byId("top"), keys, ({ domain, rule, limit, key }) => JSON.stringify([domain, rule, limit, key]), [
    {
      head: "Key",
      parts: (key) => keyParts(key, act),
      draw: (cell, key) => cell.querySelector("a")?.setAttribute("href", hrefOfKey(key)),
    },
    { head: "Rule", is: "rule", parts: ruleParts },
    { head: "Refused", is: "number", text: ({ refused }) => countWords(refused) },
    { head: "Asked", is: "number wide", text: ({ asked }) => countWords(asked) },
    { head: "Since", is: "since", text: ({ refused_since: since }) => (since === null ? "-" : sinceWords(since, at)) },
  ]);
}

/** The id of a key's limit, as rules and the history have it. @param {TopKey} key */
export function idOf({ domain, rule, limit }) {
  if (rule === "") return `${domain}#${limit === "" ? "global" : limit}`;
  return `${domain}/${rule}${limit === "" ? "" : `#${limit}`}`;
}

/** Whether a text has what is looked for, in any case. @param {string} text @param {string} find */
export function isFound(text, find) {
  return text.toLowerCase().includes(find.toLowerCase());
}

/** @param {TopKey} key @param {import("./limits.mjs").Act | undefined} act */
function keyParts(key, act) {
  const name = shown(keyWords(key), 80);
  if (key.descriptor === undefined) return [name];
  const link = make("a", { "aria-label": `Explain ${name}` }, name);
  if (act === undefined) return [link];
  const caller = { domain: key.domain, entries: key.descriptor };
  return [link, make("small", {}, ...actionButtons(caller, ["Raise", "Block", "Exempt", "Unset"], act))];
}

/** @param {TopKey} key */
function ruleParts({ domain, rule, limit }) {
  const of = limit === "" ? domain : `${limit}, ${domain}`;
  return [shown(rule === "" ? "global limit" : rule, 80), make("small", {}, shown(of, 80))];
}

/** Says why there are none. @param {string} says */
export function hideTop(says) {
  setText(byId("top-note"), says);
  setShown(byId("top"), false);
}

/**
 * @typedef {object} TopKey
 * @property {string} domain
 * @property {string} rule as metrics name it; empty for the global limit
 * @property {string} limit its name, where it has one
 * @property {string} key the name of its bucket
 * @property {readonly { key: string, value?: string, value_base64?: string }[]} [descriptor] absent if unknown
 * @property {number} asked
 * @property {number} refused at most
 * @property {number} refused_overcount by how much `refused` may be too high
 * @property {string | null} refused_since
 */

/**
 * @typedef {object} TopAnswer
 * @property {string} at
 * @property {"minute" | "hour"} window
 * @property {"refused" | "asked"} by
 * @property {number} refused refusals of all keys
 * @property {number} [processes] whose counts these are, if several
 * @property {readonly TopKey[]} keys
 */

/** A key in words: all calls for the global limit, else its entries if known, else the name of its bucket. @param {TopKey} key */
export function keyWords({ rule, domain, descriptor, key }) {
  if (rule === "") return `all calls of ${domain}`;
  if (descriptor === undefined || descriptor.length === 0) return key;
  return callerWords({ domain, entries: descriptor });
}

/** @param {TopKey} key */
export function ruleWords({ domain, rule, limit }) {
  if (rule === "") return `the domain's global limit`;
  return `rule ${rule}${limit === "" ? "" : ` (${limit})`} of ${domain}`;
}

/** Says why there is no key. @param {TopAnswer} answer */
export function noKeyWords({ refused, window }) {
  if (refused === 0) return `None within the last ${window}.`;
  return `No key stands out among ${plural(refused, "refusal")} within the last ${window}.`;
}
