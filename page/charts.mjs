// Charts of the last fifteen minutes: of calls and times with axes, of rules as large as a word. What is refused is an area below the
// line of all. The newest is at the right edge. The pointer over one chart, or its arrow keys, show the values of that time in all.

import { byId, keepChildren, make, part, setShown, setText } from "./dom.mjs";
import { endsOf, latest, MINUTE_MS, ratesOf, SPAN_MS } from "./rates.mjs";
import { millisWords, rateWords, timeWords } from "./words.mjs";

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
    says: "Calls without the store, and errors",
    of: (history) => ({
      line: ratesOf(history, history.calls.degraded),
      area: ratesOf(history, history.calls.errors),
    }),
    words: rateWords,
    line: "without the store",
    area: "errors",
  },
  timesChart("decision", "Decision time"),
  timesChart("store", "Store time"),
];

/** @param {"decision" | "store"} of @param {string} says @returns {Chart} */
function timesChart(of, says) {
  return {
    id: of,
    says,
    of: ({ times_us: times }) => ({ line: times[`${of}_p99`], area: times[`${of}_p50`] }),
    words: millisWords,
    line: "p99",
    area: "p50",
  };
}

/** @param {History} history @returns {Drawn} */
function callsDrawn(history) {
  const { allowed, refused } = history.calls;
  const all = allowed.map((count, i) => (count ?? 0) + (refused[i] ?? 0));
  return { line: ratesOf(history, all), area: ratesOf(history, refused) };
}

/** Where the pointer is: 0 at the left edge of charts, 1, the newest, also if it is elsewhere. */
let pointed = 1;
/** Draws again what was drawn last. @type {() => void} */
let redraw = () => undefined;

/** The charts, before them that of a rule that is opened. @param {History} history @param {Chart | undefined} opened */
export function showCharts(history, opened) {
  redraw = () => showCharts(history, opened);
  const zone = new Date().toLocaleTimeString("en", { timeZoneName: "short" }).split(" ").at(-1);
  setText(byId("calls-heading"), `Last 15 minutes (${zone})`);
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
  const names = ["scale", "tick", "tick", "tick", "pointer"];
  const marks = names.map((name) => make("span", { class: name, "aria-hidden": "true" }));
  const slides = { role: "slider", tabindex: "0", "aria-valuemin": String(-SPAN_MS / 1_000), "aria-valuemax": "0" };
  const plot = make("div", { class: "plot", ...slides }, ...marks.slice(0, -1), makeSpark(), ...marks.slice(-1));
  const point = (/** @type {number} */ at) => {
    pointed = Math.min(1, Math.max(0, at));
    redraw();
  };
  plot.addEventListener("pointermove", ({ clientX }) => {
    const { left, width } = plot.getBoundingClientRect();
    point((clientX - left) / width);
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -STEP_MS, ArrowRight: STEP_MS }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point(pointed + step / SPAN_MS);
  });
  for (const end of ["pointerleave", "blur"]) plot.addEventListener(end, () => point(1));
  return make(
    "li",
    { class: isTime ? "times" : "rates" },
    make("strong", {}, says),
    make("output", { "aria-live": "off" }, make("span", { class: "line" }), " ", make("span", { class: "area" })),
    plot,
  );
}

/** @param {Element} item @param {History} history @param {Omit<Chart, "id">} chart */
function drawChart(item, history, { says, of, words, line, area }) {
  const drawn = of(history);
  const nowMs = Date.parse(history.at);
  // Lengths of samples are fractions: their sum may miss the end of the last one.
  const atMs = nowMs - 1 - (1 - pointed) * SPAN_MS;
  const i = endsOf(history).findIndex((endMs, j) => atMs <= endMs && atMs > endMs - (history.seconds[j] ?? 0) * 1_000);
  setText(part(item, ".line"), `${line} ${words(drawn.line[i] ?? null)}`);
  setText(part(item, ".area"), `${area} ${words(drawn.area[i] ?? null)}`);
  const spark = part(item, "svg");
  const top = scaleTop(drawSpark(spark, history, drawn, says, words, scaleTop));
  const plot = part(item, ".plot");
  plot.setAttribute("aria-label", spark.getAttribute("aria-label") ?? says);
  plot.setAttribute("aria-valuenow", String(Math.round(((pointed - 1) * SPAN_MS) / 1_000)));
  plot.setAttribute("aria-valuetext", `${timeWords(atMs, nowMs)}: ${part(item, "output").textContent}`);
  setText(part(item, ".scale"), `${words(top)}\n${words(top / 2)}`);
  placeAt(part(item, ".pointer"), pointed, pointed < 1, timeWords(atMs, nowMs));
  const tickMs = Math.floor((nowMs - MINUTE_MS) / TICK_MS) * TICK_MS;
  item.querySelectorAll(".tick").forEach((tick, j) => {
    const ageMs = nowMs - tickMs + j * TICK_MS;
    placeAt(tick, 1 - ageMs / SPAN_MS, ageMs <= SPAN_MS, timeWords(nowMs - ageMs, nowMs).slice(0, 5));
  });
}

/** How far an arrow key goes. */
const STEP_MS = 10_000;
/** Distance between times on the axis. There is none in the last minute, where its text would not fit. */
const TICK_MS = 300_000;

/** @param {Element} mark @param {number} at 0 at the left edge @param {boolean} isShown @param {string} says */
function placeAt(mark, at, isShown, says) {
  const element = /** @type {HTMLElement} */ (mark);
  element.style.setProperty("--at", String(100 * at));
  setShown(element, isShown);
  setText(element, says);
}

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 360;
const HEIGHT = 60;

/** An empty chart. */
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

/** The next number with one digit before its zeros. @param {number} most */
export function scaleTop(most) {
  if (most <= 1) return 1;
  const unit = 10 ** Math.floor(Math.log10(most));
  return unit * Math.ceil(most / unit);
}

/**
 * A path with a step for each sample; it breaks at gaps.
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
    // A line of zeros is visible, an area of zeros is not.
    const y = (HEIGHT - (isArea ? 0 : 1) - value * scale).toFixed(1);
    path += `${startX === "" ? "M" : "L"}${lastX} ${y}H${xOf(endMs)}`;
    if (startX === "") startX = lastX;
  });
  return path + close();
}
