// The rules in force with what each limit counts; and what is there in some services only: descriptors without a rule, workers, the
// certificate.

import { hrefOf } from "./address.mjs";
import { drawSpark, makeSpark } from "./charts.mjs";
import { bodyOf, byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { latest, ratesOf } from "./rates.mjs";
import { isFound } from "./top.mjs";
import { countWords, plural, processName, rateWords, shown, sinceWords, timeWords } from "./words.mjs";

/**
 * @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State
 * @typedef {State["rules"]["rows"][number]} RuleRow
 * @typedef {import("./rates.mjs").History} History
 */

/** Limits of the history; with fewer, a limit that is not there was not hit. */
const HISTORY_LIMITS = 200;

/** @param {State} state @param {History | null} history @param {import("./address.mjs").View} view */
export function showRules({ rules, at }, history, view) {
  const loaded = rules.loaded_at === null ? "none in force" : `in force since ${sinceWords(rules.loaded_at, at)}`;
  const hash = rules.hash === null ? "" : `, version ${rules.version}, hash ${rules.hash.slice(0, 12)}`;
  setText(byId("rules-source"), shown(`From ${rules.source}${hash}, ${loaded}.`, 600));
  setShown(byId("rules-note"), rules.left_out > 0);
  setText(byId("rules-note"), `The ${rules.rows.length} that refuse most; ${plural(rules.left_out, "row")} left out.`);
  const rows = rowsOf(rules.rows, history, view);
  setShown(byId("rules"), rows.length > 0);
  keepChildren(bodyOf("rules"), rows, {
    key: (row) => `${row.name} ${row.id} ${row.says ?? ""}`,
    create: createRule,
    update: (element, { id, count }) => {
      if (count === undefined) return;
      const isOpen = id === view.rule;
      const link = part(element, "a");
      link.setAttribute("href", hrefOf(view, { rule: isOpen ? "" : id }));
      link.setAttribute("aria-current", String(isOpen));
      setText(part(element, ".refused-ever"), countWords(count.refused));
      if (history === null) return;
      const { line, area } = limitDrawn(history, id);
      setText(part(element, ".hits-now"), rateWords(latest(line)));
      setText(part(element, ".refused-now"), rateWords(latest(area)));
      part(element, ".refused-now").classList.toggle("critical", (latest(area) ?? 0) > 0);
      drawSpark(part(element, "svg"), history, { line, area }, "Hits per second", rateWords);
    },
  });
}

/** Hits per second of a limit, and refusals. @param {History} history @param {string} id @returns {import("./charts.mjs").Drawn} */
export function limitDrawn(history, id) {
  const isKnown = Object.keys(history.limits).length < HISTORY_LIMITS;
  const none = history.seconds.map(() => (isKnown ? 0 : null));
  const { hits, refused } = history.limits[id] ?? { hits: none, refused: none };
  return { line: ratesOf(history, hits), area: ratesOf(history, refused) };
}

/** The rows that the view asks for: in the order of the files, or sorted, then under their whole names. @param {readonly RuleRow[]} rows @param {History | null} history @param {import("./address.mjs").View} view @returns {readonly RuleRow[]} */
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
function createRule({ depth, name, where, limit, says, mode, count }) {
  const head = make("th", { scope: "row" }, count === undefined ? shown(name, 80) : make("a", {}, shown(name, 80)));
  head.style.setProperty("--depth", String(depth));
  if (limit !== undefined) head.append(" ", make("span", { class: "limit" }, shown(limit, 80)));
  const words = [says, mode === undefined ? undefined : `${mode} mode`, where].filter((word) => word !== undefined);
  if (words.length > 0) head.append(make("small", {}, shown(words.join("; "), 200)));
  const chart = count === undefined ? [] : [makeSpark()];
  // No cell spans columns: those that telephones leave out would then take room all the same.
  return make(
    "tr",
    {},
    head,
    make("td", { class: "number hits-now" }),
    make("td", { class: "number refused-now" }),
    make("td", { class: "number wide refused-ever" }),
    make("td", { class: "chart" }, ...chart),
  );
}

/** @param {State} state */
export function showUnmatched({ unmatched }) {
  setShown(byId("unmatched-note"), unmatched.length === 0);
  setShown(byId("unmatched"), unmatched.length > 0);
  keepChildren(bodyOf("unmatched"), unmatched, {
    key: ({ domain }) => domain,
    create: ({ domain }) =>
      make("tr", {}, make("th", { scope: "row" }, shown(domain)), make("td", { class: "number" })),
    update: (row, { descriptors }) => setText(part(row, "td"), countWords(descriptors)),
  });
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
  keepChildren(bodyOf("processes"), [sum, ...all], {
    key: ({ instance }) => instance,
    create: ({ instance }) => {
      const cells = ["number", "number", "wide"].map((name) => make("td", { class: name }));
      return make("tr", {}, make("th", { scope: "row" }, processName(instance), make("small")), ...cells);
    },
    update: (row, { status, answers_here: answersHere, per_second: rates, rules }) => {
      const [calls, refused] = rates === null ? [null, null] : [rates.allowed + rates.refused, rates.refused];
      setText(part(row, "small"), `${status ?? "starting"}${answersHere ? ", answers here" : ""}`);
      [rateWords(calls), rateWords(refused), rules?.slice(0, 12) ?? ""].forEach((text, i) => {
        setText(/** @type {Element} */ (row.children[i + 1]), text);
      });
    },
  });
}

/** @param {State} state */
export function showWorkers({ workers, answered_by: answeredBy }) {
  setShown(byId("workers-section"), workers !== undefined);
  keepChildren(bodyOf("workers"), workers ?? [], {
    key: ({ worker }) => String(worker),
    create: ({ worker }) => {
      const head = make("th", { scope: "row" }, String(worker));
      const cells = ["", "number", "number wide", ""].map((name) => make("td", { class: name }));
      return make("tr", {}, head, ...cells);
    },
    update: (row, { worker, status, connections, calls, rules }) => {
      const hash = /** @type {{ hash: string | null }} */ (rules).hash?.slice(0, 12) ?? "none";
      const answers = worker === answeredBy ? `${status}, answers here` : String(status);
      [answers, countWords(Number(connections)), countWords(Number(calls)), hash].forEach((text, i) => {
        setText(/** @type {Element} */ (row.children[i + 1]), text);
      });
    },
  });
}

/** @param {State} state */
export function showCertificate({ certificate, at }) {
  setShown(byId("certificate-section"), certificate !== null);
  if (certificate === null) return;
  const { subject, valid_to: end, file, fault, last_error: refused } = certificate;
  const until = timeWords(Date.parse(String(end)), Date.parse(at));
  const wrong = [fault, refused].filter((text) => typeof text === "string").join("; ");
  setText(
    byId("certificate"),
    shown(`${subject}, valid until ${until}, from ${file}${wrong === "" ? "" : `: ${wrong}`}`, 600),
  );
}
