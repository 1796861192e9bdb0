// The first lines of the page: whether all is well, in words, what is wrong, and which key is refused most. Pure but for what draws.

import { byId, keepChildren, make, part, setSaid, setShown, setText, withCode } from "./dom.mjs";
import { keyWords, noKeyWords, outstandingKey, ruleWords } from "./top.mjs";
import { countWords, plural, shown, sinceWords } from "./words.mjs";

/**
 * @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State
 * @typedef {State["conditions"][number]} Condition
 * @typedef {import("./top.mjs").TopAnswer} TopAnswer
 */

/** @param {State} state */
export function verdictOf({ status, conditions }) {
  if (status === "well") return "All is well.";
  const critical = conditions.filter(({ severity }) => severity === "critical").length;
  const warnings = conditions.length - critical;
  if (critical === 0) return `${plural(warnings, "thing")} to check, nothing urgent.`;
  const more = warnings === 0 ? "" : `, and ${warnings} more to check`;
  return `${plural(critical, "thing")} ${critical === 1 ? "is" : "are"} wrong${more}.`;
}

/** Words with a colour. @param {string} says @param {string} colour */
export function showVerdict(says, colour) {
  const verdict = byId("verdict");
  setText(verdict, says);
  verdict.className = colour;
  const title = says === "All is well." ? "Headgate: well" : `Headgate: ${says}`;
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
  return make("li", {}, strong, make("span", { class: "age" }), make("ul", { class: "details" }), more);
}

/** @param {Condition} condition @param {string} now */
function ageOf({ severity, since, workers }, now) {
  const who = workers === undefined ? "" : `, ${workers.length === 1 ? "worker" : "workers"} ${workers.join(", ")}`;
  return `${severity}, since ${sinceWords(since, now)}${who}`;
}

/** The key that is refused most, in one sentence; nothing if nothing is refused. @param {TopAnswer} answer */
export function showFlood(answer) {
  const flood = byId("flood");
  setShown(flood, answer.refused > 0);
  if (answer.refused > 0) setText(flood, floodWords(answer));
}

/** @param {TopAnswer} answer */
export function floodWords(answer) {
  const key = outstandingKey(answer);
  if (key === undefined) return noKeyWords(answer.refused);
  const since = key.refused_since === null ? "" : `, since ${sinceWords(key.refused_since, answer.at)}`;
  const name = shown(keyWords(key), 80);
  return `Refused most: ${name} by ${shown(ruleWords(key), 80)}, ${countWords(key.refused)} in the last minute${since}.`;
}
