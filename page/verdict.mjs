// The first lines of the page, in the server's words: whether all is well, who is refused most; what it was like
// before, whether it is the store, who did something; four numbers.

import { hrefOf } from "./address.mjs";
import { byId, keepChildren, make, part, setChildren, setShown, setText, timeOf, withCode } from "./dom.mjs";
import { storeWords } from "./header.mjs";
import { keyHref } from "./keys.mjs";
import { latest } from "./rates.mjs";
import { cut, millisWords, percentWords, rateWords, shown } from "./words.mjs";

/** @param {State} state @param {CallHistory | null} history @param {View} view */
export function showVerdict({ verdict, ...state }, history, view) {
  const pieces = verdict.words.flatMap((word) => {
    if (typeof word === "string") return withCode(shown(word, 600));
    const href = "rule" in word ? hrefOf(view, { rule: word.rule }) : keyHref(view, word);
    return [
      make("a", { href, title: shown(word.says, 600) }, cut(word.says, document.body.clientWidth < 560 ? 26 : 64)),
    ];
  });
  showLine(pieces, verdict.severity);
  showFacts(state, history);
  showTiles(state, history);
}

/** Words with a colour. @param {readonly (Node | string)[]} pieces @param {string} colour */
export function showLine(pieces, colour) {
  const line = byId("verdict");
  setChildren(line, pieces);
  byId("card").className = colour;
  const title = colour === "well" ? "Headgate: well" : `Headgate: ${shown(line.textContent)}`;
  if (document.title !== title) document.title = title;
}

/** @param {Omit<State, "verdict">} state @param {CallHistory | null} history */
function showFacts({ before, last_change: change, rules, ...state }, history) {
  const was =
    before?.all === 0
      ? "no calls"
      : before && `${rateWords(before.perSecond)} calls/s, ${refusedWords(before.refused)}`;
  const facts = [
    ["Before", before === null ? ["not known yet"] : ["at ", timeOf(before.at), ` ${was}`]],
    ["Store", [storeWords(state, history).words]],
    ["Last change", changeParts(change, rules)],
  ];
  keepChildren(byId("facts"), facts, {
    key: ([name]) => `${name}`,
    create: ([name]) => make("div", {}, make("dt", {}, `${name}`), make("dd")),
    update: (item, [, says]) => setChildren(part(item, "dd"), /** @type {(Node | string)[]} */ (says)),
  });
  setShown(byId("facts"), true);
}

/** @param {State["last_change"]} change @param {State["rules"]} rules @returns {(Node | string)[]} */
function changeParts(change, rules) {
  if (change !== null) {
    const by = change.who === undefined ? "" : ` by ${change.who}`;
    const note = change.note === undefined ? "" : ` (${change.note})`;
    return [cut(`${change.says}${by}${note}`, 120), " at ", timeOf(change.at)];
  }
  return rules.loaded_at === null ? ["no rules in force"] : ["none; rules since ", timeOf(rules.loaded_at)];
}

/** @param {number} share */
function refusedWords(share) {
  return share === 0 ? "none refused" : `${percentWords(share)} refused`;
}

/** @param {Omit<State, "verdict">} state @param {CallHistory | null} history */
function showTiles({ minute, before }, history) {
  const slow = history === null ? null : latest(history.times_us.decision_p99.filter((us) => us !== null).slice(-12));
  const was = (/** @type {(then: NonNullable<State["before"]>) => string} */ words) =>
    before === null ? "" : `before: ${words(before)}`;
  const tiles = [
    {
      name: "Calls per second",
      value: minute && rateWords(minute.perSecond),
      small: was((then) => rateWords(then.perSecond)),
    },
    {
      name: "Refused",
      value: minute && percentWords(minute.refused + minute.blocked),
      small:
        minute !== null && minute.blocked > 0
          ? `blocked: ${percentWords(minute.blocked)}`
          : was((then) => percentWords(then.refused + then.blocked)),
      colour: minute !== null && minute.refused > 0.05 ? "warning" : "",
    },
    {
      name: "Passed undecided",
      value: minute && percentWords(minute.passed),
      small: was((then) => percentWords(then.passed)),
      colour: minute !== null && minute.passed > 0 ? "critical" : "",
    },
    { name: "Decision p99", value: minute && millisWords(slow), small: "of this process" },
  ];
  keepChildren(byId("tiles"), tiles, {
    key: ({ name }) => name,
    create: ({ name }) => make("li", {}, make("span", { class: "quiet" }, name), make("strong"), make("small")),
    update: (item, { value, small, colour = "" }) => {
      setText(part(item, "strong"), value ?? "first point in 5 s");
      part(item, "strong").className = value === null ? "quiet" : colour;
      setText(part(item, "small"), value === null ? "" : small);
    },
  });
}
