// The dialog that asks before a change, makes it, and shows the outcome.

import { NoAnswer } from "./ask.mjs";
import { byId, setShown, setText, withCode } from "./dom.mjs";
import { shown } from "./words.mjs";

/**
 * @typedef {"Raise" | "Block" | "Exempt" | "Unset" | "Reset"} Action
 * @typedef {{ now: string, canAct: boolean, says?: string, limits?: readonly Node[] }} Prepared what is in force, whether there is something to change, and limits to choose from
 * @typedef {{ isDone: boolean, says: string, colour: string, now?: string }} Outcome
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

/**
 * Opens the dialog. `prepare` and `act` may throw.
 * @param {Action} action @param {string} what @param {() => Promise<Prepared>} prepare @param {() => Promise<Outcome>} act @param {Tell} tell
 */
export async function askFirst(action, what, prepare, act, { done, refused }) {
  const dialog = byId("question");
  const ended = new AbortController();
  const { signal } = ended;
  let canAct = false;
  let isDone = false;
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
      void attempt(async () => {
        const outcome = await act();
        isDone = outcome.isDone;
        if (!signal.aborted) showOutcome(outcome);
        else if (isDone) done();
      });
    },
    { signal },
  );
  await attempt(async () => {
    const prepared = await prepare();
    if (signal.aborted) return;
    showNow(prepared.now);
    say(prepared.says ?? "", "");
    byId("limit-name").replaceChildren(...(prepared.limits ?? []));
    canAct = prepared.canAct;
  });
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
