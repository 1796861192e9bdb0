// The form that explains a descriptor: which rule it meets and why, what is left in its buckets; resets them.

import { hrefOf } from "./address.mjs";
import { NoAnswer } from "./ask.mjs";
import { byId, make, setText, withCode } from "./dom.mjs";
import { bucketTable, reportParts } from "./explained.mjs";
import { actionButtons, askLimit } from "./limits.mjs";
import { askFirst } from "./question.mjs";
import { doubtOf, readDescriptors, typedDescriptor } from "./read-descriptor.mjs";
import { hides, sentence, shown, timeWords } from "./words.mjs";

/**
 * @typedef {import("./ask.mjs").Server} Server
 * @typedef {import("./address.mjs").View} View
 * @typedef {import("./limits.mjs").State} State
 * @typedef {import("./top.mjs").TopKey} TopKey
 * @typedef {import("./explained.mjs").Bucket} Bucket
 * @typedef {{ domain: string, descriptors: unknown[] }} Question
 */

/** Explains what is submitted, and puts it into the address. @param {Server} server @param {() => View} viewNow @param {(error: unknown) => void} refused */
export function openExplain(server, viewNow, refused) {
  byId("explain-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const [domain, explain] = [byId("domain").value.trim(), byId("descriptor").value.trim()];
    followed = JSON.stringify([domain, explain]);
    location.hash = hrefOf(viewNow(), { domain, explain });
    void explainText(server, domain, explain, refused);
  });
  byId("descriptor").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    // Shift+Enter adds a line; Enter also ends a word in an input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("explain-form").requestSubmit();
  });
}

/** The domain and descriptor that were explained last. */
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

/** Offers domains to choose from, and fills in the first. @param {readonly string[]} domains */
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
    const tell = { done: () => void explainText(server, given, text, refused), refused };
    byId("explained").replaceChildren(
      ...(doubt === undefined ? [] : [make("p", { class: "warning" }, shown(doubt, 300))]),
      ...reportParts(report, ({ rule, runtime_limit: set }, i) => {
        if (!server.hasToken || (rule === undefined && set === undefined)) return [];
        const caller = { domain: question.domain, entries: read.descriptors[i]?.entries ?? [] };
        return actionButtons(caller, set === undefined ? ACTIONS : [...ACTIONS, "Unset"], (action, of) => {
          void askLimit(server, action, of, tell);
        });
      }),
      ...bucketParts(server, question, peeked, tell),
    );
    setText(byId("explained-of"), `${shown(`${question.domain}: ${text}`, 200)}, at ${timeWords(Date.now())}.`);
  } catch (error) {
    showProblem(error instanceof NoAnswer ? `The server says: ${error.message}` : `This page has a fault: ${error}`);
    refused(error);
  }
}

/** Rules can be explained while the store is away; buckets can't. @param {unknown} error @returns {{ buckets: readonly Bucket[], says: string }} */
function notPeeked(error) {
  if (!(error instanceof NoAnswer) || error.why !== "away") throw error;
  return { buckets: [], says: `what is left in the buckets is not known: ${error.message}` };
}

/** @param {string} says */
function showProblem(says) {
  byId("explained").replaceChildren(make("p", { class: "critical" }, ...withCode(shown(says, 600))));
  setText(byId("explained-of"), "");
}

/** What is left, and a button that resets it. @param {Server} server @param {Question} question @param {{ buckets: readonly Bucket[], says: string }} peeked @param {import("./question.mjs").Tell} tell */
function bucketParts(server, question, { buckets, says }, tell) {
  const said = make("p", { class: "quiet" }, shown(sentence(says)));
  if (buckets.length === 0) return [said];
  const button = make("button", { type: "button", class: "danger" }, "Reset these buckets ...");
  const now = `Buckets: ${buckets.map(({ bucket }) => bucket).join(", ")}`;
  const prepare = () => Promise.resolve({ now, canAct: true });
  const act = async () => {
    const answer = await server.ask("buckets/reset", question);
    return { isDone: true, says: sentence(answer.says), colour: "well" };
  };
  button.addEventListener("click", () => void askFirst("Reset", "these buckets", prepare, act, tell));
  return [bucketTable(buckets), said, button];
}
