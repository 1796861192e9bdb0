// What the server says of a descriptor, as elements: which rule it meets and why, what is left in its buckets.

import { make, withCode } from "./dom.mjs";
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
  const heads = ["Limit", "Left", "Next call passes", "Full again"].map((head, i) =>
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
