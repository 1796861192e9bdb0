// The operator's page: asks the server every two seconds while the page is visible, and shows the answers.

import { hrefOf, viewOf } from "./address.mjs";
import { NoAnswer, Server } from "./ask.mjs";
import { ruleChart, showCharts } from "./charts.mjs";
import { byId, setShown, setText } from "./dom.mjs";
import { explainHref, followAddress, offerDomains, openExplain } from "./explain.mjs";
import { askLimit, showLimits } from "./limits.mjs";
import { lastFlood } from "./rates.mjs";
import { limitDrawn, showProcesses, showRules } from "./tables.mjs";
import { hideTop, showTop } from "./top.mjs";
import { showBefore, showConditions, showVerdict, verdictOf } from "./verdict.mjs";
import { durationWords, processName, sentence, shown, timeWords } from "./words.mjs";

/** @typedef {Awaited<ReturnType<typeof import("../src/process/app/state-page.ts").readState>>} State */

const LOOK_MS = 2_000;
/** The server takes a sample every five seconds. */
const HISTORY_MS = 4_500;

const server = new Server();
/** @type {import("./rates.mjs").History | null} */
let history = null;
let historyAskedMs = 0;
let isRunning = false;
let isLooking = false;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** When the server last answered, by this machine's clock; undefined if it never did. @type {number | undefined} */
let answeredMs;

document.addEventListener("visibilitychange", () => void lookNext());
openTokenForm();
window.addEventListener("hashchange", () => void lookNext());
openExplain(server, () => viewOf(location.hash), noteRefusal);
openFilter();
// On a telephone the rules come when they are asked for.
if (matchMedia("(max-width: 40rem)").matches) byId("rules-fold").open = false;
startLooking();

async function look() {
  try {
    if (answeredMs === undefined && !server.hasToken) await requireAccess();
    const state = await server.ask("state");
    if (Date.now() - historyAskedMs >= HISTORY_MS) {
      history = await server.ask("history");
      historyAskedMs = Date.now();
    }
    const top = state.keeps_top_keys ? await askTop() : undefined;
    const view = viewOf(location.hash);
    const listed = top === undefined ? undefined : await askListed(view, top);
    showState(state, top);
    showTopKeys(listed, view);
    showRules(state, history, view);
    if (history !== null) {
      const opened = ruleChart(view.rule, (all) => limitDrawn(all, view.rule));
      showCharts(history, view.rule === "" ? undefined : opened);
    }
    followAddress(server, view, state, noteRefusal);
    answeredMs = Date.now();
    await showLimits(server, state, actOnLimit);
  } catch (error) {
    showTrouble(error);
  }
}

/** @param {State} state @param {import("./top.mjs").TopAnswer | undefined} top */
function showState(state, top) {
  const { instance, rules, store, version } = state;
  setShown(byId("token-form"), false);
  setShown(byId("stale"), false);
  setShown(byId("data"), true);
  setText(byId("who"), shown(`${processName(instance)}, version ${version}, store: ${store}`));
  const { says, colour } = verdictOf({ state, history, top });
  showVerdict(says, colour);
  showBefore({ state, history, top });
  showConditions(state);
  showProcesses(state);
  offerDomains(rules.domains);
}

/** @param {import("./top.mjs").TopAnswer | undefined} top @param {import("./address.mjs").View} view */
function showTopKeys(top, view) {
  if (top === undefined) return hideTop("Not available: this server does not keep them.");
  showTop(top, view, (key) => explainHref(view, key), server.hasToken ? actOnLimit : undefined);
}

/** Asks whether a token is needed: a refused request would be counted and logged. */
async function requireAccess() {
  const { wants, says } = await server.ask("access");
  if (wants === "token") throw new NoAnswer("token missing", "a token is required");
  if (wants !== "nothing") throw new NoAnswer("refused", says);
}

/** The top keys of the last minute, or of the last hour after a flood. */
function askTop() {
  const window = lastFlood(history)?.isNow === false ? "hour" : "minute";
  return server.ask(`top?window=${window}&by=refused&keys=10`);
}

/** The keys that the view asks for. @param {import("./address.mjs").View} view @param {import("./top.mjs").TopAnswer} top */
function askListed({ rule, find, sort, window }, top) {
  if (rule + find + window === "" && sort !== "asked") return top;
  const by = sort === "asked" ? "asked" : "refused";
  return server.ask(`top?window=${window === "hour" ? window : top.window}&by=${by}&keys=100`);
}

/** Keeps the filter form and the address equal. */
function openFilter() {
  const form = byId("filter");
  const names = /** @type {const} */ (["find", "sort", "window"]);
  const show = () => {
    const view = viewOf(location.hash);
    for (const name of names) if (form[name].value !== view[name]) form[name].value = view[name];
  };
  form.addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  form.addEventListener("input", () => {
    const changes = Object.fromEntries(names.map((name) => [name, form[name].value]));
    window.history.replaceState(null, "", hrefOf(viewOf(location.hash), changes));
    void lookNext();
  });
  window.addEventListener("hashchange", show);
  show();
}

/** @type {import("./limits.mjs").Act} */
function actOnLimit(action, caller) {
  void askLimit(server, action, caller, { done: () => void lookNext(), refused: noteRefusal });
}

/** The first line while the server shows nothing. @type {Readonly<Record<string, string>>} */
const LOCKED = {
  "token missing": "A token is required.",
  "token wrong": "Invalid token.",
  refused: "A token is required here.",
};

/** @param {unknown} error */
function showTrouble(error) {
  if (!(error instanceof NoAnswer)) {
    showVerdict("This page has a fault.", "critical");
    showStale(`${error}`);
  } else if (error.why in LOCKED) lock(error);
  else {
    showVerdict("The server does not answer.", "critical");
    const seconds = (Date.now() - (answeredMs ?? 0)) / 1_000;
    const since =
      answeredMs === undefined
        ? ""
        : ` Data below is from ${timeWords(answeredMs, Date.now())} (${durationWords(seconds)} ago).`;
    showStale(`${sentence(error.message)} Retrying every ${LOOK_MS / 1_000} s.${since}`);
  }
}

/** Forms and dialogs show their own errors; a missing token locks the page. @param {unknown} error */
function noteRefusal(error) {
  if (error instanceof NoAnswer && error.why.startsWith("token")) lock(error);
}

/** Hides all data until there is a token. @param {NoAnswer} error */
function lock({ why, message }) {
  isRunning = false;
  clearTimeout(timer);
  server.useToken(undefined);
  setShown(byId("data"), false);
  setShown(byId("before"), false);
  setText(byId("who"), "");
  byId("conditions").replaceChildren();
  showVerdict(LOCKED[why] ?? "", "warning");
  showStale(why === "refused" ? message : "");
  setShown(byId("token-form"), why !== "refused");
  byId("token").focus();
}

/** @param {string} says */
function showStale(says) {
  setText(byId("stale"), shown(says, 600));
  setShown(byId("stale"), says !== "");
}

function openTokenForm() {
  byId("token-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const box = byId("token");
    const token = box.value.trim();
    box.value = "";
    if (token === "") return;
    server.useToken(token);
    startLooking();
  });
}

function startLooking() {
  isRunning = true;
  void lookNext();
}

/** Looks now, and again LOOK_MS after each look. Pauses while the page is hidden. */
async function lookNext() {
  clearTimeout(timer);
  if (!isRunning || isLooking || document.hidden) return;
  isLooking = true;
  await look();
  isLooking = false;
  clearTimeout(timer);
  if (isRunning) timer = setTimeout(() => void lookNext(), LOOK_MS);
}
