// Limits for a recording that has none: per kind of descriptor a token bucket under which a chosen share of callers would never
// have been refused. Reads the recording twice; whoever asked simulates the outcome.

import { RequestError } from "../../core/errors.ts";
import { type Descriptor, LimitRequest } from "../../core/request.ts";
import type { Take } from "../../core/take.ts";
import { AMOUNT_MAX } from "../../core/units.ts";
import type { RuleSet } from "../../rules/rule-set.ts";
import { NeededBursts } from "../needed-bursts.ts";
import { fillRequest, type RecordedQuestion } from "../question.ts";
import { type DecidingSettings, VirtualService } from "../virtual-service.ts";
import { SampleShare } from "./caller-sample.ts";
import { perSecond } from "./rules-text.ts";
import { callerName, hitsOf, type Shape, Shapes } from "./shapes.ts";

/** The stretch of time whose calls make the rate. */
const STRETCH_US = 60_000_000;

interface SuggestOptions {
  /** Share of callers, above 0 up to 1, that would never have been refused. */
  readonly share: number;
  /** What rates and bursts are multiplied by; at least 1. */
  readonly headroom: number;
  readonly settings: DecidingSettings;
  /** Compiles the files of all domains. Bursts are the largest there are. */
  readonly compile: (shapes: readonly Shape[]) => RuleSet;
  /** Reads the calls, each time from the beginning. */
  readonly openCalls: () => AsyncIterable<readonly RecordedQuestion[]>;
  readonly callersMax?: number;
}

/** What was found. */
export interface Suggestion {
  readonly shapes: readonly Shape[];
  /** Descriptors that no rule was made for, because there were too many kinds or a rule can't name their keys. */
  readonly leftOut: number;
  /** One in so many callers was looked at. */
  readonly oneIn: number;
}

/** Finds rates from the busiest minute of each caller, then bursts at those rates. */
export async function suggest(options: SuggestOptions): Promise<Suggestion> {
  const shapes = new Shapes(new SampleShare(options.callersMax));
  await measureRates(options, shapes);
  const found = shapes.list();
  for (const shape of found) {
    const perMinute = Math.max(1, Math.ceil(shape.callers.peakOf(options.share) * options.headroom));
    shape.perMinute = Math.min(perMinute, AMOUNT_MAX);
    shape.burst = AMOUNT_MAX;
  }
  const { leftOut, share } = shapes;
  if (found.length === 0) return { shapes: found, leftOut, oneIn: share.oneIn };
  const oneIn = await measureBursts(options, found);
  return { shapes: found, leftOut, oneIn: Math.max(oneIn, share.oneIn) };
}

async function measureRates({ openCalls }: SuggestOptions, shapes: Shapes): Promise<void> {
  const request = new LimitRequest();
  let nowUs = 0;
  for await (const batch of openCalls()) {
    for (const { atUs, question } of batch) {
      nowUs = Math.max(nowUs, atUs);
      if (!isFilled(question, request)) continue;
      const stretch = Math.floor(nowUs / STRETCH_US);
      for (let i = 0; i < request.descriptorCount; i++) {
        const descriptor = request.descriptors[i] as Descriptor;
        const hits = hitsOf(request, descriptor);
        const shape = hits === 0 ? undefined : shapes.of(request.domain, descriptor);
        if (shape !== undefined) countHits(shape, descriptor, hits, stretch);
      }
    }
  }
}

function countHits(shape: Shape, descriptor: Descriptor, hits: number, stretch: number): void {
  shape.calls++;
  shape.hits += hits;
  const caller = shape.callers.of(callerName(descriptor));
  if (caller === undefined) return;
  if (caller.stretch !== stretch) {
    caller.stretch = stretch;
    caller.hits = 0;
  }
  caller.hits += hits;
  caller.peak = Math.max(caller.peak, caller.hits);
}

/** Has the service itself decide by buckets that refuse nobody, and looks what each take needs of them. Returns the share looked at. */
async function measureBursts(options: SuggestOptions, found: readonly Shape[]): Promise<number> {
  const { settings, compile, openCalls, share, headroom } = options;
  const service = new VirtualService({ ruleSet: compile(found), settings });
  const needs = new NeededBursts(service.clock, settings);
  const needed = new Shapes(new SampleShare(options.callersMax));
  const onNeed = (take: Take, burst: number) => noteNeed(service, take, burst, needed);
  let nowUs = 0;
  for await (const batch of openCalls()) {
    for (const { atUs, question } of batch) {
      nowUs = Math.max(nowUs, atUs);
      if (isDecided(service, question, nowUs)) needs.settle(service.call.group, onNeed);
    }
  }
  await Promise.all([service.close(), needs.close()]);
  const byName = new Map(needed.list().map((shape) => [nameOf(shape), shape]));
  for (const shape of found) {
    const peak = byName.get(nameOf(shape))?.callers.peakOf(share) ?? 0;
    const burst = Math.max(Math.ceil(perSecond(shape.perMinute)), Math.ceil(peak * headroom));
    shape.burst = Math.min(burst, AMOUNT_MAX);
  }
  return needed.share.oneIn;
}

function noteNeed({ call }: VirtualService, take: Take, burst: number, needed: Shapes): void {
  const descriptor = call.request.descriptors[take.descriptor];
  const shape = descriptor === undefined ? undefined : needed.of(call.request.domain, descriptor);
  if (shape === undefined || descriptor === undefined) return;
  shape.calls++;
  const caller = shape.callers.of(callerName(descriptor));
  if (caller !== undefined) caller.peak = Math.max(caller.peak, burst);
}

function nameOf({ domain, keys }: Shape): string {
  return JSON.stringify([domain, ...keys]);
}

function isFilled(question: RecordedQuestion["question"], request: LimitRequest): boolean {
  request.reset();
  return isUnderstood(() => fillRequest(question, request));
}

function isDecided(service: VirtualService, question: RecordedQuestion["question"], atUs: number): boolean {
  return isUnderstood(() => service.decide(question, atUs));
}

/** False for a request that the service answers with an error. */
function isUnderstood(read: () => void): boolean {
  try {
    read();
    return true;
  } catch (error) {
    if (error instanceof RequestError) return false;
    throw error;
  }
}
