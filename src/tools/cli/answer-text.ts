// Writes an answer of ShouldRateLimit as text for people or as JSON for machines.

import { isRecord } from "../../base/is-record.ts";
import { durationWords } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import { type AnswerHeader, type AnswerStatus, type RateLimitAnswer, secondsOf } from "../mirror/answer.ts";
import { type TypedDescriptor, unmetText } from "./arguments.ts";
import { paint, type Terminal } from "./terminal.ts";

/** An answer and what it answers. */
interface ShownAnswer {
  readonly answer: RateLimitAnswer;
  readonly elapsedMs: number;
  readonly number: number;
  readonly descriptors: readonly TypedDescriptor[];
  readonly flags: { readonly domain: string; readonly server: string };
}

/** What remains of an unlimited descriptor, as the service answers it. */
const UNLIMITED = 4_294_967_295;

/** The whole answer, over several lines. */
export function answerText({ answer, elapsedMs, descriptors, flags }: ShownAnswer, terminal: Terminal): string {
  const where = `domain ${visible(flags.domain)} at ${visible(flags.server)}, ${elapsedMs.toFixed(1)} ms`;
  let text = `${codeText(answer.overall_code, terminal)}  ${paint(terminal, "dim", where)}\n`;
  const degraded = degradedText(answer);
  if (degraded !== undefined) text += `${paint(terminal, "yellow", degraded)}\n`;
  if (isUnknownDomain(answer)) text += `${paint(terminal, "yellow", UNKNOWN_DOMAIN)}\n`;
  const unmatched = unmatchedIn(answer);
  answer.statuses.forEach((status, i) => {
    const descriptor = typedText(descriptors[i] ?? []);
    text += `\n${paint(terminal, "bold", visible(descriptor === "" ? "(no entries)" : descriptor))}\n`;
    text += `  ${codeText(status.code, terminal)}  ${statusText(status, degraded !== undefined)}\n`;
    if (status.current_limit !== undefined && unmatched.has(i)) text += `  ${paint(terminal, "yellow", UNMATCHED)}\n`;
  });
  const unmet = answer.statuses.flatMap((status, at) => (isUnmet(status) || unmatched.has(at) ? [at] : []));
  if (degraded === undefined && !isUnknownDomain(answer)) text += unmetText(unmet, descriptors);
  text += section("headers for the client", headerLines(answer.response_headers_to_add), terminal);
  text += section("headers for the upstream", headerLines(answer.request_headers_to_add), terminal);
  return text + section("metadata", metadataLines(answer), terminal);
}

/** The answer on one line. */
export function answerLine({ answer, elapsedMs, number }: ShownAnswer, terminal: Terminal): string {
  const notes = degradedText(answer) ?? (isUnknownDomain(answer) ? UNKNOWN_DOMAIN : undefined);
  const unmatched = unmatchedIn(answer);
  const shown = (status: AnswerStatus, i: number) =>
    status.current_limit !== undefined && unmatched.has(i) ? `no rule, ${shortStatus(status)}` : shortStatus(status);
  const rest = notes ?? answer.statuses.map(shown).join(" | ");
  const code = codeText(answer.overall_code.padEnd("OVER_LIMIT".length), terminal);
  return `${String(number).padStart(4)}  ${code}  ${elapsedMs.toFixed(1).padStart(6)} ms  ${rest}\n`;
}

/** The answer as JSON. */
export function answerJson({ answer, elapsedMs, descriptors }: ShownAnswer): object {
  return {
    code: answer.overall_code,
    elapsed_ms: Math.round(elapsedMs * 1_000) / 1_000,
    statuses: answer.statuses.map((status, i) => ({
      descriptor: descriptors[i] ?? [],
      code: status.code,
      limit: status.current_limit ?? null,
      remaining: status.limit_remaining,
      reset_seconds: wholeSecondsOf(status) ?? null,
    })),
    response_headers: answer.response_headers_to_add.map(({ key, value }) => ({ key, value })),
    request_headers: answer.request_headers_to_add.map(({ key, value }) => ({ key, value })),
    metadata: answer.dynamic_metadata ?? null,
  };
}

/** How many calls passed and how many did not. */
export function totalsText(totals: { readonly passed: number; readonly refused: number }, terminal: Terminal): string {
  const refused = `${totals.refused} over limit`;
  return `\n${paint(terminal, "green", `${totals.passed} passed`)}, ${totals.refused === 0 ? refused : paint(terminal, "red", refused)}\n`;
}

function codeText(code: string, terminal: Terminal): string {
  return paint(terminal, code.trim() === "OVER_LIMIT" ? "red" : code.trim() === "OK" ? "green" : "yellow", code);
}

/** Says that the store did not decide, which the numbers don't show. */
function degradedText(answer: RateLimitAnswer): string | undefined {
  const degraded = answer.dynamic_metadata?.degraded;
  if (!isRecord(degraded)) return undefined;
  return visible(`answered without the store (${degraded.failure}), by on_store_failure: ${degraded.policy}`);
}

/** Shown if the service has no rules for the domain. */
const UNKNOWN_DOMAIN =
  "the service has no rules for this domain, so nothing is limited; /config on its HTTP port lists them";

function isUnknownDomain(answer: RateLimitAnswer): boolean {
  return answer.dynamic_metadata?.unknown_domain === true;
}

/** Shown with the global limit, which looks like a rule's limit in a status. */
const UNMATCHED = "no rule applies to this descriptor: only the global limit counts it";

/** Indexes of the descriptors that met no rule. */
function unmatchedIn(answer: RateLimitAnswer): ReadonlySet<unknown> {
  const unmatched = answer.dynamic_metadata?.unmatched;
  return new Set(Array.isArray(unmatched) ? unmatched : []);
}

function isUnmet({ code, current_limit: limit, limit_remaining: remaining }: AnswerStatus): boolean {
  return limit === undefined && remaining !== UNLIMITED && code === "OK";
}

function statusText(status: AnswerStatus, isDegraded: boolean): string {
  const limit = status.current_limit;
  if (limit === undefined && isDegraded) return "not checked";
  if (limit === undefined && status.code === "OVER_LIMIT") return "refused without asking a limit";
  if (limit === undefined)
    return status.limit_remaining === UNLIMITED ? "unlimited" : "no rule applies: passes without a limit";
  const name = limit.name === "" ? "" : `${visible(limit.name)}: `;
  const reset = resetText(status);
  // A bucket that does not fill in one unit, or a window that is not one unit long: its rate is in the rules.
  if (limit.unit === "UNKNOWN") return `${name}${status.limit_remaining} of ${limit.requests_per_unit} left${reset}`;
  return `${name}${limit.requests_per_unit} per ${limit.unit.toLowerCase()}, ${status.limit_remaining} left${reset}`;
}

function wholeSecondsOf({ duration_until_reset: duration }: AnswerStatus): number | undefined {
  const seconds = secondsOf(duration);
  return seconds === undefined ? undefined : Math.trunc(seconds);
}

function resetText(status: AnswerStatus): string {
  const seconds = wholeSecondsOf(status);
  if (seconds === undefined) return "";
  return `, ${status.code === "OVER_LIMIT" ? "room" : "full"} again in ${durationWords(seconds)}`;
}

function shortStatus(status: AnswerStatus): string {
  if (status.current_limit === undefined && status.code === "OVER_LIMIT") return "refused";
  if (status.current_limit === undefined) return status.limit_remaining === UNLIMITED ? "unlimited" : "no rule";
  const seconds = wholeSecondsOf(status);
  return `${status.limit_remaining} left${seconds === undefined ? "" : `, ${durationWords(seconds)}`}`;
}

function headerLines(headers: readonly AnswerHeader[]): string[] {
  return headers.map(({ key, value }) => `${visible(key)}: ${visible(value)}`);
}

function metadataLines(answer: RateLimitAnswer): string[] {
  return Object.entries(answer.dynamic_metadata ?? {}).map(([key, value]) => {
    return `${visible(key)}: ${visible(typeof value === "string" ? value : JSON.stringify(value))}`;
  });
}

function section(title: string, lines: readonly string[], terminal: Terminal): string {
  if (lines.length === 0) return "";
  return `\n${paint(terminal, "bold", title)}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}
