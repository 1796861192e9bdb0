// Tables of the rules in force, with the counts of each limit, and of several processes.

import { hrefOf } from "./address.mjs";
import { drawSpark, makeSpark } from "./charts.mjs";
import { byId, fillTable, make, part, setShown, setText } from "./dom.mjs";
import { latest, ratesOf } from "./rates.mjs";
import { isFound } from "./top.mjs";
import { countWords, plural, processName, rateWords, shown, sinceWords } from "./words.mjs";

/**
 * @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State
 * @typedef {State["rules"]["rows"][number]} RuleRow
 * @typedef {import("./rates.mjs").History} History
 */

/** Most limits in the history. If it has fewer, all others were not hit. */
const HISTORY_LIMITS = 200;

/** @param {State} state @param {History | null} history @param {import("./address.mjs").View} view */
export function showRules({ rules, at }, history, view) {
  const loaded = rules.loaded_at === null ? "none in force" : `in force since ${sinceWords(rules.loaded_at, at)}`;
  const hash = rules.hash === null ? "" : `, version ${rules.version}, hash ${rules.hash.slice(0, 12)}`;
  setText(byId("rules-source"), shown(`From ${rules.source}${hash}, ${loaded}.`, 600));
  setShown(byId("rules-note"), rules.left_out > 0);
  setText(byId("rules-note"), `The ${rules.rows.length} that refuse most; ${plural(rules.left_out, "row")} left out.`);
  fillTable(byId("rules"), rowsOf(rules.rows, history, view), (row) => `${row.name} ${row.id} ${row.says ?? ""}`, [
    { head: "Rule and limit", parts: ruleParts, draw: (cell, row) => drawLink(cell, row, view) },
    { head: "Hits/s", is: "number hits-now", text: (row) => nowWords(row, history, "line") },
    {
      head: "Refused/s",
      is: "number refused-now",
      text: (row) => nowWords(row, history, "area"),
      draw: (cell) => cell.classList.toggle("critical", /[1-9]/.test(cell.textContent ?? "")),
    },
    {
      head: "Total refused",
      is: "number wide refused-ever",
      text: ({ count }) => (count === undefined ? "" : countWords(count.refused)),
    },
    {
      head: "15 minutes",
      is: "chart",
      parts: ({ count }) => (count === undefined ? [] : [makeSpark()]),
      draw: (cell, { id, count }) => {
        if (count === undefined || history === null) return;
        drawSpark(part(cell, "svg"), history, limitDrawn(history, id), "Hits per second", rateWords);
      },
    },
  ]);
}

/** @param {RuleRow} row @param {History | null} history @param {"line" | "area"} list */
function nowWords({ id, count }, history, list) {
  return count === undefined || history === null ? "" : rateWords(latest(limitDrawn(history, id)[list]));
}

/** A link that opens the rule, or closes it if it is open. @param {HTMLElement} cell @param {RuleRow} row @param {import("./address.mjs").View} view */
function drawLink(cell, { depth, id }, view) {
  const isOpen = id === view.rule;
  cell.style.setProperty("--depth", String(depth));
  const link = cell.querySelector("a");
  link?.setAttribute("href", hrefOf(view, { rule: isOpen ? "" : id }));
  link?.setAttribute("aria-current", String(isOpen));
}

/** Hits per second of a limit, and refusals. @param {History} history @param {string} id @returns {import("./charts.mjs").Drawn} */
export function limitDrawn(history, id) {
  const isKnown = Object.keys(history.limits).length < HISTORY_LIMITS;
  const none = history.seconds.map(() => (isKnown ? 0 : null));
  const { hits, refused } = history.limits[id] ?? { hits: none, refused: none };
  return { line: ratesOf(history, hits), area: ratesOf(history, refused) };
}

/** The rows of a view: in the order of the files, or found and sorted, under their whole names. @param {readonly RuleRow[]} rows @param {History | null} history @param {import("./address.mjs").View} view @returns {readonly RuleRow[]} */
function rowsOf(rows, history, { find, sort }) {
  if (find + sort === "") return rows;
  const list = sort === "asked" ? "line" : "area";
  const rateOf = (/** @type {RuleRow} */ { id }) =>
    history === null ? 0 : (latest(limitDrawn(history, id)[list]) ?? 0);
  const found = rows.filter(({ id, says = "", count }) => count !== undefined && isFound(`${id} ${says}`, find));
  const named = found.map(({ limit: _, ...row }) => ({ ...row, depth: 0, name: row.id }));
  return sort === "" ? named : named.sort((one, other) => rateOf(other) - rateOf(one));
}

/** @param {RuleRow} row */
function ruleParts({ name, where, limit, says, mode, count }) {
  const words = [says, mode === undefined ? undefined : `${mode} mode`, where].filter((word) => word !== undefined);
  return [
    count === undefined ? shown(name, 80) : make("a", {}, shown(name, 80)),
    ...(limit === undefined ? [] : [" ", make("span", { class: "limit" }, shown(limit, 80))]),
    ...(words.length === 0 ? [] : [make("small", {}, shown(words.join("; "), 200))]),
  ];
}

/** Each process that shares the store, and their sum. @param {State} state */
export function showProcesses({ processes }) {
  const all = processes ?? [];
  const areSeveral = all.length > 1;
  for (const id of ["processes-section", "calls-note"]) setShown(byId(id), areSeveral);
  const sumOf = (/** @type {"allowed" | "refused"} */ name) =>
    all.reduce((sum, { per_second: rates }) => sum + (rates?.[name] ?? 0), 0);
  const sum = {
    instance: `All ${all.length}`,
    status: "",
    rules: null,
    answers_here: false,
    per_second: { allowed: sumOf("allowed"), refused: sumOf("refused") },
  };
  fillTable(byId("processes"), [sum, ...all], ({ instance }) => instance, [
    { head: "Process", text: ({ instance }) => processName(instance) },
    { head: "Status", text: ({ status, answers_here: isHere }) => statusWords(status ?? "starting", isHere) },
    {
      head: "Calls/s",
      is: "number",
      text: ({ per_second: rates }) => rateWords(rates && rates.allowed + rates.refused),
    },
    { head: "Refused/s", is: "number", text: ({ per_second: rates }) => rateWords(rates?.refused ?? null) },
    { head: "Rules", is: "wide", text: ({ rules }) => rules?.slice(0, 12) ?? "" },
  ]);
}

/** @param {string} status @param {boolean} isHere */
function statusWords(status, isHere) {
  return isHere ? `${status}, answers here` : status;
}
