// The keys that are refused or asked most: whose, by which rule, how many, since when. Each opens the sheet.

import { hrefOf, NO_SHEET } from "./address.mjs";
import { byId, fillTable, make, part, setChildren, setShown, setText } from "./dom.mjs";
import { callerWords } from "./limits.mjs";
import { typedDescriptor } from "./read-descriptor.mjs";
import { countWords, cut, hides, percentWords, plural, shown, sinceWords } from "./words.mjs";

/** @typedef {Pick<TopKey, "domain" | "key"> & { readonly descriptor?: TopKey["descriptor"] | undefined }} NamedKey */

/** Keys that are shown, unless the view narrows them down. */
const SHOWN_MAX = 10;
/** Width of a character of a key; a telephone has a line for the key. */
const CHAR_PX = 9.5;
const CARDS_PX = 560;

/** Longest key in a row, in characters; the sheet has it whole. */
function keyCharsMax() {
  const width = byId("keys-section").clientWidth;
  const room = width < CARDS_PX ? width - 40 : part(byId("top"), "th").clientWidth - 16;
  return Math.max(12, Math.floor(room / CHAR_PX));
}

/** Shows the keys that the view asks for. @param {TopAnswer} answer @param {View} view */
export function showKeys(answer, view) {
  const { at, by, window, processes, refused } = answer;
  const isNarrowed = view.rule + view.find !== "";
  const keys = answer.keys
    .filter((key) => by === "asked" || key.refused > 0)
    .filter((key) => view.rule === "" || [idOf(key), idOf({ ...key, limit: "" })].includes(view.rule))
    .filter((key) => `${keyWords(key)} ${idOf(key)}`.toLowerCase().includes(view.find.toLowerCase()))
    .slice(0, isNarrowed ? answer.keys.length : SHOWN_MAX);
  setText(byId("top-heading"), `Most ${by} keys${view.rule === "" ? "" : ` of ${cut(view.rule, 60)}`}`);
  const none = isNarrowed
    ? `None of the ${plural(answer.keys.length, "key")} within the last ${window}.`
    : noKeyWords(answer);
  const of = processes === undefined ? "" : `, ${plural(processes, "process", "processes")}`;
  const note = keys.length === 0 ? none : `In the last ${window}${of}; counts may be slightly high.`;
  const open = view.rule === "" ? [] : [" ", make("a", { href: hrefOf(view, { rule: "" }) }, "Show all rules' keys")];
  setChildren(byId("top-note"), [note, ...open]);
  const most = Math.max(1, ...keys.map((key) => key[by]));
  // The column is measured once the table is there.
  let chars = 0;
  const drawOne = (/** @type {HTMLElement} */ cell, /** @type {TopKey} */ key) => {
    chars ||= keyCharsMax();
    drawKey(cell, key, view, chars);
  };
  fillTable(byId("top"), keys, ({ domain, rule, limit, key }) => JSON.stringify([domain, rule, limit, key]), [
    { head: "Key", is: "caller", parts: keyParts, draw: drawOne },
    { head: "Rule", is: "rule", parts: ruleParts },
    {
      head: by === "asked" ? "Asked" : "Refused",
      is: "number bar-cell",
      parts: () => [make("span", { class: "fill" }), make("span")],
      draw: (cell, key) => {
        bar(cell, key[by] / most);
        setText(part(cell, "span:last-child"), countWords(key[by]));
      },
    },
    {
      head: "Share",
      is: "number",
      text: (key) => (refused === 0 ? "" : percentWords(Math.min(1, key.refused / refused))),
    },
    { head: "Asked", is: "number wide", text: ({ asked }) => countWords(asked) },
    { head: "Trend", is: "trend wide", parts: () => [make("span", { class: "bars", role: "img" })], draw: drawTrend },
    { head: "Since", is: "since", text: ({ refused_since: since }) => (since === null ? "-" : sinceWords(since, at)) },
  ]);
}

/** A bar behind a number. @param {HTMLElement} cell @param {number} part_ 0 to 1 */
export function bar(cell, part_) {
  /** @type {HTMLElement} */ (part(cell, ".fill")).style.setProperty("--part", String(Math.min(1, part_)));
}

/** @param {HTMLElement} cell @param {TopKey} key */
function drawTrend(cell, { trend }) {
  const most = Math.max(1, ...trend);
  const bars = part(cell, ".bars");
  bars.setAttribute("aria-label", `refusals, the newest last: ${trend.join(", ")}`);
  while (bars.children.length < trend.length) bars.append(make("i"));
  while (bars.children.length > trend.length) bars.lastChild?.remove();
  trend.forEach((count, i) => {
    /** @type {HTMLElement} */ (bars.children[i]).style.setProperty("--part", String(count / most));
  });
}

/** The id of a key's limit, as rules and the history have it. @param {Pick<TopKey, "domain" | "rule" | "limit">} key */
export function idOf({ domain, rule, limit }) {
  if (rule === "") return `${domain}#${limit === "" ? "global" : limit}`;
  return `${domain}/${rule}${limit === "" ? "" : `#${limit}`}`;
}

/** The address of a key in the sheet. @param {View} view @param {NamedKey} key */
export function keyHref(view, { domain, key, descriptor }) {
  if (descriptor === undefined || descriptor.length === 0) return hrefOf(view, { ...NO_SHEET, domain, key });
  const explain = typedDescriptor(descriptor, hides) ?? JSON.stringify([{ entries: descriptor }]);
  return hrefOf(view, { ...NO_SHEET, domain, explain });
}

/** @param {TopKey} key */
function keyParts(key) {
  const says = keyWords(key);
  return [make("a", { title: shown(says, 600) }), make("span", { class: "badges" })];
}

/** @param {HTMLElement} cell @param {TopKey} key @param {View} view @param {number} chars */
function drawKey(cell, key, view, chars) {
  const link = part(cell, "a");
  link.setAttribute("href", keyHref(view, key));
  setText(link, cut(keyWords(key), chars));
  const badge = badgeOf(key);
  setChildren(part(cell, ".badges"), badge === "" ? [] : [make("span", { class: "badge" }, badge)]);
}

/** What is set for the caller. @param {TopKey} key */
function badgeOf({ blocked, runtime_limit: set }) {
  if (set === undefined) return blocked === true ? "was blocked" : "";
  return { block: "blocked", amounts: "other amounts", use: "other tier", exempt: "exempt" }[set.kind] ?? "";
}

/** @param {TopKey} key */
function ruleParts({ domain, rule, limit }) {
  const of = limit === "" ? domain : `${limit}, ${domain}`;
  const name = rule === "" ? "global limit" : rule;
  return [
    make("span", { title: shown(name, 300) }, cut(name, 22)),
    make("small", { title: shown(of, 300) }, cut(of, 28)),
  ];
}

/** Says why there are none. @param {string} says */
export function hideKeys(says) {
  setText(byId("top-note"), says);
  setShown(byId("top"), false);
}

/** A key in words: all calls for the global limit, else its entries if known, else its bucket without the domain. @param {TopKey} key */
export function keyWords({ rule, domain, descriptor, key }) {
  if (rule === "") return `all calls of ${domain}`;
  if (descriptor === undefined || descriptor.length === 0) return key.replace(/^[^{]*\{[^|}]*\|([^}]*).*$/, "$1");
  return callerWords({ domain, entries: descriptor });
}

/** Says why there is no key. @param {Pick<TopAnswer, "refused" | "window">} answer */
export function noKeyWords({ refused, window }) {
  if (refused === 0) return `No refusals within the last ${window}.`;
  return `No key stands out among ${plural(refused, "refusal")} within the last ${window}.`;
}
