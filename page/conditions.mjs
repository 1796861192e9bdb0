// What is wrong, a row each: since when, what callers get of it, what to do; details are folded.

import {
  byId,
  copyButton,
  fillTable,
  keepChildren,
  make,
  part,
  setChildren,
  setSaid,
  setShown,
  setText,
  timeOf,
  withCode,
} from "./dom.mjs";
import { countWords, plural, processName, shown, sinceWords } from "./words.mjs";

/**
 * @typedef {State["conditions"][number]} Condition
 * @typedef {NonNullable<Condition["calls"]>[number]} Undecided
 */

/** Details that are shown without a click. */
const OPEN_MAX = 3;

/** @param {State} state */
export function showConditions({ conditions, at, links }) {
  keepChildren(byId("conditions"), conditions, {
    key: ({ id, severity, see }) => JSON.stringify([id, severity, see]),
    create: createCondition,
    update: (item, condition) => {
      item.className = condition.severity;
      setSaid(part(item, "strong"), shown(condition.says, 600));
      setText(part(item, ".age"), ageOf(condition, at));
      // The first line says it of the first one.
      const effect = condition === conditions[0] ? undefined : condition.effect;
      setSaid(part(item, ".effect"), shown(effect === undefined ? "" : `Callers: ${effect}.`, 600));
      setChildren(part(item, ".advice"), [...withCode(condition.advice), " ", runbookLink(condition.see, links.docs)]);
      offerCommand(part(item, ".actions"), condition);
      showDetails(item, condition);
    },
  });
}

/** @param {Condition} condition */
function createCondition({ severity }) {
  return make(
    "li",
    {},
    make("strong", { class: severity }),
    " ",
    make("span", { class: "age" }),
    make("p", { class: "effect" }),
    make("p", { class: "advice" }),
    make("p", { class: "actions" }),
    make("details", {}, make("summary"), make("table", { class: "calls cards" }), make("div", { class: "details" })),
  );
}

/** The command that the advice names, to copy. @param {Element} actions @param {Condition} condition */
function offerCommand(actions, { advice }) {
  const [, command] = /`(headgate [^`]+)`/.exec(advice) ?? [];
  if (command === undefined || actions.firstChild !== null) return;
  actions.append(copyButton("Copy command", command));
}

/** @param {string} see @param {string | null} docs */
function runbookLink(see, docs) {
  const page = `operations.md#${see}`;
  if (docs === null) return make("span", { class: "quiet" }, "Runbook: ", make("code", {}, `docs/${page}`));
  return make("a", { href: `${docs}/${page}`, target: "_blank", rel: "noopener" }, "Runbook");
}

/** @param {Element} item @param {Condition} condition */
function showDetails(item, { details, calls = [], by_process: told = [] }) {
  const fold = /** @type {HTMLDetailsElement} */ (part(item, "details"));
  const count = details.length + calls.length;
  setShown(fold, count > 0);
  const summary = part(fold, "summary");
  // Few lines need no click.
  if (summary.textContent === "" && count > 0) fold.open = count <= OPEN_MAX;
  setText(summary, told.length > 0 ? `Details of ${told.length} processes` : plural(count, "detail"));
  const table = /** @type {HTMLTableElement} */ (part(fold, "table"));
  fillTable(table, calls, ({ cause }) => cause, [
    { head: "Passed undecided", text: ({ cause }) => shown(cause, 100) },
    { head: "Last hour", is: "number", text: ({ last_hour: hour }) => countWords(hour) },
    { head: "Last day", is: "number", text: ({ last_day: day }) => countWords(day) },
    { head: "First", draw: (cell, { first_at: at }) => setChildren(cell, [timeOf(at)]) },
    { head: "Last", draw: (cell, { last_at: at }) => setChildren(cell, [timeOf(at)]) },
  ]);
  setChildren(part(fold, ".details"), told.length > 0 ? told.flatMap(toldParts) : linesOf(details));
}

/** One process under its own heading. @param {{ process: string, details: readonly string[] }} told */
function toldParts({ process, details }) {
  return [make("h3", {}, processName(process)), ...linesOf(details)];
}

/** @param {readonly string[]} lines */
function linesOf(lines) {
  return lines.length === 0
    ? []
    : [make("ul", {}, ...lines.map((line) => make("li", {}, ...withCode(shown(line, 600)))))];
}

/** @param {Condition} condition @param {string} now */
function ageOf({ severity, since, seen_by: seenBy = [] }, now) {
  return shown([`${severity}, since ${sinceWords(since, now)}`, ...seenBy.map(processName)].join(", "), 600);
}
