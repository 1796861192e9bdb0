// Suggests limits for a recording: for each kind of descriptor a token bucket that would never have refused a chosen
// share of callers. Reads the recording twice. The caller simulates the outcome.

import { getOrInsert } from "../../../base/get-or-insert.ts";
import { AMOUNT_MAX } from "../../../base/units.ts";
import type { Take } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import type { RuleSet } from "../../../engine/rules/rule-set.ts";
import { MemoryStore } from "../../../stores/memory/memory-store.ts";
import type { RecordedCall } from "../../mirror/read-recording.ts";
import { NeededBursts } from "../needed-bursts.ts";
import { type DecidingSettings, SimulatedService } from "../simulated-service.ts";
import { type HeldCall, HeldCalls } from "./held-calls.ts";
import { HoldUse } from "./hold-use.ts";
import { callerName, type HoldNames, hitsOf, type Shape, Shapes } from "./shapes.ts";

interface SuggestOptions {
  /** Reads the calls of a recording, each time from the beginning. */
  readonly openCalls: () => AsyncIterable<readonly RecordedCall[]>;
  /** Keys of entries about holds; undefined: no holds are suggested. */
  readonly holdNames?: HoldNames | undefined;
  /** Share of callers, above 0 up to 1, that would never have been refused. */
  readonly share: number;
  /** Factor of rates and bursts; at least 1. */
  readonly headroom: number;
  readonly settings: DecidingSettings;
  /** Compiles the files of all domains, with the largest possible bursts. */
  readonly compile: (shapes: readonly Shape[]) => RuleSet;
}

/** The interval whose calls make the rate. */
const STRETCH_US = 60_000_000;

/** What was found. */
export type Suggestion = Awaited<ReturnType<typeof suggest>>;

/** Finds rates from the busiest minute of each caller, then bursts at those rates. */
export async function suggest(options: SuggestOptions) {
  const shapes = new Shapes(options.holdNames);
  await measureRates(options, shapes);
  const all = shapes.list();
  const found = all.filter(({ use }) => use === undefined || use.used.count + use.ended > 0);
  const neverEnded = all.reduce((sum, shape) => sum + (found.includes(shape) ? 0 : shape.calls), 0);
  for (const shape of found) {
    // Calls of one hit each need no hold.
    if (shape.use !== undefined && (shape.use.isPaired || shape.use.usedMax > 1)) {
      shape.use.propose(options.share, options.headroom);
    } else shape.use = undefined;
    const perMinute = Math.max(1, Math.ceil(shape.callers.peakOf(options.share) * options.headroom));
    shape.perMinute = Math.min(perMinute, AMOUNT_MAX);
    shape.burst = AMOUNT_MAX;
  }
  const { leftOut } = shapes;
  if (found.length > 0) await measureBursts(options, found, shapes);
  return {
    shapes: found,
    /** Descriptors that no rule was made for, because there were too many kinds or a rule can't name their keys. */
    leftOut,
    /** Calls of kinds that never end in the recording: nothing says what to hold for them. */
    neverEnded,
    /** False: there were too many callers to look at all of them. */
    isOfAllCallers: !shapes.callersLeft.isExceeded,
  };
}

/** Finds how many calls each kind has, the busiest minute of each caller, and what held calls have used. */
async function measureRates(options: SuggestOptions, shapes: Shapes): Promise<void> {
  const { compile, settings, holdNames } = options;
  const held = holdNames === undefined ? undefined : new HeldCalls(holdNames);
  const uses = new Map<Shape, HoldUse>();
  await decideAll(options, new SimulatedService(compile([]), settings, MemoryStore), ({ request }, nowUs) => {
    for (const descriptor of request.descriptors.slice(0, request.descriptorCount)) {
      const heldCall = held?.read(request, descriptor, nowUs);
      const hits = held === undefined ? hitsOf(request, descriptor) : paidBy(heldCall);
      if (hits === 0 && heldCall === undefined) continue;
      const stretch = Math.floor(nowUs / STRETCH_US);
      const shape = shapes.of(request.domain, descriptor);
      if (shape === undefined) continue;
      const isNew = heldCall?.tookUs === undefined;
      shape.learn(hits, isNew, descriptor, callerName(descriptor, holdNames), stretch);
      if (heldCall !== undefined) getOrInsert(uses, shape, () => new HoldUse()).learn(heldCall);
    }
  });
  for (const [shape, use] of uses) shape.use = use;
}

/** Hits that count for the rate. Calls with holds count when they end: only then it is known what they used. */
function paidBy(call: HeldCall | undefined): number {
  return call === undefined || call.part === "begin" ? 0 : (call.used ?? call.stated ?? 0);
}

/** Has the limiter decide with buckets that refuse nobody, and finds what each take needs. */
async function measureBursts(options: SuggestOptions, found: readonly Shape[], shapes: Shapes): Promise<void> {
  const { settings, compile, share, headroom, holdNames } = options;
  const service = new SimulatedService(compile(found), settings, MemoryStore);
  const needs = new NeededBursts(service.clock, settings);
  // From here on a caller's peak is the burst that it needs.
  for (const { callers } of found) callers.clear();
  const onNeed = (take: Take, burst: number) => {
    const { domain, descriptors } = service.call.request;
    const descriptor = descriptors[take.descriptor];
    if (descriptor !== undefined)
      shapes.of(domain, descriptor)?.callers.raise(callerName(descriptor, holdNames), burst);
  };
  await decideAll(options, service, ({ group }) => needs.settle(group, onNeed));
  await needs.close();
  for (const shape of found) {
    const peak = Math.ceil(shape.callers.peakOf(share) * headroom);
    const perSecond = Math.ceil(shape.perMinute / 60);
    shape.burst = Math.min(Math.max(perSecond, peak, shape.use?.hold?.max ?? 0), AMOUNT_MAX);
  }
}

/** Has the service decide all calls; `look` gets each one that it would not reject. */
async function decideAll(
  { openCalls }: SuggestOptions,
  service: SimulatedService<MemoryStore>,
  look: (call: LimitCall, nowUs: number) => void,
): Promise<void> {
  let nowUs = 0;
  for await (const batch of openCalls()) {
    for (const { atUs, message } of batch) {
      nowUs = Math.max(nowUs, atUs);
      if (service.decide(message, nowUs) === undefined) look(service.call, nowUs);
    }
  }
  await service.close();
}
