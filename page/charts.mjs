// Charts of the size of a word, and how many calls there are per second: hits as a line, refused ones as an area below it. The newest
// stands at the right edge.

import { byId, keepChildren, make, part, setText } from "./dom.mjs";
import { LOOKS_MAX, latest } from "./rates.mjs";
import { rateWords } from "./words.mjs";

/** @typedef {import("./rates.mjs").RateHistory} RateHistory */

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

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 28;

/** @typedef {readonly (number | null)[]} Rates */

/** A chart without anything on it yet. */
export function makeSpark() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  for (const name of ["refused", "hits"]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    svg.append(path);
  }
  return svg;
}

/** @param {Element} svg @param {Rates} hits @param {Rates} refused */
export function drawSpark(svg, hits, refused) {
  const most = Math.max(...[...hits, ...refused].map((rate) => rate ?? 0), 0);
  svg.setAttribute("aria-label", labelOf(hits, refused, most));
  // An idle chart is a line on the ground.
  const scale = (HEIGHT - 2) / (most > 0 ? most : 1);
  svg.querySelector(".hits")?.setAttribute("d", pathOf(hits, scale, false));
  svg.querySelector(".refused")?.setAttribute("d", pathOf(refused, scale, true));
}

/** @param {Rates} hits @param {Rates} refused @param {number} most */
function labelOf(hits, refused, most) {
  return `now ${rateWords(latest(hits))} per second, ${rateWords(latest(refused))} of them refused; at most ${rateWords(most)} in two minutes`;
}

/**
 * A path in as many strokes as there are stretches without a gap.
 * @param {Rates} rates @param {number} scale @param {boolean} isArea
 */
export function pathOf(rates, scale, isArea) {
  const step = WIDTH / (LOOKS_MAX - 1);
  const left = WIDTH - (rates.length - 1) * step;
  let path = "";
  let startX = "";
  let lastX = "";
  const close = () => (isArea && startX !== "" ? `L${lastX} ${HEIGHT}L${startX} ${HEIGHT}Z` : "");
  rates.forEach((rate, i) => {
    if (rate === null) {
      path += close();
      startX = "";
      return;
    }
    lastX = (left + i * step).toFixed(1);
    path += `${startX === "" ? "M" : "L"}${lastX} ${(HEIGHT - 1 - rate * scale).toFixed(1)}`;
    if (startX === "") startX = lastX;
  });
  return path + close();
}
