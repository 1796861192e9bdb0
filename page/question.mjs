// The dialog that asks before a change, makes it, and shows the outcome.

import { NoAnswer } from "./ask.mjs";
import { byId, setSaid, setShown, setText, withCode } from "./dom.mjs";
import { shown, zoneWords } from "./words.mjs";

/**
 * @typedef {{ now: string, canAct: boolean, says?: string, limits?: readonly Node[], chosen?: (limit: string) => void }} Prepared what is in force, whether there is something to change, limits to choose from, and what to do once one is chosen
 * @typedef {{ prepare: () => Promise<Prepared>, preview?: () => Promise<string>, act: () => Promise<Outcome> }} Steps
 * @typedef {{ done: () => void, refused: (error: unknown) => void }} Tell `done`: the dialog was closed after a change
 */

/** @type {Readonly<Record<Action, string>>} */
const EFFECTS = {
  Raise: "Sets another amount for one limit. Hits already counted stay counted.",
  Block: "Every call with this descriptor is refused, whatever its rule says.",
  Exempt: "The rule's limits don't apply; the domain's global limit still does.",
  Unset: "The rule's limits apply again.",
  Reset: "Callers get their full limit back immediately. The log records who did it.",
};

/** How long after the last change of a field its effect is asked for. */
const PREVIEW_MS = 300;

/** Opens the dialog. The steps may throw. @param {Action} action @param {string} what @param {Steps} steps @param {Tell} tell */
export async function askFirst(action, what, { prepare, preview, act }, { done, refused }) {
  const dialog = byId("question");
  const ended = new AbortController();
  const { signal } = ended;
  let canAct = false;
  let isDone = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  // Not at the "close" event, which comes later: the dialog may be open with another question by then.
  const end = () => {
    ended.abort();
    dialog.close();
    if (isDone) done();
  };
  const attempt = async (/** @type {() => Promise<void>} */ step) => {
    byId("question-yes").disabled = true;
    try {
      await step();
    } catch (error) {
      refused(error);
      if (!signal.aborted) say(`Not done: ${error instanceof NoAnswer ? error.message : error}`, "critical");
      if (!signal.aborted && error instanceof NoAnswer && error.why.startsWith("token")) end();
    }
    if (!signal.aborted) byId("question-yes").disabled = isDone || !canAct;
  };
  showQuestion(action, what);
  byId("question-no").addEventListener("click", end, { signal });
  // Escape.
  dialog.addEventListener("cancel", end, { signal });
  byId("question-form").addEventListener(
    "submit",
    (/** @type {Event} */ event) => {
      event.preventDefault();
      // What the change would do is out of date once it is made.
      clearTimeout(timer);
      void attempt(async () => {
        const outcome = await act();
        isDone = outcome.isDone;
        if (!signal.aborted) showOutcome(outcome);
        else if (isDone) done();
      });
    },
    { signal },
  );
  /** @type {((limit: string) => void) | undefined} */
  let chosen;
  const showPreview = async () => {
    if (preview === undefined || !canAct || isDone || !byId("question-form").checkValidity()) return;
    const says = await preview().catch((error) => (error instanceof NoAnswer ? error.message : `${error}`));
    if (!signal.aborted && !isDone) setSaid(byId("question-preview"), shown(says, 600));
  };
  byId("question-form").addEventListener(
    "input",
    (/** @type {Event} */ { target }) => {
      if (target === byId("limit-name")) chosen?.(byId("limit-name").value);
      showEndField();
      clearTimeout(timer);
      timer = setTimeout(() => void showPreview(), PREVIEW_MS);
    },
    { signal },
  );
  await attempt(async () => {
    const prepared = await prepare();
    if (signal.aborted) return;
    showNow(prepared.now);
    say(prepared.says ?? "", "");
    byId("limit-name").replaceChildren(...(prepared.limits ?? []));
    chosen = prepared.chosen;
    chosen?.(byId("limit-name").value);
    canAct = prepared.canAct;
  });
  await showPreview();
}

/** The field for an end at a time, in the page's zone. */
function showEndField() {
  const isAt = byId("limit-until").value === "at";
  setShown(byId("limit-at-field"), isAt);
  byId("limit-at").required = isAt;
  setText(byId("limit-at-zone"), `Time (${zoneWords(Date.now())})`);
}

/** @param {Action} action @param {string} what */
function showQuestion(action, what) {
  setText(byId("question-heading"), `${action} ${what}?`);
  setText(byId("question-does"), EFFECTS[action]);
  showNow("Asking the server ...");
  say("", "");
  byId("question-form").reset();
  setText(byId("question-yes"), action);
  setText(byId("question-no"), "Cancel");
  setShown(byId("question-yes"), true);
  setShown(byId("limit-fields"), action !== "Reset");
  setShown(byId("limit-raise"), action === "Raise");
  setShown(byId("limit-end"), action !== "Unset");
  byId("limit-requests").disabled = action !== "Raise";
  byId("limit-burst").disabled = action !== "Raise";
  byId("question-preview").replaceChildren();
  byId("question-yes").classList.toggle("danger", action === "Block" || action === "Reset");
  showEndField();
  byId("question").showModal();
  byId("question-no").focus();
}

/** @param {Outcome} outcome */
function showOutcome({ isDone, says, colour, now }) {
  say(says, colour);
  if (now !== undefined) showNow(now);
  if (!isDone) return;
  setShown(byId("question-yes"), false);
  setShown(byId("limit-fields"), false);
  byId("question-preview").replaceChildren();
  setText(byId("question-no"), "Close");
  byId("question-no").focus();
}

/** @param {string} says */
function showNow(says) {
  byId("question-now").replaceChildren(...withCode(shown(says, 600)));
}

/** @param {string} says @param {string} colour */
function say(says, colour) {
  const said = byId("question-said");
  said.replaceChildren(...withCode(shown(says, 600)));
  said.className = colour;
}
