// Elements for an explanation: which rule a descriptor meets and why, what is left in its buckets.

import { fillTable, make, withCode } from "./dom.mjs";
import { countWords, durationWords, sentence, shown } from "./words.mjs";

/**
 * @typedef {import("../src/engine/rules/explain-report.ts").ExplainReport} Report
 * @typedef {import("../src/engine/rules/explain-report.ts").DescriptorReport} DescriptorReport
 * @typedef {{ rule: string, bucket: string, burst: number, remaining: number, wait_seconds: number | null, reset_seconds: number }} Bucket
 */

/** @param {Report} report @param {(report: DescriptorReport, i: number) => readonly (Node | string)[]} actionsOf */
export function reportParts({ says, descriptors = [], global_limit: globalLimit }, actionsOf) {
  const parts = descriptors.length === 1 ? [] : [verdictPart(says)];
  descriptors.forEach((report, i) => {
    const actions = actionsOf(report, i);
    parts.push(
      ...descriptorParts(report),
      ...(actions.length === 0 ? [] : [make("p", { class: "actions" }, ...actions)]),
    );
  });
  if (globalLimit !== undefined) {
    const all = `Every call of the domain also pays its global limit: ${shown(globalLimit.says, 300)}.`;
    parts.push(make("p", { class: "quiet" }, all));
  }
  return parts;
}

/** @param {string} says */
function verdictPart(says) {
  return make("p", {}, make("strong", {}, ...withCode(shown(sentence(says), 600))));
}

/** @param {DescriptorReport} report */
function descriptorParts({ says, suggestion, rule, limits, entries, runtime_limit: set }) {
  const parts = [verdictPart(says)];
  if (suggestion !== undefined) parts.push(make("p", {}, ...withCode(shown(suggestion, 300))));
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
  if (set?.who !== undefined) {
    const by = `Set at ${set.set_at.slice(0, 19)}Z by ${set.who}${set.note === undefined ? "." : `: ${set.note}`}`;
    parts.push(make("p", { class: "quiet" }, shown(by, 400)));
  }
  const tried = entries.flatMap(({ key, value, says: why, tried: rules }) => [
    make("li", {}, `${shown(`${key}=${value}`)}: ${shown(why, 300)}`),
    ...rules.map((one) => make("li", { class: "quiet" }, `${one.outcome}: ${shown(one.rule)}: ${shown(one.why, 300)}`)),
  ]);
  parts.push(make("details", {}, make("summary", {}, "Which rules were tried"), make("ul", {}, ...tried)));
  return parts;
}

/** @param {readonly Bucket[]} buckets */
export function bucketTable(buckets) {
  const table = /** @type {HTMLTableElement} */ (make("table", { "aria-label": "What is left in the buckets" }));
  fillTable(table, buckets, ({ rule, bucket }) => `${rule} ${bucket}`, [
    { head: "Limit", parts: ({ rule, bucket }) => [shown(rule, 100), make("small", {}, shown(bucket, 100))] },
    { head: "Left", is: "number", text: ({ burst, remaining }) => `${countWords(remaining)} of ${countWords(burst)}` },
    { head: "Next call passes", is: "number", text: ({ wait_seconds: wait }) => inWords(wait) },
    { head: "Full again", is: "number", text: ({ reset_seconds: reset }) => inWords(reset) },
  ]);
  return table;
}

/** @param {number | null} seconds */
function inWords(seconds) {
  if (seconds === null) return "never";
  return seconds === 0 ? "now" : `in ${durationWords(seconds)}`;
}
