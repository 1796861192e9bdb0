// The tables and charts: calls, keys, rules, descriptors without a rule, workers. They are changed in place, so that nothing jumps.

import { byId, keepChildren, make, setShown, setText } from "./dom.mjs";
import { latest } from "./rates.mjs";
import { drawSpark, makeSpark } from "./spark.mjs";
import { keyWords } from "./top-key.mjs";
import { countWords, plural, rateWords, shown, sinceWords, timeWords } from "./words.mjs";

/**
 * @typedef {import("../src/admin/state-json.ts").StateView} State
 * @typedef {import("../src/admin/state-json.ts").RuleRow} RuleRow
 * @typedef {import("./rates.mjs").RateHistory} RateHistory
 * @typedef {import("./top-key.mjs").TopKey} TopKey
 */

/** Under this name the history has the calls; no rule has it. */
export const CALLS = "";

const CALL_CHARTS = [
  { id: "calls", says: "all calls", hits: "calls", refused: "refused" },
  { id: "refused", says: "refused", hits: "refused", refused: "refused" },
  { id: "degraded", says: "without the store", hits: "degraded", refused: "degraded" },
  { id: "errors", says: "errors", hits: "errors", refused: "errors" },
];

/** @param {RateHistory} history */
export function showCalls(history) {
  keepChildren(byId("calls"), CALL_CHARTS, {
    key: ({ id }) => id,
    create: ({ says }) =>
      make("li", {}, make("span", { class: "quiet" }, says), make("output", { "aria-live": "off" }), makeSpark()),
    update: (item, { hits, refused }) => drawInto(item, history.rates(CALLS, hits), history.rates(CALLS, refused)),
  });
}

/** @param {Element} item @param {(number | null)[]} hits @param {(number | null)[]} refused */
function drawInto(item, hits, refused) {
  setText(part(item, "output"), rateWords(latest(hits)));
  drawSpark(part(item, "svg"), hits, refused);
}

/** @param {State} state @param {RateHistory} history */
export function showRules({ rules, at }, history) {
  const loaded = rules.loaded_at === null ? "none in force" : `in force since ${sinceWords(rules.loaded_at, at)}`;
  const hash = rules.hash === null ? "" : `, version ${rules.version}, hash ${rules.hash.slice(0, 12)}`;
  setText(byId("rules-source"), shown(`From ${rules.source}${hash}, ${loaded}.`, 600));
  setShown(byId("rules-note"), rules.left_out > 0);
  setText(byId("rules-note"), `The ${rules.rows.length} that refuse most; ${plural(rules.left_out, "row")} left out.`);
  setShown(byId("rules"), rules.rows.length > 0);
  keepChildren(bodyOf("rules"), rules.rows, {
    key: (row) => `${row.id} ${row.says ?? ""}`,
    create: createRule,
    update: (element, { id, count }) => {
      if (count === undefined) return;
      const [hits, refused] = [history.rates(id, "hits"), history.rates(id, "refused")];
      setText(part(element, ".hits-now"), rateWords(latest(hits)));
      setText(part(element, ".refused-now"), rateWords(latest(refused)));
      setText(part(element, ".refused-ever"), countWords(count.refused));
      drawSpark(part(element, "svg"), hits, refused);
    },
  });
}

/** @param {RuleRow} row */
function createRule({ depth, name, where, limit, says, mode, count }) {
  const head = make("th", { scope: "row", class: `depth-${Math.min(depth, 4)}` }, shown(name, 80));
  if (limit !== undefined) head.append(" ", make("span", { class: "limit" }, shown(limit, 80)));
  const words = [says, mode === undefined ? undefined : `${mode} mode`, where].filter((word) => word !== undefined);
  if (words.length > 0) head.append(make("small", {}, shown(words.join("; "), 200)));
  if (count === undefined) return make("tr", {}, head, make("td", { colspan: "4" }));
  return make(
    "tr",
    {},
    head,
    make("td", { class: "number hits-now" }),
    make("td", { class: "number refused-now" }),
    make("td", { class: "number wide refused-ever" }),
    make("td", { class: "chart" }, makeSpark()),
  );
}

/** @param {readonly TopKey[]} keys @param {string} now @param {(key: TopKey) => void} explain */
export function showTop(keys, now, explain) {
  const refused = keys.filter((key) => key.refused > 0);
  setText(
    byId("top-note"),
    refused.length === 0 ? "None within the last minute." : "Within the last minute; counts may be a little too high.",
  );
  setShown(byId("top"), refused.length > 0);
  keepChildren(bodyOf("top"), refused, {
    key: ({ domain, rule, key }) => JSON.stringify([domain, rule, key]),
    create: (key) => createTop(key, explain),
    update: (row, key) => {
      setText(part(row, ".refused"), countWords(key.refused));
      setText(part(row, ".asked"), countWords(key.asked));
      setText(part(row, ".since"), key.refused_since === null ? "-" : sinceWords(key.refused_since, now));
    },
  });
}

/** @param {TopKey} key @param {(key: TopKey) => void} explain */
function createTop(key, explain) {
  const name = shown(keyWords(key), 80);
  const head = make("th", { scope: "row" }, name);
  if (key.descriptor !== undefined) {
    const button = make("button", { type: "button", "aria-label": `Explain ${name}` }, "Explain");
    button.addEventListener("click", () => explain(key));
    head.append(make("small", {}, button));
  }
  return make(
    "tr",
    {},
    head,
    make("td", { class: "rule" }, shown(key.rule === "" ? "global limit" : key.rule, 80), limitPart(key)),
    make("td", { class: "number refused" }),
    make("td", { class: "number wide asked" }),
    make("td", { class: "since" }),
  );
}

/** @param {TopKey} key */
function limitPart({ domain, limit }) {
  return make("small", {}, shown(limit === "" ? domain : `${limit}, ${domain}`, 80));
}

/** Says why there are none. @param {string} says */
export function hideTop(says) {
  setText(byId("top-note"), says);
  setShown(byId("top"), false);
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

/** @param {State} state */
export function showWorkers({ workers, answered_by: answeredBy }) {
  setShown(byId("workers-section"), workers !== undefined);
  keepChildren(bodyOf("workers"), workers ?? [], {
    key: ({ worker, pid }) => `${worker} ${pid}`,
    create: ({ worker, pid }) => {
      const head = make("th", { scope: "row" }, String(worker), make("small", {}, `pid ${pid}`));
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

/** @param {string} id */
function bodyOf(id) {
  return /** @type {Element} */ (byId(id).querySelector("tbody"));
}

/** @param {Element} element @param {string} selector */
function part(element, selector) {
  return /** @type {Element} */ (element.querySelector(selector));
}
