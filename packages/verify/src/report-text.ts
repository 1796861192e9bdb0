// The report for people, and as JUnit's XML.

import type { FaultReport, LimitReport, Report } from "./assess.ts";
import type { Call } from "./call.ts";
import { EDGE_MS } from "./fit.ts";

/** The report as text, ending in a line feed. */
export function reportText(report: Report): string {
  const { plan, calls, latency, lost, limits, faults, lateMs, phaseMs } = report;
  const lines = [
    `${number(calls, "call")} to ${plan.servers.join(", ")} in ${seconds(plan.forMs)}, seed ${plan.seed}`,
    `latency from when due: p50 ${ms(latency.p50)}, p99 ${ms(latency.p99)}, longest ${ms(latency.longest)}`,
    ...[...lost].map(([why, times]) => `no answer: ${number(times, "call")}: ${why}`),
  ];
  if (Math.abs(phaseMs) > EDGE_MS) lines.push(`windows begin ${ms(phaseMs)} after those of this machine's clock`);
  if (lateMs > 100) lines.push(`this machine sent up to ${ms(lateMs)} late: use a less busy one for exact bounds`);
  for (const limit of limits) lines.push("", ...limitLines(limit, report));
  if (faults.length > 0) lines.push("", ...faults.map((fault) => faultLine(fault, report)));
  if (plan.isHttp) {
    lines.push("", "Through HTTP an answer that the proxy gave without a decision (fail-open) looks like a grant.");
  }
  return `${lines.join("\n")}\n`;
}

function limitLines(limit: LimitReport, report: Report): string[] {
  const lines = [
    limit.name,
    `  ${limit.granted} hits granted; the limit allows ${limit.least === 0 ? "at most" : `${limit.least} to`} ${limit.most}. ${limit.refused} of ${number(limit.calls, "call")} refused.`,
    `  counted as ${limit.algorithms.join(" or ")}`,
  ];
  const { checked, lies, waitStepMs } = limit;
  if (checked.remaining + checked.waits > 0) {
    const step = waitStepMs === 1 ? "to 1 ms" : "in whole seconds";
    lines.push(`  told: ${checked.remaining} times what remains, ${checked.waits} times how long to wait (${step})`);
  }
  if (limit.refused === 0) lines.push("  nothing was refused");
  else if (!limit.isReached) lines.push("  never reached: other limits of these calls refused them");
  const [other] = limit.otherQuotas;
  if (other !== undefined)
    lines.push(
      `  ${number(limit.otherQuotas.length, "answer")} named another limit, the first ${other}: is that its rule?`,
    );
  lines.push(...faultsOf(limit, report).map((line) => `  WRONG: ${line}`));
  if (limit.unnamed > 0 && (!report.plan.isHttp || limit.unnamed < limit.answered)) {
    lines.push(`  ${number(limit.unnamed, "answer")} named no limit: ${whyUnnamed(limit, report)}`);
  }
  return lines;

  function faultsOf({ wrongGrants, wrongRefusals }: LimitReport, { startMs }: Report): string[] {
    const found: string[] = [];
    const at = (call: Call) =>
      `the first at ${seconds(call.sentMs - startMs)}, caller ${call.caller}, server ${call.server}`;
    const [grant] = wrongGrants;
    if (grant !== undefined) {
      const first = `the first by ${round(grant.hits)} hits`;
      found.push(`${number(wrongGrants.length, "grant")} beyond the limit, ${first}, ${at(grant.call)}`);
    }
    const [refusal] = wrongRefusals;
    if (refusal !== undefined)
      found.push(`${number(wrongRefusals.length, "call")} refused although there was room, ${at(refusal)}`);
    for (const about of ["remaining", "wait"] as const) {
      const [lie, ...more] = lies.filter((one) => one.about === about);
      if (lie === undefined) continue;
      const unit = about === "wait" ? " ms" : "";
      const bounds = `${round(lie.least)} to ${round(lie.most)}${unit}`;
      found.push(
        `${number(more.length + 1, "answer")} told a false ${about}: ${round(lie.told)}${unit}, true is ${bounds}, ${at(lie.call)}`,
      );
    }
    return found;
  }
}

function whyUnnamed({ unnamed, answered }: LimitReport, { plan }: Report): string {
  if (plan.isHttp) return `did the proxy let ${unnamed === 1 ? "it" : "them"} pass without a decision?`;
  return unnamed < answered ? "did the service's store fail meanwhile?" : "is there a rule for these entries?";
}

function faultLine(fault: FaultReport, { startMs }: Report): string {
  const { run, atMs, failure, lost, excessHits, wrongRefusals, exactAfterMs } = fault;
  const cost = [
    `${number(lost, "call")} lost`,
    `${round(excessHits)} hits granted beyond limits`,
    `${number(wrongRefusals, "wrong refusal")}`,
    exactAfterMs === 0 ? "exact throughout" : `exact again after ${seconds(exactAfterMs)}`,
  ];
  const failed = failure === undefined ? "" : `\n  the command failed: ${failure}`;
  return `at ${seconds(atMs - startMs)} ${run}\n  ${cost.join(", ")}${failed}`;
}

/** A test case for each limit, and for each fault whose command failed. */
export function junitText(report: Report): string {
  const { limits, plan } = report;
  const isWrong = (limit: LimitReport) => limit.wrongGrants.length + limit.wrongRefusals.length + limit.lies.length > 0;
  const cases = limits.map((limit) => {
    const text = limitLines(limit, report).join("\n");
    if (isWrong(limit)) return testCase(limit.name, "failure", "the limit does not hold", text);
    return limit.isReached ? testCase(limit.name) : testCase(limit.name, "error", "the limit was never reached", text);
  });
  for (const { run, failure } of report.faults)
    if (failure !== undefined) cases.push(testCase(run, "error", "the command failed", failure));
  const failures = limits.filter(isWrong).length;
  const errors = cases.filter((one) => one.includes("<error ")).length;
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="headgate verify" tests="${cases.length}" failures="${failures}" errors="${errors}">\n${cases.join("")}</testsuite>\n`;

  function testCase(name: string, kind?: "failure" | "error", message = "", text = ""): string {
    const found = kind === undefined ? "" : `<${kind} message="${message}">${escaped(text)}</${kind}>`;
    return `  <testcase classname="headgate.verify" name="${escaped(name)}" time="${plan.forMs / 1_000}">${found}</testcase>\n`;
  }
}

function escaped(text: string): string {
  return text.replace(/[<>&"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function number(value: number, noun: string): string {
  return `${value} ${noun}${value === 1 ? "" : "s"}`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

function ms(value: number): string {
  return `${round(value)} ms`;
}

function seconds(value: number): string {
  return `${Math.round(value) / 1_000} s`;
}
