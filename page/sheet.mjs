// The sheet at the side: whose key it is, which rule it meets and why, what is left in its buckets, who changed it
// last; raises, blocks, exempts, resets.

import { hrefOf, NO_SHEET, viewOf } from "./address.mjs";
import { NoAnswer } from "./ask.mjs";
import { byId, copyButton, make, setChildren, setShown, setText, withCode } from "./dom.mjs";
import { bucketTable, reportParts } from "./explained.mjs";
import { actionButtons, askLimit } from "./limits.mjs";
import { askFirst } from "./question.mjs";
import { doubtOf, readDescriptors } from "./read-descriptor.mjs";
import { cut, sentence, shown, timeWords } from "./words.mjs";

/** @typedef {{ domain: string, descriptors: { entries: Entry[] }[] }} Question */

/** The domain, descriptor and key that are shown. */
let followed = "";
/** What explanations depend on, as of the last look. */
let facts = "";
/** Longest heading, in characters; a longer key stands whole below it. */
const HEADING_CHARS_MAX = 60;
/** Opened by hand, to type a descriptor. */
let isOpen = false;

/** Explains what is submitted, and puts it into the address. @param {Server} server @param {(error: unknown) => void} refused */
export function prepareSheet(server, refused) {
  byId("explain-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    const [domain, explain] = [byId("domain").value.trim(), byId("descriptor").value.trim()];
    followed = JSON.stringify([domain, explain, ""]);
    location.hash = hrefOf(viewOf(location.hash), { ...NO_SHEET, domain, explain });
    void explainText(server, domain, explain, refused);
  });
  byId("descriptor").addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    // Shift+Enter adds a line; Enter also ends a word in an input method.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("explain-form").requestSubmit();
  });
  byId("sheet-close").addEventListener("click", closeSheet);
}

/** Opens it for a descriptor that is typed. */
export function openSheet() {
  isOpen = true;
  showSheet(true);
  byId("sheet").classList.remove("with-key");
  byId("descriptor").focus();
}

export function closeSheet() {
  isOpen = false;
  if (byId("sheet").hidden) return;
  location.hash = hrefOf(viewOf(location.hash), NO_SHEET);
  showSheet(false);
  lastFocus?.focus();
}

/** Where the reader was before. @type {HTMLElement | undefined} */
let lastFocus;

/** @param {boolean} isShown */
function showSheet(isShown) {
  if (isShown && byId("sheet").hidden) lastFocus = /** @type {HTMLElement} */ (document.activeElement);
  setShown(byId("sheet"), isShown);
  document.body.classList.toggle("with-sheet", isShown);
}

/**
 * Shows what the address names, and explains it again when rules or limits at run time have changed; not below a question that is open.
 * @param {Server} server @param {State} state @param {(error: unknown) => void} refused
 */
export function followAddress(server, { rules, runtime_limits: limits }, refused) {
  if (document.querySelector("dialog[open]") !== null) return;
  const { domain, explain, key, zone } = viewOf(location.hash);
  showSheet(isOpen || explain + key !== "");
  const asked = JSON.stringify([domain, explain, key]);
  const factsNow = JSON.stringify([rules.hash, limits.changes, limits.in_force, zone]);
  const isSame = factsNow === facts;
  facts = factsNow;
  if (explain + key === "") followed = "";
  if (explain + key === "" || (asked === followed && isSame)) return;
  const isOther = asked !== followed;
  followed = asked;
  if (domain !== "") byId("domain").value = domain;
  if (key !== "") return showKey(domain, key);
  if (isOther) {
    byId("descriptor").value = explain;
    if (followed !== "") byId("explain-heading").focus();
  }
  void explainText(server, domain === "" ? byId("domain").value.trim() : domain, explain, refused);
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

/** A key whose descriptor is not known. @param {string} domain @param {string} key */
function showKey(domain, key) {
  showHeading(domain, key, [copyButton("Copy key", key)]);
  const why =
    "Its descriptor is not known: a value is hashed (`hash_values`, or longer than 256 bytes), or many values share the bucket. The decision log has the caller.";
  setChildren(byId("explained"), [make("p", {}, ...withCode(why))]);
  setText(byId("explained-of"), "");
}

/** @param {string} domain @param {string} text @param {readonly Node[]} buttons */
function showHeading(domain, text, buttons) {
  setText(byId("explain-heading"), cut(text, HEADING_CHARS_MAX));
  setChildren(byId("sheet-key"), [
    ...(cut(text, HEADING_CHARS_MAX) === text ? [] : [make("p", { class: "whole" }, shown(text, 2_000))]),
    make("p", { class: "quiet" }, `Domain ${cut(domain, 80)}`),
    make("p", { class: "actions" }),
  ]);
  byId("sheet-key").lastChild.append(...buttons);
  setShown(byId("sheet-key"), true);
  byId("sheet").classList.add("with-key");
}

/** The same question for a terminal. @param {string} domain @param {string} text @param {Question} question */
function copyButtons(domain, text, question) {
  const quoted = (/** @type {string} */ said) => `'${said.replaceAll("'", "'\\''")}'`;
  const typed = /^[[{]/.test(text)
    ? quoted(JSON.stringify(question))
    : `-d ${quoted(domain)} ${text.split("\n").map(quoted).join(" ")}`;
  const curl = `curl -s ${location.origin}${location.pathname}explain -d ${quoted(JSON.stringify(question))}`;
  return [
    copyButton("Copy key", text),
    copyButton("Copy command", `headgate explain ${typed}`),
    copyButton("Copy curl", curl),
  ];
}

/** A blocked caller's limit has no room to raise. @param {string | undefined} kind @returns {readonly Action[]} */
function actionsFor(kind) {
  if (kind === undefined) return ["Raise", "Block", "Exempt"];
  return kind === "block" ? ["Unset", "Exempt"] : ["Raise", "Block", "Exempt", "Unset"];
}

/** @param {Server} server @param {string} given the domain, unless the text names one @param {string} text @param {(error: unknown) => void} refused */
async function explainText(server, given, text, refused) {
  const read = readDescriptors(text);
  if ("problem" in read) return showProblem(read.problem);
  if (read.domain !== undefined) byId("domain").value = read.domain;
  const question = { domain: read.domain ?? given, descriptors: read.descriptors };
  if (question.domain === "") return showProblem("Expected a domain.");
  showHeading(question.domain, text, copyButtons(question.domain, text, question));
  try {
    const [report, peeked] = await Promise.all([
      server.ask("explain", question),
      server.ask("buckets/peek", question).catch(notPeeked),
    ]);
    const doubt = doubtOf(read.descriptors);
    const tell = { done: () => void explainText(server, given, text, refused), refused };
    /** @type {readonly (DescriptorReport["runtime_limit"])[]} */
    const sets = (report.descriptors ?? []).map((/** @type {DescriptorReport} */ each) => each.runtime_limit);
    byId("explained").replaceChildren(
      ...(doubt === undefined ? [] : [make("p", { class: "warning" }, shown(doubt, 300))]),
      ...reportParts(report, ({ rule, runtime_limit: set }, i) => {
        if (!server.hasToken || (rule === undefined && set === undefined)) return [];
        const caller = { domain: question.domain, entries: read.descriptors[i]?.entries ?? [] };
        return actionButtons(caller, actionsFor(set?.kind), (action, of) => {
          void askLimit(server, action, of, tell);
        });
      }),
      ...bucketParts(server, question, { ...peeked, sets }, tell),
    );
    setText(byId("explained-of"), `As of ${timeWords(Date.now())}.`);
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

/** What is left, and a button that resets it. @param {Server} server @param {Question} question @param {{ buckets: readonly Bucket[], says: string, sets: readonly (DescriptorReport["runtime_limit"])[] }} peeked @param {Tell} tell */
function bucketParts(server, question, { buckets, says, sets }, tell) {
  const said = make("p", { class: "quiet" }, shown(sentence(says)));
  // Why there is none stands above.
  if (buckets.length === 0) return says.startsWith("no limit matches") ? [] : [said];
  const button = make("button", { type: "button", class: "danger" }, "Reset these buckets ...");
  const now = `Buckets: ${buckets.map(({ bucket }) => bucket).join(", ")}`;
  const prepare = () => Promise.resolve({ now, canAct: true });
  const act = async () => {
    const answer = await server.ask("buckets/reset", question);
    return { isDone: true, says: sentence(answer.says), colour: "well" };
  };
  button.addEventListener("click", () => void askFirst("Reset", "these buckets", { prepare, act }, tell));
  return [bucketTable(buckets, sets), said, button];
}
