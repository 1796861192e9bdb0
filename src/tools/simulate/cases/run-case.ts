// Runs the time line of a case through the real limiter and reports answers that are not as expected.

import { StoreError } from "../../../base/errors.ts";
import { durationWords, MICROS_PER_SECOND, TIME_US_MAX } from "../../../base/units.ts";
import { textOf } from "../../../engine/domain/request.ts";
import { Mode, Outcome, type Take, type TakeGroup, Verdict } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import { canPassLater, paidBy, settlementFound } from "../../../engine/limiter/decision.ts";
import { formatPlace } from "../../../engine/rules/problems.ts";
import type { RuleSet } from "../../../engine/rules/rule-set.ts";
import type { Place } from "../../../engine/rules/source.ts";
import { addHeaders, type HeaderOptions } from "../../../grpc/rls/headers.ts";
import { failWithCallFailure, failWithError } from "../../../grpc/rls/service.ts";
import { GrpcStatus } from "../../../grpc/unary.ts";
import { MemoryStore } from "../../../stores/memory/memory-store.ts";
import { type DecidingSettings, SimulatedService } from "../simulated-service.ts";
import type { readCaseLimits } from "./case-limits.ts";
import type { Coverage } from "./coverage.ts";
import type { CaseFile, FOUND } from "./read-cases.ts";

type TestCase = CaseFile["cases"][number];
type CaseStep = TestCase["steps"][number];

interface CaseOptions {
  readonly ruleSet: RuleSet;
  readonly settings: DecidingSettings;
  readonly headers: HeaderOptions;
  readonly coverage: Pick<Coverage, "look">;
  /** Called with each answer, before it is judged; the next call reuses it. */
  readonly heard?: (answer: Answer, atUs: number, step: CaseStep) => void;
}

/** A difference between an answer and what was expected. */
interface Failure {
  readonly at: Place;
  readonly message: string;
}

/** The result of a case. */
export type CaseResult = ReturnType<typeof runCase>;

/** The answer to a call. */
export interface Answer {
  readonly code: string;
  /** Undefined if no limit decided, or the call ended with an error. */
  readonly governing: Take | undefined;
  readonly call: LimitCall;
  /** Message of the error, if it ended with one. */
  readonly error: string | undefined;
}

/** Runs one case, on buckets of its own. No failures: it passed. It ends with the first step that fails. */
export function runCase(test: TestCase, { ruleSet, settings, headers, coverage, heard }: CaseOptions) {
  const hasLimits = test.steps.some(({ limits }) => limits.length > 0);
  const service = new SimulatedService(ruleSet, settings, SwitchedStore, hasLimits);
  let nowUs = test.startUs;
  let calls = 0;
  const done = (failures: readonly Failure[]) => {
    void service.close();
    return { name: test.name, at: test.at, failures, calls };
  };
  const setAll = (limits: ReturnType<typeof readCaseLimits>): readonly Failure[] =>
    limits.flatMap(({ at, asked }) => {
      const error = service.setLimit(asked, nowUs);
      return error === undefined ? [] : [{ at, message: `the limit at run time is rejected: ${error.message}` }];
    });
  for (const step of test.steps) {
    nowUs = (step.setUs ?? nowUs) + step.afterUs;
    if (step.store !== undefined) service.store.isAway = step.store === "away";
    const refused = setAll(step.limits);
    if (refused.length > 0) return done(refused);
    for (let i = 1; i <= step.times && step.call !== undefined; i++) {
      calls++;
      if (i > 1) nowUs += step.everyUs;
      if (nowUs > TIME_US_MAX) return done([{ at: step.at, message: "the case runs beyond the year 2199" }]);
      const answer = ask(service, step.call, nowUs, headers);
      coverage.look(answer.call);
      heard?.(answer, nowUs, step);
      const failures = judge(answer, step, i);
      if (failures.length > 0) return done(failures);
    }
  }
  return done([]);
}

function ask(service: SimulatedService<SwitchedStore>, message: Buffer, nowUs: number, headers: HeaderOptions): Answer {
  const { call } = service;
  const error = service.decide(message, nowUs);
  if (error !== undefined) return { ...statusOf((reply) => failWithError(reply, error)), governing: undefined, call };
  const { failure } = call;
  if (failure !== undefined) {
    return { ...statusOf((reply) => failWithCallFailure(reply, failure)), governing: undefined, call };
  }
  addHeaders(call, headers);
  return {
    code: call.decision.overLimit ? "OVER_LIMIT" : "OK",
    governing: call.governing,
    call,
    error: undefined,
  };
}

/** The name of the gRPC status that a reply ends with, and its message. */
function statusOf(fail: (reply: Parameters<typeof failWithError>[0]) => void): { code: string; error: string } {
  let code = "";
  let error = "";
  fail({
    ok: () => undefined,
    fail: (status, message) => {
      const name = Object.entries(GrpcStatus).find(([, number]) => number === status)?.[0] ?? String(status);
      code = name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
      error = message;
    },
  });
  return { code, error };
}

function judge(answer: Answer, step: CaseStep, number: number): readonly Failure[] {
  const { expect } = step;
  if (expect === undefined) return [];
  const at = expect.at;
  const which = step.times === 1 ? "" : ` of call ${number} of ${step.times}`;
  const failures: Failure[] = [];
  const want = (what: string, expected: unknown, found: unknown) => {
    if (expected === undefined || expected === found) return;
    failures.push({
      at,
      message: `expected ${what} ${String(expected)}${which}, got ${String(found)}; ${told(answer)}`,
    });
  };
  want("the code", expect.code, answer.code);
  if (number < step.times || failures.length > 0) return failures;
  const { governing, call } = answer;
  if (expect.rule !== undefined && !namesOf(answer).includes(expect.rule)) {
    want("the rule", expect.rule, governing === undefined ? "none" : textOf(governing.limit.names.id));
  }
  want("remaining", expect.remaining, governing?.remaining);
  want("a wait of", shownTime(expect.waitUs), shownTime(governing === undefined ? undefined : governing.waitUs));
  want("a reset in", shownTime(expect.resetUs), shownTime(governing?.resetUs));
  for (const [name, value] of expect.headers) want(`the header ${name}`, value, headerOf(call, name));
  judgeDescriptors(expect, call, want);
  return failures;
}

function judgeDescriptors(
  { matches, statuses, reserved, found }: NonNullable<CaseStep["expect"]>,
  call: LimitCall,
  want: (what: string, expected: unknown, found: unknown) => void,
): void {
  const { rules, decision } = call;
  const each = (of: (index: number) => unknown) =>
    Array.from({ length: call.request.descriptorCount }, (_, i) => of(i));
  const codes = decision.statuses
    .slice(0, decision.statusCount)
    .map(({ overLimit }) => (overLimit ? "OVER_LIMIT" : "OK"));
  const lists = [
    ["matches of", matches, each((i) => textOf(rules[i]?.path ?? "") || "nothing")],
    ["statuses", statuses, each((i) => codes[i] ?? "none")],
    ["a reservation of", reserved, each((i) => (rules[i]?.hold === undefined ? 0 : paidBy(call, i)))],
    ["settlements to find", found, each((i) => foundBy(call, i))],
  ] as const;
  for (const [what, wanted, got] of lists) {
    // A single word is for all descriptors: `matches: nothing`.
    const wantedOfAll = wanted?.length === 1 ? got.map(() => wanted[0]) : wanted;
    want(what, wantedOfAll?.join(", "), got.join(", "));
  }
}

/** What the descriptor's settlement found. */
function foundBy(call: LimitCall, index: number): (typeof FOUND)[number] {
  const { takes: all, size } = call.group;
  const takes = all.slice(0, size).filter(({ descriptor, mode }) => descriptor === index && mode === Mode.settle);
  if (takes.length === 0) return "nothing";
  const isUnanswered = takes.every(({ outcome }) => outcome === Outcome.unanswered);
  return isUnanswered ? "unanswered" : settlementFound(call.group, index);
}

/** Names of a limit that an expectation may use: `edge/tenant#daily`, `tenant#daily`, `daily`, `tenant`. */
function namesOf({ governing, call }: Answer): readonly string[] {
  if (governing === undefined) return ["none"];
  const {
    names: { id, name, readableName, path },
  } = governing.limit;
  const withoutDomain = id.slice(call.request.domain.length).replace(/^\//, "");
  return [id, withoutDomain, name, readableName, path].filter((text) => text !== "").map(textOf);
}

function headerOf(call: LimitCall, name: string): string | null {
  const headers = call.decision.headers.slice(0, call.decision.headerCount);
  return headers.find(({ key }) => key.toLowerCase() === name.toLowerCase())?.value ?? null;
}

function told({ error, governing, code, call }: Answer): string {
  if (error !== undefined) return `it ended with ${error}`;
  if (governing === undefined) {
    return call.domain === undefined ? "the domain has no rules" : `no limit decided the ${code}`;
  }
  const { remaining, limit, resetUs } = governing;
  const isWorthAWait = call.decision.overLimit && canPassLater(governing);
  const room = isWorthAWait ? `, room again in ${durationWords(governing.waitUs / MICROS_PER_SECOND)}` : "";
  return `${textOf(limit.names.id)} governs it: ${remaining} left${room}, full again in ${durationWords(resetUs / MICROS_PER_SECOND)}`;
}

/** Microseconds as `1.5s` or `100ms`, exactly. */
function shownTime(us: number | undefined): string | undefined {
  if (us === undefined) return undefined;
  return us === 0 || us >= 1_000_000 ? `${us / 1_000_000}s` : `${us / 1_000}ms`;
}

/** A failure on one line, with its place. */
export function formatFailure({ at, message }: Failure): string {
  return `${formatPlace(at)}: ${message}`;
}

const AWAY = new StoreError("STORE_UNREACHABLE", "the case has store: away");

/** A memory store that can be away: then it does not answer, and each limit's on_store_failure decides. */
class SwitchedStore extends MemoryStore {
  isAway = false;

  override take(group: TakeGroup): boolean {
    if (!this.isAway) return super.take(group);
    for (let i = 0; i < group.size; i++) (group.takes[i] as Take).outcome = Outcome.unanswered;
    group.verdict = Verdict.failed;
    group.failure = AWAY;
    return true;
  }
}
