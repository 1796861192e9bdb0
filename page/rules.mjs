// The rules by domain: sums, the limits that calls met with their use, and how many have met none.

import { hrefOf } from "./address.mjs";
import { drawSpark, makeSpark } from "./charts.mjs";
import { byId, headOf, keepChildren, make, part, rowsOf, setChildren, setShown, setText } from "./dom.mjs";
import { bar } from "./keys.mjs";
import { latest, limitRates } from "./rates.mjs";
import { countWords, cut, percentWords, plural, rateWords, shown, sinceWords } from "./words.mjs";

/**
 * @typedef {RuleRows["rows"][number]} RuleRow
 * @typedef {RuleRows["domains"][number]} DomainRow
 */

/** Most rows of one answer. */
const ROWS_MAX = 200;

/** The question for the rows of a view. @param {View} view */
export function rulesQuestion({ find, sort, all, from }) {
  const asked = {
    ...(find === "" ? {} : { find }),
    ...(sort === "" ? {} : { by: sort === "asked" ? "asked" : "refused" }),
    ...(all === "" ? {} : { domain: all, all: "" }),
    ...(/^\d+$/.test(from) ? { after: from } : {}),
  };
  return `rules?${new URLSearchParams(asked)}`;
}

/** @param {RuleRows} answer @param {State} state @param {CallHistory | null} history @param {View} view */
export function showRules(answer, { rules, at, processes }, history, view) {
  const { rows, found, limits } = answer;
  const loaded = rules.loaded_at === null ? "none in force" : `in force since ${sinceWords(rules.loaded_at, at)}`;
  const hash = rules.hash === null ? "" : `, version ${rules.version}, hash ${rules.hash.slice(0, 7)}`;
  setText(byId("rules-source"), shown(`From ${rules.source}${hash}, ${loaded}.`, 600));
  const own = (processes ?? []).length > 1 ? " Counts of the process that answers here." : "";
  setText(byId("rules-note"), `${noteWords(answer, view)}${own}`);
  setChildren(byId("rules-pages"), pageLinks(view, rows.length, found));
  const domains = answer.domains.filter(
    ({ domain }) => view.all + view.find === "" || rows.some((row) => row.domain === domain),
  );
  showGroups(byId("rules"), domains, rows, history, view);
  setShown(byId("rules"), limits > 0 && domains.length > 0);
}

/** @param {RuleRows} answer @param {View} view */
function noteWords({ rows, found, limits, domains_left_out: left }, { find, all }) {
  const of = plural(limits, "limit");
  const more = left === 0 ? "" : ` ${countWords(left)} more domains refuse less and are not listed.`;
  const some = rows.length < found ? `${countWords(rows.length)} of ${countWords(found)}` : countWords(found);
  if (find !== "")
    return found === 0
      ? `No rule of ${of} has '${cut(find, 60)}' in its name.${more}`
      : `${some} found among ${of}.${more}`;
  if (all !== "") return `${some} of ${cut(all, 60)}.${more}`;
  return `${found === 0 ? `No call has met any of ${of}` : `${some} of ${of}: those that calls met`}.${more}`;
}

/** @param {View} view @param {number} shown_ @param {number} found */
function pageLinks(view, shown_, found) {
  const from = Number(view.from) || 0;
  const link = (/** @type {string} */ says, /** @type {number} */ to) =>
    make("a", { href: hrefOf(view, { from: to === 0 ? "" : String(to) }) }, says);
  return [
    ...(view.all === ""
      ? []
      : [make("a", { href: hrefOf(view, { all: "", from: "" }) }, "Only rules that calls met"), " "]),
    ...(from === 0 ? [] : [link("Previous rules", Math.max(0, from - ROWS_MAX)), " "]),
    ...(from + shown_ >= found
      ? []
      : [
          link(
            `Next rules (${countWords(from + shown_)} to ${countWords(Math.min(found, from + shown_ + ROWS_MAX))})`,
            from + shown_,
          ),
        ]),
  ];
}

/** @typedef {{ readonly domain: DomainRow, readonly row?: RuleRow, readonly fold?: true }} Line */

/** A table with a body for each domain. @param {HTMLTableElement} table @param {readonly DomainRow[]} domains @param {readonly RuleRow[]} rows @param {CallHistory | null} history @param {View} view */
function showGroups(table, domains, rows, history, view) {
  const drawn = new Map(history === null ? [] : rows.map(({ id }) => [id, limitRates(history, id)]));
  const most = Math.max(0, ...[...drawn.values()].flatMap(({ line }) => line.map((rate) => rate ?? 0)));
  const nowOf = (/** @type {RuleRow} */ { id }) => latest(drawn.get(id)?.line ?? []);
  const refusedOf = (/** @type {RuleRow} */ { id }) => latest(drawn.get(id)?.area ?? []);
  const sumOf = (/** @type {DomainRow} */ { domain }) =>
    rows.reduce((sum, row) => sum + (row.domain === domain ? (refusedOf(row) ?? 0) : 0), 0);
  const busiest = Math.max(1, ...rows.map((row) => nowOf(row) ?? 0));
  /** @type {import("./dom.mjs").Column<Line>[]} */
  const columns = [
    { head: "Rule and limit", is: "rule-name", draw: (cell, line) => setChildren(cell, nameParts(line, view)) },
    {
      head: "Hits/s",
      is: "number bar-cell hits-now",
      parts: () => [make("span", { class: "fill" }), make("span")],
      draw: (cell, { row }) => {
        const rate = row === undefined ? null : nowOf(row);
        bar(cell, (rate ?? 0) / busiest);
        setText(part(cell, "span:last-child"), row?.count === undefined || history === null ? "" : rateWords(rate));
      },
    },
    {
      head: "Use",
      is: "number use bar-cell",
      parts: () => [make("span", { class: "fill" }), make("span")],
      draw: (cell, { row }) => drawUse(cell, row, row === undefined ? null : nowOf(row)),
    },
    {
      head: "Refused/s",
      is: "number refused-now",
      text: ({ domain, row, fold }) => {
        if (history === null || fold) return "";
        return row === undefined ? rateWords(sumOf(domain)) : row.count === undefined ? "" : rateWords(refusedOf(row));
      },
      draw: (cell) => cell.classList.toggle("critical", /[1-9]/.test(cell.textContent ?? "")),
    },
    {
      head: "Total refused",
      is: "number wide refused-ever",
      text: ({ domain, row, fold }) =>
        fold
          ? ""
          : countWords(row === undefined ? domain.refused : (row.count?.refused ?? 0) - (row.count?.shadowed ?? 0)),
    },
    {
      head: view.span === "hour" ? "1 hour" : "15 minutes",
      is: "chart wide",
      parts: ({ row }) => (row?.count === undefined ? [] : [makeSpark()]),
      draw: (cell, { row }) => {
        const rates = row && drawn.get(row.id);
        if (rates === undefined || history === null || row?.count === undefined) return;
        drawSpark(part(cell, "svg"), history, rates, "Hits per second", rateWords, () => Math.max(1, most));
      },
    },
  ];
  const head = headOf(columns);
  table.setAttribute("role", "table");
  // The head is no child that follows the domains.
  keepChildren(table, [undefined, ...domains], {
    key: (domain) => (domain === undefined ? "\0" : domain.domain),
    create: (domain) => (domain === undefined ? head : make("tbody", { role: "rowgroup" })),
    update: (body, domain) => {
      if (domain === undefined) setText(part(body, "th:last-child"), columns.at(-1)?.head ?? "");
      else keepChildren(body, linesOf(domain, rows, view), { key: lineKey, ...rowsOf(columns) });
    },
  });
}

/** @param {DomainRow} domain @param {readonly RuleRow[]} rows @param {View} view @returns {readonly Line[]} */
function linesOf(domain, rows, view) {
  const own = rows.filter((row) => row.domain === domain.domain).map((row) => ({ domain, row }));
  /** @type {readonly Line[]} */
  const folds = domain.unmet > 0 && view.all + view.find === "" ? [{ domain, fold: true }] : [];
  return [{ domain }, ...own, ...folds];
}

/** @param {Line} line */
function lineKey({ row, fold }) {
  return row === undefined ? `${fold === true}` : `${row.id} ${row.says} ${row.where}`;
}

/** @param {Line} line @param {View} view @returns {(Node | string)[]} */
function nameParts({ domain, row, fold }, view) {
  if (fold)
    return [
      make("a", { href: hrefOf(view, { all: domain.domain, from: "" }) }, `${countWords(domain.unmet)} without calls`),
    ];
  if (row === undefined)
    return [
      make("strong", { class: "domain", title: shown(domain.domain, 600) }, cut(domain.domain, 60)),
      make("small", {}, `${plural(domain.calls, "call")} since the start, ${plural(domain.limits, "limit")}`),
    ];
  const isOpen = row.id === view.rule;
  const name = row.rule === "" ? "global limit" : row.rule;
  const says =
    row.count === undefined
      ? [cut(name, 60)]
      : [
          make(
            "a",
            {
              href: hrefOf(view, { rule: isOpen ? "" : row.id }),
              "aria-current": String(isOpen),
              title: shown(`${row.id}, ${row.where ?? ""}`, 600),
            },
            cut(name, 60),
          ),
        ];
  const limit = row.limit === undefined ? [] : [" ", make("span", { class: "limit" }, cut(row.limit, 40))];
  return [
    ...says,
    ...limit,
    ...badgesOf(row),
    make(
      "small",
      {},
      shown(row.says, 160).replace(/\d{4,}/g, (digits) => countWords(Number(digits))),
    ),
  ];
}

/** @param {RuleRow} row */
function badgesOf({ mode, dead, changed }) {
  const all = [mode, dead === true ? "dead" : undefined, changed === true ? "changed at run time" : undefined];
  return all.flatMap((says) => (says === undefined ? [] : [" ", make("span", { class: "badge" }, says)]));
}

/** What calls come to in one window of the limit; of a long one the part, as so many have not come. Both of what it allows each key. @param {HTMLElement} cell @param {RuleRow | undefined} row @param {number | null} rate */
function drawUse(cell, row, rate) {
  const { amount, window_seconds: window } = row ?? {};
  const isKnown = rate !== null && amount !== undefined && window !== undefined;
  const hits = isKnown ? rate * window : 0;
  bar(cell, isKnown && amount > 0 ? hits / amount : 0);
  const part_ = hits > 10 * (amount ?? 0) ? "over 1,000 %" : percentWords(hits / (amount ?? 1));
  const use = (window ?? 0) > 60 ? part_ : countWords(Math.round(hits));
  const says = isKnown ? `${use} of ${countWords(amount)}/${unitWords(window)}` : "";
  setText(part(cell, "span:last-child"), says);
  cell.title = says === "" ? "" : "All keys together in a window at this rate, of what each key may.";
}

/** @param {number} seconds */
function unitWords(seconds) {
  return { 1: "s", 60: "min", 3600: "h", 86400: "d" }[seconds] ?? `${countWords(seconds)} s`;
}
