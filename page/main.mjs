// The operator's page: asks the server every two seconds while the page is visible, and shows the answers.

import { hrefOf, viewOf } from "./address.mjs";
import { NoAnswer, Server } from "./ask.mjs";
import { showCharts } from "./charts.mjs";
import { showConditions } from "./conditions.mjs";
import { byId, setShown, setText } from "./dom.mjs";
import { showAge, showHeader } from "./header.mjs";
import { hideKeys, showKeys } from "./keys.mjs";
import { askLimit, showLimits } from "./limits.mjs";
import { showProcesses } from "./processes.mjs";
import { rulesQuestion, showRules } from "./rules.mjs";
import { closeSheet, followAddress, offerDomains, openSheet, prepareSheet } from "./sheet.mjs";
import { showLine, showVerdict } from "./verdict.mjs";
import { durationWords, sentence, setZone, shown, timeWords } from "./words.mjs";

const LOOK_MS = 2_000;
/** The server takes a sample every five seconds. */
const HISTORY_MS = 4_500;

const server = new Server();
/** @type {CallHistory | null} */
let history = null;
/** @type {RuleRows | undefined} */
let rules;
/** What is asked less often was asked then, with these words. */
let slow = { atMs: 0, asked: "" };
let isRunning = false;
let isLooking = false;
/** The view has changed while the server was asked. */
let isStale = false;
let isPaused = false;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** When the server last answered, by this machine's clock; undefined if it never did. @type {number | undefined} */
let answeredMs;

document.addEventListener("visibilitychange", () => void lookNext());
window.addEventListener("hashchange", viewChanged);
// Keys are cut to the width.
window.addEventListener("resize", viewChanged);
openTokenForm();
prepareSheet(server, noteRefusal);
openFilters();
openKeyboard();
byId("pause").addEventListener("click", pause);
setInterval(() => showAge(answeredMs, isPaused), 1_000);
startLooking();

async function look() {
  const view = viewOf(location.hash);
  setZone(view.zone);
  try {
    if (answeredMs === undefined && !server.hasToken) await requireAccess();
    /** @type {State} */
    const state = await server.ask("state");
    await askSlow(view);
    const keys = state.keeps_top_keys ? await server.ask(keysQuestion(view, state)) : undefined;
    answeredMs = Date.now();
    showState(state, view);
    // Keys are cut to what the sheet leaves.
    followAddress(server, state, noteRefusal);
    if (keys === undefined) hideKeys("Not available: this server does not keep them.");
    else showKeys(keys, view);
    await showLimits(server, state, actOnLimit);
  } catch (error) {
    showTrouble(error);
  }
}

/** Charts and rules change less often. @param {View} view */
async function askSlow(view) {
  const span = view.span === "hour" ? "history?span=hour" : "history";
  const asked = `${span} ${rulesQuestion(view)}`;
  if (Date.now() - slow.atMs < HISTORY_MS && asked === slow.asked) return;
  [history, rules] = await Promise.all([server.ask(span), server.ask(rulesQuestion(view))]);
  slow = { atMs: Date.now(), asked };
}

/** The keys that the view asks for: after a flood, those of the last hour. @param {View} view @param {State} state */
function keysQuestion({ rule, find, order, window }, { verdict }) {
  const wasFlooded =
    verdict.severity === "well" && verdict.words.some((word) => typeof word !== "string" && "rule" in word);
  const isNarrowed = rule + find !== "";
  const by = order === "asked" ? "asked" : "refused";
  return `top?window=${window === "hour" || wasFlooded ? "hour" : "minute"}&by=${by}&keys=${isNarrowed ? 100 : 10}`;
}

/** @param {State} state @param {View} view */
function showState(state, view) {
  setShown(byId("token-form"), false);
  setShown(byId("stale"), false);
  setShown(byId("data"), true);
  showHeader(state, history, view);
  showAge(answeredMs, isPaused);
  showVerdict(state, history, view);
  showConditions(state);
  showFirstSteps(state);
  if (rules !== undefined) showRules(rules, state, history, view);
  if (history !== null) showCharts(history, view, (state.processes ?? []).length);
  showProcesses(state);
  offerDomains(state.rules.domains);
}

/** In place of zeros: how the first call is made. @param {State} state */
function showFirstSteps({ calls, rules: { domains } }) {
  const isNew =
    Object.values(calls).every((count) => count === 0) &&
    (history?.calls.allowed ?? []).every((count) => (count ?? 0) === 0);
  setShown(byId("first-steps"), isNew);
  for (const id of ["tiles", "keys-section", "charts-section"]) setShown(byId(id), !isNew);
  setText(byId("first-command"), shown(`npx headgate ask --domain ${domains[0] ?? "DOMAIN"} KEY=VALUE`, 300));
  setText(
    byId("first-more"),
    "Then point Envoy's rate limit filter at the gRPC port: docs/envoy.md has the configuration to copy.",
  );
}

/** Asks whether a token is needed: a refused request would be counted and logged. */
async function requireAccess() {
  const { wants, says } = await server.ask("access");
  if (wants === "token") throw new NoAnswer("token missing", "a token is required");
  if (wants !== "nothing") throw new NoAnswer("refused", says);
}

/** Keeps the forms and the address equal. */
function openFilters() {
  const fields = [
    ...["find", "sort"].map((name) => byId("rules-filter")[name]),
    ...["order", "window"].map((name) => byId("keys-filter")[name]),
  ];
  const show = () => {
    const view = viewOf(location.hash);
    for (const field of fields) {
      const value = view[/** @type {keyof View} */ (field.name)];
      if (field.value !== value) field.value = value;
    }
  };
  for (const form of [byId("rules-filter"), byId("keys-filter")]) {
    form.addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
    form.addEventListener("input", () => {
      const changes = Object.fromEntries(fields.map((field) => [field.name, field.value]));
      window.history.replaceState(null, "", hrefOf(viewOf(location.hash), { ...changes, from: "" }));
      viewChanged();
    });
  }
  window.addEventListener("hashchange", show);
  show();
}

/** Single keys, unless somebody types. */
function openKeyboard() {
  byId("keys-help").addEventListener("click", () => byId("help").showModal());
  /** @type {Readonly<Record<string, () => void>>} */
  const acts = {
    "/": () => byId("rules-filter").find.focus(),
    e: openSheet,
    p: pause,
    "?": () => byId("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
    const isTyping = /^(?:INPUT|TEXTAREA|SELECT)$/.test(/** @type {Element} */ (event.target).tagName);
    if (event.key === "Escape") return closeSheet();
    if (isTyping || byId("data").hidden) return;
    const act = acts[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  });
}

function pause() {
  isPaused = !isPaused;
  showAge(answeredMs, isPaused);
  if (!isPaused) void lookNext();
}

/** @type {Act} */
function actOnLimit(action, caller) {
  void askLimit(server, action, caller, { done: viewChanged, refused: noteRefusal });
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
    showLine(["This page has a fault."], "critical");
    showStale(`${error}`);
  } else if (error.why in LOCKED) lock(error);
  else {
    showLine(["The server does not answer."], "critical");
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
  for (const id of ["data", "facts", "sheet", "store", "live", "pause", "views", "links"]) setShown(byId(id), false);
  setText(byId("who"), "");
  byId("facts").replaceChildren();
  byId("conditions").replaceChildren();
  showLine([LOCKED[why] ?? ""], "warning");
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
    server.useToken(token, byId("token-keep").checked);
    startLooking();
  });
}

function startLooking() {
  isRunning = true;
  void lookNext();
}

function viewChanged() {
  isStale = isLooking;
  void lookNext(true);
}

/** Looks now, and again LOOK_MS after each look. Rests while the page is hidden or paused, but `wanted` looks are made. */
async function lookNext(wanted = false) {
  clearTimeout(timer);
  if (!isRunning || isLooking || document.hidden || (isPaused && !wanted)) return;
  isLooking = true;
  do {
    isStale = false;
    await look();
  } while (isStale && isRunning);
  isLooking = false;
  clearTimeout(timer);
  if (isRunning) timer = setTimeout(() => void lookNext(), LOOK_MS);
}
