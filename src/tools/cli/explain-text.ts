// Writes an explain report as text for people: entry by entry, what was tried and which limits apply.

import { visible } from "../../base/visible.ts";
import type {
  DescriptorReport,
  EntryReport,
  ExplainReport,
  LimitReport,
  TriedRule,
} from "../../engine/rules/explain-report.ts";
import { count, paint, type Terminal, wrap } from "./terminal.ts";

// A check mark, a cross, a middle dot.
const MARKS: Readonly<Record<TriedRule["outcome"], readonly [string, Parameters<typeof paint>[1]]>> = {
  matched: ["\u2713", "green"],
  "passed over": ["\u2717", "dim"],
  "not tried": ["\u00b7", "dim"],
};

/** The report as text, ending in a line feed. */
export function explainText(report: ExplainReport, terminal: Terminal): string {
  const blocks = report.descriptors.map((descriptor) => descriptorText(descriptor, terminal));
  // A single descriptor's verdict is the call's, unless a required entry is missing.
  if (report.descriptors.length !== 1 || report.missing !== undefined)
    blocks.unshift(verdictText(report.says, report.suggestion, terminal));
  const isExempt = report.descriptors.some(({ runtime_limit: own }) => own?.global_limit === true);
  if (report.global_limit !== undefined && report.descriptors.length > 0 && !isExempt) {
    const head = "Every call of the domain also pays its global limit:";
    blocks.push(`${head}\n${limitText(report.global_limit, terminal)}`);
  }
  if (report.unmatched !== undefined) blocks.push(unmatchedText(report.unmatched, terminal));
  const title = `domain ${visible(report.domain)}, rules version ${report.version}`;
  const hash = report.hash === "" ? "" : ` (${report.hash.slice(0, 12)})`;
  return `${paint(terminal, "bold", title)}${paint(terminal, "dim", hash)}\n\n${blocks.join("\n")}`;
}

function unmatchedText(
  { descriptors, example_keys: exampleKeys }: NonNullable<ExplainReport["unmatched"]>,
  terminal: Terminal,
): string {
  const met = `${count(descriptors, "descriptor")} of this domain met no rule since the server began`;
  const last = exampleKeys.length === 0 ? "" : `; one had the keys ${exampleKeys.join(", ")}`;
  return `${paint(terminal, "yellow", wrap(visible(`${met}${last}`), terminal.columns))}\n`;
}

function descriptorText(report: DescriptorReport, terminal: Terminal): string {
  let text = report.entries.map((entry) => entryText(entry, terminal)).join("");
  text += verdictText(report.says, report.suggestion, terminal);
  const { rule } = report;
  text += setText(report, terminal);
  if (rule === undefined) return text;
  const notes = [
    ...(rule.kind === "ordinary" ? [] : [`${rule.kind} mode`]),
    ...(rule.post_paid ? ["post-paid"] : []),
    ...costNotes(report),
  ];
  text += `  ${paint(terminal, "dim", `${rule.where}${notes.map((note) => `, ${note}`).join("")}`)}\n`;
  return text + report.limits.map((limit) => limitText(limit, terminal)).join("");
}

/** When the limit at run time was set; if known, by whom and why. */
function setText({ runtime_limit: limit }: DescriptorReport, terminal: Terminal): string {
  if (limit === undefined) return "";
  const { set_at: at, who, note } = limit;
  const says = `set at ${at}${who === undefined ? "" : ` by ${who}`}${note === undefined ? "" : `: ${note}`}`;
  return `${paint(terminal, "yellow", wrap(visible(says), terminal.columns, "  ", "    "))}\n`;
}

function costNotes({ cost, rule }: DescriptorReport): string[] {
  const per = rule?.per === undefined ? [] : [`${rule.per} of what callers count are one here, rounded up`];
  if (rule?.hold === "settled") return per;
  const what = rule?.hold === "opened" ? "a call holds" : "one hit costs";
  return cost === 1 ? per : [...per, `${what} ${cost}`];
}

function entryText(entry: EntryReport, terminal: Terminal): string {
  const name = paint(terminal, "bold", visible(`${entry.key}=${entry.value}`));
  if (entry.tried.length === 0) return `${name}  ${paint(terminal, "dim", visible(entry.says))}\n`;
  const lines = entry.tried.map((tried) => triedText(tried, terminal));
  if (entry.left_out > 0) lines.push(`  ${paint(terminal, "dim", `  and ${count(entry.left_out, "more rule")}`)}\n`);
  return `${name}\n${lines.join("")}`;
}

function triedText(tried: TriedRule, terminal: Terminal): string {
  const [mark, colour] = MARKS[tried.outcome];
  const text = `${visible(tried.rule)}: ${visible(tried.why)}`;
  return `${paint(terminal, colour, wrap(text, terminal.columns, `  ${mark} `, "      "))}\n`;
}

function verdictText(says: string, suggestion: string | undefined, terminal: Terminal): string {
  const lines = wrap(visible(says), terminal.columns, "=> ", "   ");
  const hint = suggestion === undefined ? "" : `${wrap(visible(suggestion), terminal.columns, "   ")}\n`;
  return `${paint(terminal, "cyan", lines)}\n${paint(terminal, "yellow", hint)}`;
}

function limitText(limit: LimitReport, terminal: Terminal): string {
  const name = limit.name === "" ? "" : `${visible(limit.name)}: `;
  const failure = limit.on_store_failure === "allow" ? "" : `; if the store fails: ${limit.on_store_failure}`;
  const sync = limit.sync === "exact" ? "" : `; sync: ${limit.sync}`;
  const says = wrap(`${name}${visible(limit.says)}${sync}${failure}`, terminal.columns, "  ", "    ");
  return `${says}\n    ${paint(terminal, "dim", `bucket ${visible(limit.bucket)}`)}\n`;
}
