// The first reading of a recording for suggestions: which kinds of descriptors there are, and how many came per minute.

import { RequestError } from "../../../engine/base/errors.ts";
import { type Descriptor, LimitRequest } from "../../../engine/domain/request.ts";
import { fillRequest, type RecordedQuestion } from "../question.ts";
import type { SampledCaller } from "./caller-sample.ts";
import { callerName, hitsOf } from "./callers.ts";
import { type HeldCall, HeldCalls } from "./held-calls.ts";
import type { HoldNames } from "./hold-names.ts";
import { HoldUse } from "./hold-use.ts";
import type { Shapes } from "./shapes.ts";

/** The interval whose calls make the rate. */
const STRETCH_US = 60_000_000;

/** A recording. */
export interface RecordedCalls {
  /** Reads the calls, each time from the beginning. */
  readonly openCalls: () => AsyncIterable<readonly RecordedQuestion[]>;
  /** Keys of entries about holds; undefined: no holds are suggested. */
  readonly holdNames?: HoldNames | undefined;
}

/** Reads the calls into `shapes`: how many each kind has, the busiest minute of each caller, and what held calls have used. */
export async function measureRates({ openCalls, holdNames }: RecordedCalls, shapes: Shapes): Promise<void> {
  const request = new LimitRequest();
  const held = holdNames === undefined ? undefined : new HeldCalls(holdNames);
  let nowUs = 0;
  // `hits` count for the rate; `heldCall` is what the descriptor says of a call that holds.
  const learn = (descriptor: Descriptor, hits: number, heldCall: HeldCall | undefined) => {
    const shape = shapes.of(request.domain, descriptor);
    if (shape === undefined) return;
    if (heldCall !== undefined) {
      shape.use ??= new HoldUse();
      shape.use.learn(heldCall);
    }
    if (heldCall?.tookUs === undefined) shape.calls++;
    const caller = shape.callers.of(callerName(descriptor, holdNames));
    if (caller !== undefined && hits > 0) countHits(caller, hits, Math.floor(nowUs / STRETCH_US));
  };
  const readDescriptor = (descriptor: Descriptor) => {
    if (held === undefined) {
      const hits = hitsOf(request, descriptor);
      if (hits > 0) learn(descriptor, hits, undefined);
      return;
    }
    const heldCall = held.read(request, descriptor, nowUs);
    if (heldCall !== undefined) learn(descriptor, paidBy(heldCall), heldCall);
  };
  for await (const batch of openCalls()) {
    for (const { atUs, question } of batch) {
      nowUs = Math.max(nowUs, atUs);
      request.reset();
      if (!isUnderstood(() => fillRequest(question, request))) continue;
      for (let i = 0; i < request.descriptorCount; i++) readDescriptor(request.descriptors[i] as Descriptor);
    }
  }
}

/** Hits that count for the rate. Calls with holds count when they end: only then it is known what they used. */
function paidBy(call: HeldCall): number {
  return call.part === "begin" ? 0 : (call.used ?? call.stated ?? 0);
}

function countHits(caller: SampledCaller, hits: number, stretch: number): void {
  if (caller.stretch !== stretch) {
    caller.stretch = stretch;
    caller.hits = 0;
  }
  caller.hits += hits;
  caller.peak = Math.max(caller.peak, caller.hits);
}

/** False for a request that the service answers with an error. */
export function isUnderstood(read: () => void): boolean {
  try {
    read();
    return true;
  } catch (error) {
    if (error instanceof RequestError) return false;
    throw error;
  }
}
