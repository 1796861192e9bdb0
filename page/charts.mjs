// Charts of the last fifteen minutes: of calls and times with an axis and a scale, of rules as large as a word. What is refused is an
// area below the line of all. The newest stands at the right edge.

import { byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { endsOf, latest, ratesOf, SPAN_MS } from "./rates.mjs";
import { millisWords, rateWords } from "./words.mjs";

/**
 * @typedef {import("./rates.mjs").History} History
 * @typedef {import("./rates.mjs").Samples} Samples
 * @typedef {{ readonly line: Samples, readonly area: Samples }} Drawn
 * @typedef {{ id: string, says: string, of: (history: History) => Drawn, words: (value: number | null) => string, line: string, area: string }} Chart
 */

/** @type {readonly Chart[]} */
const CHARTS = [
  { id: "calls", says: "Calls per second", of: callsDrawn, words: rateWords, line: "all", area: "refused" },
  {
    id: "degraded",
    says: "Without the store, errors",
    of: (history) => ({
      line: ratesOf(history, history.calls.degraded),
      area: ratesOf(history, history.calls.errors),
    }),
    words: rateWords,
    line: "without the store",
    area: "errors",
  },
  timesChart("decision", "Time of a decision"),
  timesChart("store", "Time of the store"),
];

/** @param {"decision" | "store"} of @param {string} says @returns {Chart} */
function timesChart(of, says) {
  return {
    id: of,
    says,
    of: ({ times_us: times }) => ({ line: times[`${of}_p99`], area: times[`${of}_p50`] }),
    words: millisWords,
    line: "99 % within",
    area: "half within",
  };
}

/** @param {History} history @returns {Drawn} */
function callsDrawn(history) {
  const { allowed, refused } = history.calls;
  const all = allowed.map((count, i) => (count ?? 0) + (refused[i] ?? 0));
  return { line: ratesOf(history, all), area: ratesOf(history, refused) };
}

/** The charts, before them that of a rule that is opened. @param {History} history @param {Chart | undefined} opened */
export function showCharts(history, opened) {
  keepChildren(byId("calls"), opened === undefined ? CHARTS : [opened, ...CHARTS], {
    key: ({ id }) => id,
    create: ({ says, id }) => createChart(says, id === "decision" || id === "store"),
    update: (item, chart) => {
      // Of what did not happen there is nothing to see.
      const { line, area } = chart.of(history);
      setShown(
        /** @type {HTMLElement} */ (item),
        chart.line === "all" || [...line, ...area].some((value) => (value ?? 0) > 0),
      );
      drawChart(item, history, chart);
    },
  });
}

/** The chart of a rule. @param {string} id @param {(history: History) => Drawn} of @returns {Chart} */
export function ruleChart(id, of) {
  return { id: `rule ${id}`, says: `Hits per second of ${id}`, of, words: rateWords, line: "all", area: "refused" };
}

/** @param {string} says @param {boolean} isTime */
function createChart(says, isTime = false) {
  const axis = ["15 min ago", "10", "5", "now"].map((text) => make("span", {}, text));
  return make(
    "li",
    { class: isTime ? "times" : "rates" },
    make("span", { class: "title" }, says),
    make("output", { "aria-live": "off" }),
    make("div", { class: "plot" }, makeSpark(), make("span", { class: "most" })),
    make("div", { class: "axis", "aria-hidden": "true" }, ...axis),
  );
}

/** @param {Element} item @param {History} history @param {Omit<Chart, "id">} chart */
function drawChart(item, history, { says, of, words, line, area }) {
  const drawn = of(history);
  setText(part(item, "output"), `${line} ${words(latest(drawn.line))}, ${area} ${words(latest(drawn.area))}`);
  const top = scaleTop(drawSpark(part(item, "svg"), history, drawn, says, words, scaleTop));
  setText(part(item, ".most"), words(top));
}

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360;
const HEIGHT = 60;

/** A chart without anything on it yet. */
export function makeSpark() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "no samples yet");
  for (const name of ["refused", "hits"]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    svg.append(path);
  }
  return svg;
}

/**
 * Draws, and returns the largest value.
 * @param {Element} svg @param {History} history @param {Drawn} drawn @param {string} says @param {(value: number | null) => string} words
 * @param {(most: number) => number} top the value at the upper edge
 */
export function drawSpark(svg, history, { line, area }, says, words, top = (most) => most) {
  const most = Math.max(...[...line, ...area].map((value) => value ?? 0), 0);
  svg.setAttribute("aria-label", `${says}, fifteen minutes: now ${words(latest(line))}, at most ${words(most)}`);
  // An idle chart is a line on the ground.
  const scale = (HEIGHT - 2) / (most > 0 ? top(most) : 1);
  const ends = endsOf(history);
  svg.querySelector(".hits")?.setAttribute("d", pathOf(line, history.seconds, ends, scale, false));
  svg.querySelector(".refused")?.setAttribute("d", pathOf(area, history.seconds, ends, scale, true));
  return most;
}

/** The next of 1, 2, 5, 10, 20 and so on. @param {number} most */
export function scaleTop(most) {
  if (most <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return unit * ([1, 2, 5].find((times) => times * unit >= most) ?? 10);
}

/**
 * A path of a step for each sample, in as many strokes as there are stretches without a gap.
 * @param {Samples} values @param {Samples} seconds @param {readonly number[]} ends @param {number} scale @param {boolean} isArea
 */
export function pathOf(values, seconds, ends, scale, isArea) {
  const nowMs = ends.at(-1) ?? 0;
  const xOf = (/** @type {number} */ ms) => Math.max(0, WIDTH - ((nowMs - ms) * WIDTH) / SPAN_MS).toFixed(1);
  let path = "";
  let startX = "";
  let lastX = "";
  const close = () => (isArea && startX !== "" ? `V${HEIGHT}H${startX}Z` : "");
  values.forEach((value, i) => {
    const endMs = ends[i] ?? 0;
    if (value === null || endMs <= nowMs - SPAN_MS) {
      path += close();
      startX = "";
      return;
    }
    lastX = xOf(endMs - (seconds[i] ?? 0) * 1_000);
    const y = (HEIGHT - 1 - value * scale).toFixed(1);
    path += `${startX === "" ? "M" : "L"}${lastX} ${y}H${xOf(endMs)}`;
    if (startX === "") startX = lastX;
  });
  return path + close();
}
