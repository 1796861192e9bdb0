// Elements for an explanation: which rule a descriptor meets and why, what is left in its buckets.

import { fillTable, make, timeOf, withCode } from "./dom.mjs";
import { countWords, cut, durationWords, sentence, shown } from "./words.mjs";

/** @param {ExplainReport} report @param {(report: DescriptorReport, i: number) => readonly (Node | string)[]} actionsOf */
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
    const by = `Set at ${set.set_at} by ${set.who}${set.note === undefined ? "." : `: ${set.note}`}`;
    parts.push(make("p", { class: "quiet" }, ...withCode(shown(by, 400))));
  }
  const tried = entries.flatMap(({ key, value, says: why, tried: rules }) => [
    make("li", {}, `${shown(`${key}=${value}`)}: ${shown(why, 300)}`),
    ...rules.map((one) => make("li", { class: "quiet" }, `${one.outcome}: ${shown(one.rule)}: ${shown(one.why, 300)}`)),
  ]);
  parts.push(make("details", {}, make("summary", {}, "Which rules were tried"), make("ul", {}, ...tried)));
  return parts;
}

/** @param {readonly Bucket[]} buckets @param {readonly DescriptorReport["runtime_limit"][]} sets what is set for each descriptor */
export function bucketTable(buckets, sets) {
  const table = /** @type {HTMLTableElement} */ (
    make("table", { class: "cards", "aria-label": "What is left in the buckets" })
  );
  fillTable(table, buckets, ({ rule, bucket }) => `${rule} ${bucket}`, [
    {
      head: "Limit",
      parts: ({ rule, bucket }) => [cut(rule, 40), make("small", { title: shown(bucket, 600) }, cut(bucket, 44))],
    },
    {
      head: "Left",
      is: "number left",
      text: ({ burst, remaining }) => `${countWords(remaining)} of ${countWords(burst)}`,
    },
    {
      head: "Next call passes",
      is: "number",
      parts: ({ descriptor, wait_seconds: wait }) =>
        nextParts(wait, typeof descriptor === "number" ? sets[descriptor] : undefined),
    },
    { head: "Full again", is: "number", text: ({ reset_seconds: reset }) => inWords(reset) },
  ]);
  return table;
}

/** A blocked caller waits for the end of the block, whatever its buckets hold. @param {number | null} wait @param {DescriptorReport["runtime_limit"]} set */
function nextParts(wait, set) {
  if (set?.kind !== "block" || (set.limits ?? []).some((says) => says.startsWith("blocked on paper")))
    return [inWords(wait)];
  return set.until === undefined ? ["never: blocked without an end"] : [timeOf(set.until), ", when the block ends"];
}

/** @param {number | null} seconds */
function inWords(seconds) {
  if (seconds === null) return "never";
  return seconds === 0 ? "now" : `in ${durationWords(seconds)}`;
}
