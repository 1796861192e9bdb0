// The report of a mirror or replay, as JSON and as text for people.

import { durationWords } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import type { CompareOptions } from "./compare.ts";
import type { Differences, Example } from "./differences.ts";
import type { Mirror } from "./mirror.ts";
import type { Recording } from "./recording.ts";

/** A report, in the form of its JSON. */
export type MirrorReport = ReturnType<typeof makeReport>;

interface ReportSources extends CompareOptions {
  readonly answerFrom: string;
  readonly compareWith?: string | undefined;
  readonly mirror: Mirror;
  readonly book: Differences;
}

/** Makes the report of the current state. */
export function makeReport({ mirror, book, ...of }: ReportSources) {
  const { recorder } = mirror;
  return {
    answer_from: of.answerFrom,
    compare_with: of.compareWith ?? null,
    seconds: Math.round(mirror.seconds * 1_000) / 1_000,
    ignored: of.ignore as readonly string[],
    remaining_tolerance: of.remainingTolerance,
    duration_tolerance_seconds: of.durationTolerance / 1_000,
    calls: {
      relayed: mirror.relayed,
      same: book.same,
      different: book.different,
      not_compared: Object.fromEntries(mirror.notCompared),
      not_answered: Object.fromEntries<number>(mirror.answeringFailures),
    },
    differences_by_field: Object.fromEntries(Object.entries(book.fields).filter(([, count]) => count > 0)),
    rules: book.rules(),
    recording: recorder === undefined ? null : recordingReport(recorder),
    first_differences: book.examples as readonly Example[],
  };
}

function recordingReport({ file, calls, leftOut, failure }: Recording) {
  return { file, calls, left_out: leftOut, failure: failure ?? null };
}

/**
 * The share of calls, 0 to 1, that differed or could not be compared; without a second target, that were not answered.
 * 0 without calls.
 */
export function troubleShare(report: MirrorReport): number {
  const { same, different, not_compared, not_answered, relayed } = report.calls;
  if (report.compare_with === null) return relayed === 0 ? 0 : sum(not_answered) / relayed;
  const failed = sum(not_compared);
  const all = same + different + failed;
  return all === 0 ? 0 : (different + failed) / all;
}

/** The report as text for people. */
export function reportText(report: MirrorReport): string {
  const { calls } = report;
  const compared = calls.same + calls.different;
  const lines = [
    `answers from ${report.answer_from}${report.compare_with === null ? "" : `, compared with ${report.compare_with}`}`,
    `${calls.relayed} calls in ${durationWords(report.seconds)}${notes("not answered", calls.not_answered)}`,
  ];
  if (report.compare_with !== null) {
    lines.push(
      `${compared} compared: ${calls.same} equal, ${calls.different} different${percent(calls.different, compared)}`,
    );
    if (sum(calls.not_compared) > 0) lines.push(`not compared${notes("", calls.not_compared)}`);
    const ignored = report.ignored.length === 0 ? "" : `; ignored: ${report.ignored.join(", ")}`;
    lines.push(
      `equal means: remaining within ${report.remaining_tolerance}, duration within ${report.duration_tolerance_seconds} s${ignored}`,
    );
  }
  lines.push(...recordingLines(report));
  if (calls.different > 0)
    lines.push("", ...fieldLines(report), "", ...ruleLines(report.rules), "", ...exampleLines(report));
  return `${lines.map(visible).join("\n")}\n`;
}

function recordingLines({ recording }: MirrorReport): string[] {
  if (recording === null) return [];
  const leftOut = recording.left_out === 0 ? "" : `, ${recording.left_out} left out`;
  const failure = recording.failure === null ? "" : `; writing failed: ${recording.failure}`;
  return [`recorded ${recording.calls} calls to ${recording.file}${leftOut}${failure}`];
}

function fieldLines(report: MirrorReport): string[] {
  const fields = Object.entries(report.differences_by_field);
  return ["what differed (calls):", ...fields.map(([field, count]) => `  ${field.padEnd(14)} ${count}`)];
}

function ruleLines(rules: ReturnType<Differences["rules"]>): string[] {
  const lines = ["where (calls; over limit only for the answering / only for the compared target):"];
  for (const rule of rules) {
    const limits =
      rule.answering_limit === rule.compared_limit
        ? rule.answering_limit
        : `${rule.answering_limit}, compared: ${rule.compared_limit}`;
    const fields = Object.entries(rule.fields).map(([field, count]) => `${field} ${count}`);
    const isOfFurther = rule.answering_limit === "";
    lines.push(
      isOfFurther
        ? "  further rules"
        : `  ${rule.domain}: ${rule.keys === "" ? "(no entries)" : rule.keys}  [${limits}]`,
      `    ${rule.calls} calls; ${rule.over_only_answering} / ${rule.over_only_compared}; ${fields.join(", ")}`,
    );
  }
  return lines;
}

function exampleLines(report: MirrorReport): string[] {
  const lines = [`the first ${report.first_differences.length} of ${report.calls.different} differing calls:`];
  for (const { at, domain, descriptors, differences } of report.first_differences) {
    lines.push(`  ${at} ${domain} ${descriptors.map((descriptor) => `[${descriptor}]`).join(" ")}`);
    for (const { field, descriptor, path, answering, compared } of differences) {
      const where = descriptor === undefined ? "" : ` of descriptor ${descriptor}`;
      lines.push(`    ${field}${where}${path === undefined ? "" : ` ${path}`}: ${answering}, compared: ${compared}`);
    }
  }
  return lines;
}

function notes(title: string, counts: Readonly<Record<string, number>>): string {
  const parts = Object.entries(counts).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`);
  if (parts.length === 0) return "";
  return title === "" ? `: ${parts.join(", ")}` : `; ${title}: ${parts.join(", ")}`;
}

/** The share as the end of a sentence; empty for none. */
export function percent(part: number, whole: number): string {
  if (part === 0 || whole === 0) return "";
  const share = (part / whole) * 100;
  return ` (${share >= 1 ? share.toFixed(1) : share.toPrecision(1)} %)`;
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
