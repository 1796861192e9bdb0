// The box that explains a descriptor: which rule it meets and why, what is left in its buckets, and resetting them.

import { hrefOf } from "./address.mjs";
import { NoAnswer } from "./ask.mjs";
import { byId, make, setShown, setText, withCode } from "./dom.mjs";
import { bucketTable, reportParts } from "./explained.mjs";
import { actionButtons, askLimit } from "./limits.mjs";
import { doubtOf, readDescriptors, typedDescriptor } from "./read-descriptor.mjs";
import { durationWords, hides, sentence, shown } from "./words.mjs";

/**
 * @typedef {import("./ask.mjs").Server} Server
 * @typedef {import("./address.mjs").View} View
 * @typedef {import("./limits.mjs").State} State
 * @typedef {import("./top.mjs").TopKey} TopKey
 * @typedef {import("./explained.mjs").Bucket} Bucket
 * @typedef {{ domain: string, descriptors: unknown[] }} Question
 * @typedef {{ says: string, buckets: readonly { after?: object }[], isDone: boolean }} Done
 */

/** What is explained when the box is sent goes into the address. @param {Server} server @param {() => View} viewNow @param {(error: unknown) => void} refused */
export function openExplain(server, viewNow, refused) {
  byId("explain-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const [domain, explain] = [byId("domain").value.trim(), byId("descriptor").value.trim()];
    followed = JSON.stringify([domain, explain]);
    location.hash = hrefOf(viewNow(), { domain, explain });
    void explainText(server, domain, explain, refused);
  });
  byId("descriptor").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    // Not the Enter that ends a word in an input method, nor Shift+Enter.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("explain-form").requestSubmit();
  });
}

/** The domain and the descriptor of the address that were explained last. */
let followed = "";
/** What explanations depend on, as of the last look. */
let facts = "";

/**
 * Explains what the address names, and again when rules or limits at run time have changed; not below a question that is open.
 * @param {Server} server @param {View} view @param {State} state @param {(error: unknown) => void} refused
 */
export function followAddress(server, { domain, explain }, { rules, runtime_limits: limits }, refused) {
  if (document.querySelector("dialog[open]") !== null) return;
  const asked = JSON.stringify([domain, explain]);
  const factsNow = JSON.stringify([rules.hash, limits.changes, limits.in_force]);
  const isSame = factsNow === facts;
  facts = factsNow;
  if (explain === "" || (asked === followed && isSame)) return;
  if (asked !== followed) {
    if (domain !== "") byId("domain").value = domain;
    byId("descriptor").value = explain;
    byId("explain-heading").scrollIntoView({ block: "nearest" });
  }
  followed = asked;
  void explainText(server, domain === "" ? byId("domain").value.trim() : domain, explain, refused);
}

/** The address that explains a key. @param {View} view @param {TopKey} key */
export function explainHref(view, { domain, descriptor = [] }) {
  const explain = typedDescriptor(descriptor, hides) ?? JSON.stringify([{ entries: descriptor }]);
  return hrefOf(view, { domain, explain });
}

/** Domains to choose from; the only one is filled in. @param {readonly string[]} domains */
export function offerDomains(domains) {
  const list = byId("domains");
  const offered = [...list.children].map((option) => option.value);
  if (offered.join("\n") === domains.join("\n")) return;
  list.replaceChildren(...domains.map((domain) => make("option", { value: domain })));
  const box = byId("domain");
  if (box.value === "" && domains[0] !== undefined) box.value = domains[0];
}

/** @type {readonly import("./limits.mjs").Action[]} */
const ACTIONS = ["Raise", "Block", "Exempt"];

/** What is to be known of all buckets, for those who look at some. */
let note = "";

/** With the memory store each worker has buckets of its own, and one of them answers. @param {{ store: string, answered_by?: number }} state */
export function noteBuckets({ store, answered_by: worker }) {
  note =
    store === "memory" && worker !== undefined
      ? ` They are those of the worker that answered (${worker} just now): with the memory store each has its own.`
      : "";
}

/** What was explained last, and when; undefined before and after a problem. @type {{ text: string, atMs: number } | undefined} */
let explained;

/** Says how old the explanation is: what is left in buckets changes. */
export function noteAge() {
  setShown(byId("explained-age"), explained !== undefined);
  if (explained === undefined) return;
  const { text, atMs } = explained;
  setText(byId("explained-age"), `${shown(text, 200)}, ${durationWords((Date.now() - atMs) / 1_000)} ago.`);
}

/** @param {Server} server @param {string} given the domain, unless the text names one @param {string} text @param {(error: unknown) => void} refused */
async function explainText(server, given, text, refused) {
  const read = readDescriptors(text);
  if ("problem" in read) return showProblem(read.problem);
  if (read.domain !== undefined) byId("domain").value = read.domain;
  const question = { domain: read.domain ?? given, descriptors: read.descriptors };
  if (question.domain === "") return showProblem("Expected a domain.");
  try {
    const [report, peeked] = await Promise.all([
      server.ask("explain", question),
      server.ask("buckets/peek", question).catch(notPeeked),
    ]);
    const doubt = doubtOf(read.descriptors);
    byId("explained").replaceChildren(
      ...(doubt === undefined ? [] : [make("p", { class: "warning" }, shown(doubt, 300))]),
      ...reportParts(report, ({ rule, runtime_limit: set }, i) => {
        if (!server.hasToken || (rule === undefined && set === undefined)) return [];
        const caller = { domain: question.domain, entries: read.descriptors[i]?.entries ?? [] };
        return actionButtons(caller, set === undefined ? ACTIONS : [...ACTIONS, "Unset"], (action, of) => {
          void askLimit(server, action, of, { done: () => void explainText(server, given, text, refused), refused });
        });
      }),
      ...bucketParts(server, question, peeked.buckets, peeked.says),
    );
    explained = { text: `${question.domain}: ${text}`, atMs: Date.now() };
    noteAge();
  } catch (error) {
    showError(error, refused);
  }
}

/** While the store is away nobody knows what is left, but the rules are known. @param {unknown} error @returns {{ buckets: readonly Bucket[], says: string }} */
function notPeeked(error) {
  if (!(error instanceof NoAnswer) || error.why !== "away") throw error;
  return { buckets: [], says: `what is left in the buckets is not known: ${error.message}` };
}

/** @param {unknown} error @param {(error: unknown) => void} refused */
function showError(error, refused) {
  showProblem(error instanceof NoAnswer ? `The server says: ${error.message}` : `This page has a fault: ${error}`);
  refused(error);
}

/** @param {string} says */
function showProblem(says) {
  byId("explained").replaceChildren(make("p", { class: "critical" }, ...withCode(shown(says, 600))));
  explained = undefined;
  noteAge();
}

/** @param {Server} server @param {Question} question @param {readonly Bucket[]} buckets @param {string} says */
function bucketParts(server, question, buckets, says) {
  if (buckets.length === 0) return [make("p", { class: "quiet" }, shown(sentence(says)))];
  const said = make("p", { class: "quiet" }, shown(sentence(says)) + note);
  const table = bucketTable(buckets);
  const button = make("button", { type: "button", class: "danger" }, "Reset these buckets ...");
  button.addEventListener("click", async () => {
    const answer = await askReset(server, question, buckets);
    if (answer === undefined) return;
    said.textContent = shown(sentence(answer.says)) + note;
    const after = buckets.map((bucket, i) => ({ ...bucket, ...answer.buckets[i]?.after }));
    if (answer.isDone) table.replaceWith(bucketTable(after));
    if (answer.isDone && explained !== undefined) explained = { ...explained, atMs: Date.now() };
    noteAge();
    setShown(button, !answer.isDone);
  });
  return [table, said, button];
}

/**
 * Undefined if whoever was asked has said no.
 * @param {Server} server @param {object} question @param {readonly { bucket: string }[]} buckets
 * @returns {Promise<Done | undefined>}
 */
async function askReset(server, question, buckets) {
  byId("reset-buckets").replaceChildren(
    ...buckets.map(({ bucket }) => make("li", {}, make("code", {}, shown(bucket, 200)))),
  );
  if (!(await isConfirmed(byId("reset")))) return undefined;
  try {
    return { ...(await server.ask("buckets/reset", question)), isDone: true };
  } catch (error) {
    const says = error instanceof NoAnswer ? error.message : String(error);
    return { says: `Not reset: ${says}`, buckets: [], isDone: false };
  }
}

/** Settled in the turn of the click or key: a dialog that is opened again at once has an answer of its own. @param {HTMLDialogElement} dialog @returns {Promise<boolean>} */
function isConfirmed(dialog) {
  return new Promise((resolve) => {
    const answered = new AbortController();
    const answer = (/** @type {boolean} */ isYes) => {
      answered.abort();
      if (dialog.open) dialog.close();
      resolve(isYes);
    };
    const { signal } = answered;
    byId("reset-yes").addEventListener("click", () => answer(true), { signal });
    byId("reset-no").addEventListener("click", () => answer(false), { signal });
    // The key Escape, which closes by itself.
    dialog.addEventListener("cancel", () => answer(false), { signal });
    dialog.showModal();
    byId("reset-no").focus();
  });
}
