// Charts of the last fifteen minutes or hour, from the process's start on: of calls and times with axes, of rules as
// large as a word. What is refused is an area below the line of all; refusals by rule are areas on each other. The
// newest is at the right edge. The pointer over one chart, or its arrow keys, show the values of that time in all.
// Marks say what happened.

import { byId, keepChildren, make, part, setChildren, setShown, setText, timeOf } from "./dom.mjs";
import { endsOf, knownMs, latest, limitRates, ratesOf } from "./rates.mjs";
import { cut, millisWords, rateWords, shown, timeWords, zoneWords } from "./words.mjs";

/**
 * @typedef {{ readonly line: Samples, readonly area: Samples, readonly stack?: readonly { readonly name: string, readonly values: Samples }[] }} Drawn
 * @typedef {{ id: string, says: string, of: (history: CallHistory) => Drawn, words: (value: number | null) => string, line: string, area: string }} Chart
 */

/** Rules of the chart of refusals; others are one area. */
const STACKED_MAX = 5;

/** @type {readonly Chart[]} */
const CHARTS = [
  { id: "calls", says: "Calls per second", of: callsDrawn, words: rateWords, line: "all", area: "refused" },
  { id: "refusals", says: "Refused hits per second", of: refusalsDrawn, words: rateWords, line: "all", area: "others" },
  {
    id: "undecided",
    says: "Passed undecided per second",
    of: (history) => ({ line: ratesOf(history, history.calls.passed), area: ratesOf(history, history.calls.errors) }),
    words: rateWords,
    line: "passed",
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

/** @param {CallHistory} history @returns {Drawn} */
function callsDrawn(history) {
  const { allowed, refused } = history.calls;
  const all = allowed.map((count, i) => (count ?? 0) + (refused[i] ?? 0));
  return { line: ratesOf(history, all), area: ratesOf(history, refused) };
}

/** @param {CallHistory} history @returns {Drawn} */
function refusalsDrawn(history) {
  const sumOf = (/** @type {Samples} */ list) =>
    list.reduce((/** @type {number} */ sum, count) => sum + (count ?? 0), 0);
  const all = Object.entries(history.limits)
    .map(([name, { refused }]) => ({ name, refused, sum: sumOf(refused) }))
    .filter(({ sum }) => sum > 0)
    .sort((one, other) => other.sum - one.sum);
  const rest = all.slice(STACKED_MAX);
  const addUp = (/** @type {readonly { refused: Samples }[]} */ lists) =>
    history.seconds.map((_, i) => lists.reduce((sum, { refused }) => sum + (refused[i] ?? 0), 0));
  const stack = all.slice(0, STACKED_MAX).map(({ name, refused }) => ({ name, values: ratesOf(history, refused) }));
  return { line: ratesOf(history, addUp(all)), area: ratesOf(history, addUp(rest)), stack };
}

/** Where the pointer is: 0 at the left edge of charts, 1, the newest, also if it is elsewhere. */
let pointed = 1;
/** Draws again what was drawn last. @type {() => void} */
let redraw = () => undefined;

/** The charts, before them that of a rule that is opened. @param {CallHistory} history @param {View} view @param {number} processes */
export function showCharts(history, view, processes) {
  redraw = () => showCharts(history, view, processes);
  setText(
    byId("calls-heading"),
    `Last ${view.span === "hour" ? "hour" : "15 minutes"} (${zoneWords(Date.parse(history.at))})`,
  );
  const note = `Calls of all ${processes} processes; limits, times and events of the one that answers here.`;
  setText(byId("charts-note"), processes > 1 ? note : "");
  keepChildren(byId("calls"), view.rule === "" ? CHARTS : [ruleChart(view.rule), ...CHARTS], {
    key: ({ id }) => id,
    create: ({ says, id }) => createChart(says, id === "decision" || id === "store"),
    update: (item, chart) => {
      // Of what did not happen there is nothing to see.
      const { line, area } = chart.of(history);
      const isAlways = chart.id === "calls" || chart.id.startsWith("rule ");
      setShown(/** @type {HTMLElement} */ (item), isAlways || [...line, ...area].some((value) => (value ?? 0) > 0));
      drawChart(item, history, chart);
    },
  });
  showEvents(history);
}

/** @param {string} id @returns {Chart} */
function ruleChart(id) {
  return {
    id: `rule ${id}`,
    says: `Hits per second of ${cut(id, 40)}`,
    of: (history) => limitRates(history, id),
    words: rateWords,
    line: "all",
    area: "refused",
  };
}

/** Events that are listed. */
const LISTED_MAX = 6;

/** What happened in the time of the charts. @param {CallHistory} history */
function showEvents(history) {
  const listed = eventsOf(history).slice(-LISTED_MAX).reverse();
  keepChildren(byId("events"), listed, {
    key: ({ at, says }) => `${at} ${says}`,
    create: ({ kind }) => make("li", { class: kind }),
    update: (item, { at, says, who, note }) => {
      const by = who === undefined ? "" : ` by ${who}`;
      setChildren(item, [timeOf(at), ` ${shown(`${says}${by}${note === undefined ? "" : ` (${note})`}`, 300)}`]);
    },
  });
}

/** @param {CallHistory} history */
function eventsOf(history) {
  const { fromMs } = frameOf(history);
  return history.events.filter(({ at }) => Date.parse(at) >= fromMs);
}

/** Shortest time that a chart covers. */
const FRAME_MS_MIN = 60_000;

/** The time that charts cover. @param {Pick<CallHistory, "at" | "seconds" | "span_seconds">} history */
function frameOf(history) {
  const nowMs = Date.parse(history.at);
  const spanMs = Math.min(history.span_seconds * 1_000, Math.max(FRAME_MS_MIN, knownMs(history)));
  return { nowMs, spanMs, fromMs: nowMs - spanMs };
}

/** @param {string} says @param {boolean} isTime */
function createChart(says, isTime = false) {
  const names = ["scale", "tick", "tick", "tick", "tick", "pointer"];
  const marks = names.map((name) => make("span", { class: name, "aria-hidden": "true" }));
  const events = make("div", { class: "marks", "aria-hidden": "true" });
  const slides = { role: "slider", tabindex: "0", "aria-valuemax": "0" };
  const plot = make(
    "div",
    { class: "plot", ...slides },
    ...marks.slice(0, -1),
    makeSpark(),
    events,
    ...marks.slice(-1),
  );
  const point = (/** @type {number} */ at) => {
    pointed = Math.min(1, Math.max(0, at));
    redraw();
  };
  plot.addEventListener("pointermove", ({ clientX }) => {
    const { left, width } = plot.getBoundingClientRect();
    point((clientX - left) / width);
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    point(pointed + step);
  });
  for (const end of ["pointerleave", "blur"]) plot.addEventListener(end, () => point(1));
  return make(
    "li",
    { class: isTime ? "times" : "rates" },
    make("strong", {}, says),
    make(
      "output",
      { "aria-live": "off" },
      make("span", { class: "line" }),
      " ",
      make("span", { class: "area" }),
      " ",
      make("span", { class: "stack" }),
    ),
    plot,
  );
}

/** @param {Element} item @param {CallHistory} history @param {Omit<Chart, "id">} chart */
function drawChart(item, history, { says, of, words, line, area }) {
  const drawn = of(history);
  const { nowMs, spanMs } = frameOf(history);
  // Lengths of samples are fractions: their sum may miss the end of the last one.
  const atMs = nowMs - 1 - (1 - pointed) * spanMs;
  const i = endsOf(history).findIndex((endMs, j) => atMs <= endMs && atMs > endMs - (history.seconds[j] ?? 0) * 1_000);
  setText(part(item, ".line"), `${line} ${words(drawn.line[i] ?? null)}`);
  setText(part(item, ".area"), `${area} ${words(drawn.area[i] ?? null)}`);
  // Without other rules than those that are named there are no others.
  setShown(
    /** @type {HTMLElement} */ (part(item, ".area")),
    drawn.stack === undefined || drawn.area.some((value) => (value ?? 0) > 0),
  );
  setChildren(part(item, ".stack"), legendOf(drawn, i, words));
  const spark = part(item, "svg");
  const top = scaleTop(drawSpark(spark, history, drawn, says, words, scaleTop));
  const plot = part(item, ".plot");
  plot.setAttribute("aria-label", spark.getAttribute("aria-label") ?? says);
  plot.setAttribute("aria-valuemin", String(-Math.round(spanMs / 1_000)));
  plot.setAttribute("aria-valuenow", String(Math.round(((pointed - 1) * spanMs) / 1_000)));
  plot.setAttribute("aria-valuetext", `${timeWords(atMs, nowMs)}: ${part(item, "output").textContent?.trim()}`);
  setText(part(item, ".scale"), `${words(top)}\n${words(top / 2)}`);
  placeAt(part(item, ".pointer"), pointed, pointed < 1, timeWords(atMs, nowMs));
  drawTicks(item, nowMs, spanMs);
  keepChildren(part(item, ".marks"), eventsOf(history), {
    key: ({ at, kind, says: what }) => `${at} ${kind} ${what}`,
    create: ({ kind }) => make("i", { class: kind }),
    update: (mark, { at }) => placeAt(mark, 1 - (nowMs - Date.parse(at)) / spanMs, true, ""),
  });
}

/** @param {Drawn} drawn @param {number} i @param {Chart["words"]} words @returns {(Node | string)[]} */
function legendOf({ stack = [] }, i, words) {
  return stack.map(({ name, values }, j) =>
    make("span", { class: `s${j}`, title: shown(name, 300) }, `${cut(name, 32)} ${words(values[i] ?? null)}`),
  );
}

/** @param {Element} item @param {number} nowMs @param {number} spanMs */
function drawTicks(item, nowMs, spanMs) {
  const tickMs = TICKS_MS.find((each) => 3.5 * each >= spanMs) ?? spanMs;
  // None close to the right edge, where its text would not fit.
  const edgeMs = spanMs / (tickMs < 60_000 ? 5 : 8);
  const lastMs = Math.floor((nowMs - edgeMs) / tickMs) * tickMs;
  item.querySelectorAll(".tick").forEach((tick, j) => {
    const ageMs = nowMs - lastMs + j * tickMs;
    const says = timeWords(nowMs - ageMs, nowMs);
    placeAt(tick, 1 - ageMs / spanMs, ageMs <= spanMs, tickMs < 60_000 ? says : says.slice(0, 5));
  });
}

/** How far an arrow key goes: ten seconds of fifteen minutes. */
const STEP = 10 / 900;
/** Distances between times on the axis. */
const TICKS_MS = [30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_200_000];

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
  for (const name of ["refused", "hits"]) svg.append(makePath(name));
  return svg;
}

/** @param {string} name */
function makePath(name) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", name);
  return path;
}

/**
 * Draws, and returns the largest value.
 * @param {Element} svg @param {CallHistory} history @param {Drawn} drawn @param {string} says @param {(value: number | null) => string} words
 * @param {(most: number) => number} top the value at the upper edge
 */
export function drawSpark(svg, history, { line, area, stack = [] }, says, words, top = (most) => most) {
  const most = Math.max(...[...line, ...area].map((value) => value ?? 0), 0);
  svg.setAttribute("aria-label", `${says}: now ${words(latest(line))}, at most ${words(most)}`);
  // An idle chart is a line on the ground.
  const scale = (HEIGHT - 2) / (most > 0 ? top(most) : 1);
  const { spanMs } = frameOf(history);
  const [ends, { seconds }] = [endsOf(history), history];
  const draw = (/** @type {Element} */ path, /** @type {Samples} */ values, /** @type {boolean} */ isArea) =>
    path.setAttribute("d", pathOf(values, seconds, { ends, spanMs, scale, isArea }));
  draw(part(svg, ".hits"), line, false);
  draw(part(svg, ".refused"), area, true);
  // Each area is drawn from the ground, the highest first, so that lower ones cover it.
  let sum = area;
  const sums = stack.map(({ values }) => {
    sum = values.map((value, i) => (value ?? 0) + (sum[i] ?? 0));
    return sum;
  });
  sums.forEach((values, i) => {
    const path = svg.querySelector(`.s${i}`) ?? svg.insertBefore(makePath(`s${i}`), svg.firstChild);
    draw(path, values, true);
  });
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
 * @param {Samples} values @param {Samples} seconds
 * @param {{ ends: readonly number[], spanMs: number, scale: number, isArea: boolean }} frame
 */
export function pathOf(values, seconds, { ends, spanMs, scale, isArea }) {
  const nowMs = ends.at(-1) ?? 0;
  const xOf = (/** @type {number} */ ms) => Math.max(0, WIDTH - ((nowMs - ms) * WIDTH) / spanMs).toFixed(1);
  let path = "";
  let startX = "";
  let lastX = "";
  const close = () => (isArea && startX !== "" ? `V${HEIGHT}H${startX}Z` : "");
  values.forEach((value, i) => {
    const endMs = ends[i] ?? 0;
    if (value === null || endMs <= nowMs - spanMs) {
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
