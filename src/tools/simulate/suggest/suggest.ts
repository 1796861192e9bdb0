// Suggests limits for a recording: for each kind of descriptor a token bucket that would never have refused a chosen share of
// callers. Reads the recording twice. The caller simulates the outcome.

import { AMOUNT_MAX } from "../../../engine/base/units.ts";
import type { Descriptor, LimitRequest } from "../../../engine/domain/request.ts";
import type { Take } from "../../../engine/domain/take.ts";
import type { RuleSet } from "../../../engine/rules/rule-set.ts";
import { NeededBursts } from "../needed-bursts.ts";
import { type DecidingSettings, SimulatedService } from "../simulated-service.ts";
import { SampleShare } from "./caller-sample.ts";
import { callerName } from "./callers.ts";
import { HeldCalls } from "./held-calls.ts";
import type { HoldNames } from "./hold-names.ts";
import type { HoldUse } from "./hold-use.ts";
import { isUnderstood, measureRates, type RecordedCalls } from "./measure-rates.ts";
import { perSecond } from "./rules-text.ts";
import { type Shape, Shapes } from "./shapes.ts";

interface SuggestOptions extends RecordedCalls {
  /** Share of callers, above 0 up to 1, that would never have been refused. */
  readonly share: number;
  /** Factor of rates and bursts; at least 1. */
  readonly headroom: number;
  readonly settings: DecidingSettings;
  /** Compiles the files of all domains, with the largest possible bursts. */
  readonly compile: (shapes: readonly Shape[]) => RuleSet;
  readonly callersMax?: number;
}

/** What was found. */
export interface Suggestion {
  readonly shapes: readonly Shape[];
  /** Descriptors that no rule was made for, because there were too many kinds or a rule can't name their keys. */
  readonly leftOut: number;
  /** Calls of kinds that never end in the recording: nothing says what to hold for them. */
  readonly neverEnded: number;
  /** One in so many callers was looked at. */
  readonly oneIn: number;
}

/** Finds rates from the busiest minute of each caller, then bursts at those rates. */
export async function suggest(options: SuggestOptions): Promise<Suggestion> {
  const shapes = new Shapes(new SampleShare(options.callersMax), options.holdNames);
  await measureRates(options, shapes);
  const all = shapes.list();
  const found = all.filter(({ use }) => use === undefined || use.used.size + use.ended > 0);
  const neverEnded = all.reduce((sum, shape) => sum + (found.includes(shape) ? 0 : shape.calls), 0);
  for (const shape of found) {
    // Calls of one hit each need no hold.
    if (shape.use !== undefined && (shape.use.isPaired || shape.use.used.max > 1)) {
      shape.use.propose(options.share, options.headroom);
    } else shape.use = undefined;
    const perMinute = Math.max(1, Math.ceil(shape.callers.peakOf(options.share) * options.headroom));
    shape.perMinute = Math.min(perMinute, AMOUNT_MAX);
    shape.isCapped = perMinute > AMOUNT_MAX;
    shape.burst = AMOUNT_MAX;
  }
  const { leftOut, share } = shapes;
  if (found.length === 0) return { shapes: found, leftOut, neverEnded, oneIn: share.oneIn };
  const oneIn = await measureBursts(options, found);
  return { shapes: found, leftOut, neverEnded, oneIn: Math.max(oneIn, share.oneIn) };
}

/** Has the limiter decide with buckets that refuse nobody, and finds what each take needs. Returns the share looked at. */
async function measureBursts(options: SuggestOptions, found: readonly Shape[]): Promise<number> {
  const { settings, compile, openCalls, share, headroom, holdNames } = options;
  const service = new SimulatedService({ ruleSet: compile(found), settings });
  const needs = new NeededBursts(service.clock, settings);
  const needed = new Shapes(new SampleShare(options.callersMax), holdNames);
  const onNeed = (take: Take, burst: number) => noteNeed(service, take, burst, needed, holdNames);
  const held = holdNames === undefined ? undefined : new HeldCalls(holdNames);
  const uses = new Map(found.map((shape) => [nameOf(shape), shape.use]));
  const useOf = (domain: string, descriptor: Descriptor) => {
    const shape = needed.of(domain, descriptor);
    return shape === undefined ? undefined : uses.get(nameOf(shape));
  };
  let nowUs = 0;
  for await (const batch of openCalls()) {
    for (const { atUs, question } of batch) {
      nowUs = Math.max(nowUs, atUs);
      if (!isUnderstood(() => service.decide(question, nowUs))) continue;
      needs.settle(service.call.group, onNeed);
      if (held !== undefined) judgeCalls(service.call.request, nowUs, held, useOf);
    }
  }
  await Promise.all([service.close(), needs.close()]);
  const peaks = new Map(needed.list().map((shape) => [nameOf(shape), shape.callers.peakOf(share)]));
  for (const shape of found) {
    const peak = peaks.get(nameOf(shape)) ?? 0;
    const ofHold = shape.use?.hold?.max ?? 0;
    const burst = Math.max(Math.ceil(perSecond(shape.perMinute)), Math.ceil(peak * headroom), ofHold);
    shape.burst = Math.min(burst, AMOUNT_MAX);
    shape.isCapped ||= burst > AMOUNT_MAX;
  }
  return needed.share.oneIn;
}

function judgeCalls(
  request: LimitRequest,
  nowUs: number,
  held: HeldCalls,
  useOf: (domain: string, descriptor: Descriptor) => HoldUse | undefined,
): void {
  for (let i = 0; i < request.descriptorCount; i++) {
    const descriptor = request.descriptors[i] as Descriptor;
    const heldCall = held.read(request, descriptor, nowUs);
    if (heldCall !== undefined) useOf(request.domain, descriptor)?.judge(heldCall);
  }
}

function noteNeed({ call }: SimulatedService, take: Take, burst: number, needed: Shapes, names?: HoldNames): void {
  const descriptor = call.request.descriptors[take.descriptor];
  const shape = descriptor === undefined ? undefined : needed.of(call.request.domain, descriptor);
  if (shape === undefined || descriptor === undefined) return;
  shape.calls++;
  const caller = shape.callers.of(callerName(descriptor, names));
  if (caller !== undefined) caller.peak = Math.max(caller.peak, burst);
}

function nameOf({ domain, keys }: Shape): string {
  return JSON.stringify([domain, ...keys]);
}
