// The box that explains a descriptor: which rule it meets and why, what is left in its buckets, and making them as new.

import { NoAnswer } from "./ask.mjs";
import { byId, make, setShown } from "./dom.mjs";
import { readDescriptors, typedDescriptor } from "./read-descriptor.mjs";
import { askReset } from "./reset.mjs";
import { countWords, durationWords, hides, sentence, shown } from "./words.mjs";

/**
 * @typedef {import("./ask.mjs").Server} Server
 * @typedef {import("./top-key.mjs").TopKey} TopKey
 * @typedef {import("../src/rules/explain-report.ts").ExplainReport} Report
 * @typedef {import("../src/rules/explain-report.ts").DescriptorReport} DescriptorReport
 * @typedef {{ rule: string, bucket: string, descriptor: number | string, burst: number, remaining: number, wait_seconds: number | null, reset_seconds: number, live_holds?: number }} Bucket
 * @typedef {{ domain: string, descriptors: unknown[] }} Question
 */

/** Explains what stands in the box, whenever it is asked to. `refused`: told when the server wants a token. @param {Server} server @param {(error: unknown) => void} refused */
export function openExplain(server, refused) {
  byId("explain-form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    void explainBox(server, refused);
  });
}

/** Puts a key into the box and explains it. @param {Server} server @param {TopKey} key @param {(error: unknown) => void} refused */
export async function explainKey(server, { domain, descriptor = [] }, refused) {
  byId("domain").value = domain;
  byId("descriptor").value = typedDescriptor(descriptor, hides) ?? JSON.stringify([{ entries: descriptor }]);
  await explainBox(server, refused);
  byId("explain-heading").scrollIntoView();
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

/** What is to be known of all buckets, for those who look at some. */
let note = "";

/** With the memory store each worker has buckets of its own, and one of them answers. @param {{ store: string, answered_by?: number }} state */
export function noteBuckets({ store, answered_by: worker }) {
  note =
    store === "memory" && worker !== undefined
      ? ` They are those of the worker that answered (${worker} just now): with the memory store each has its own.`
      : "";
}

/** @param {Server} server @param {(error: unknown) => void} refused */
async function explainBox(server, refused) {
  const read = readDescriptors(byId("descriptor").value);
  if ("problem" in read) return showProblem(read.problem);
  if (read.domain !== undefined) byId("domain").value = read.domain;
  const question = { domain: byId("domain").value.trim(), descriptors: read.descriptors };
  if (question.domain === "") return showProblem("Expected a domain.");
  try {
    const [report, peeked] = await Promise.all([server.ask("explain", question), server.ask("buckets/peek", question)]);
    byId("explained").replaceChildren(
      ...reportParts(report),
      ...bucketParts(server, question, peeked.buckets, peeked.says),
    );
  } catch (error) {
    showError(error, refused);
  }
}

/** @param {unknown} error @param {(error: unknown) => void} refused */
function showError(error, refused) {
  showProblem(error instanceof NoAnswer ? `The server says: ${error.message}` : `This page has a fault: ${error}`);
  refused(error);
}

/** @param {string} says */
function showProblem(says) {
  byId("explained").replaceChildren(make("p", { class: "critical" }, shown(says, 600)));
}

/** @param {Report} report */
function reportParts({ says, descriptors = [], globalLimit }) {
  const parts = descriptors.length === 1 ? [] : [make("p", {}, make("strong", {}, shown(sentence(says), 600)))];
  parts.push(...descriptors.flatMap(descriptorParts));
  if (globalLimit !== undefined) {
    parts.push(
      make(
        "p",
        { class: "quiet" },
        `Every call of the domain also pays its global limit: ${shown(globalLimit.says, 300)}.`,
      ),
    );
  }
  return parts;
}

/** @param {DescriptorReport} report */
function descriptorParts({ says, suggestion, rule, limits, entries }) {
  const parts = [make("p", {}, make("strong", {}, shown(sentence(says), 600)))];
  if (suggestion !== undefined) parts.push(make("p", {}, shown(suggestion, 300)));
  if (rule !== undefined) {
    const kind = rule.kind === "ordinary" ? "" : `, ${rule.kind} mode`;
    const allowed = limits.map((limit) => limit.says).join("; ");
    parts.push(
      make(
        "p",
        {},
        `Rule ${shown(rule.path)} at `,
        make("code", {}, shown(rule.where)),
        shown(`${kind}${allowed === "" ? "" : `: ${allowed}`}`, 600),
      ),
    );
  }
  const tried = entries.flatMap(({ key, value, says: why, tried: rules }) => [
    make("li", {}, `${shown(`${key}=${value}`)}: ${shown(why, 300)}`),
    ...rules.map((one) => make("li", { class: "quiet" }, `${one.outcome}: ${shown(one.rule)}: ${shown(one.why, 300)}`)),
  ]);
  parts.push(make("details", {}, make("summary", {}, "Which rules were tried"), make("ul", {}, ...tried)));
  return parts;
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
    setShown(button, !answer.isDone);
  });
  return [table, said, button];
}

/** @param {readonly Bucket[]} buckets */
function bucketTable(buckets) {
  const heads = ["Limit", "Left", "Next passes", "As new"].map((head, i) =>
    make("th", i === 0 ? { scope: "col" } : { scope: "col", class: "number" }, head),
  );
  const rows = buckets.map((bucket) => {
    const { rule, bucket: key, burst, remaining, wait_seconds: wait, reset_seconds: reset } = bucket;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, shown(rule, 100), make("small", {}, shown(key, 100))),
      make("td", { class: "number" }, `${countWords(remaining)} of ${countWords(burst)}`),
      make("td", { class: "number" }, wait === null ? "never" : wait === 0 ? "now" : `in ${durationWords(wait)}`),
      make("td", { class: "number" }, reset === 0 ? "now" : `in ${durationWords(reset)}`),
    );
  });
  const caption = make("caption", { class: "unseen" }, "What is left in the buckets");
  return make("table", {}, caption, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows));
}
