// Calls of a recording that report at their end: what they used. Ids connect a call's begin and end.

import type { Descriptor, LimitRequest } from "../../../engine/domain/request.ts";
import { parseWeight } from "../../../engine/rules/cost.ts";
import { callerName, type HoldNames, hitsOf } from "./shapes.ts";

/** Calls remembered until their end and for a while after, some 200 bytes each. The oldest are dropped beyond that. */
const CALLS_MAX = 300_000;

/** What a descriptor means for its call. */
export interface HeldCall {
  /** `once`: a whole call without an id, whose hits are what it used. */
  readonly part: "begin" | "end" | "once";
  /** What the call used; undefined if it does not say, or has only begun. */
  readonly used: number | undefined;
  /** The call's own estimate of its cost; undefined if it gave none. */
  readonly stated: number | undefined;
  /** How long the call took; undefined if its begin is not known. */
  readonly tookUs: number | undefined;
}

interface Begun {
  readonly atUs: number;
  readonly stated: number | undefined;
  hasEnded: boolean;
}

/** Reads the descriptors of a recording in the order of their times. */
export class HeldCalls {
  readonly #names: HoldNames;
  readonly #calls = new Map<string, Begun>();

  constructor(names: HoldNames) {
    this.#names = names;
  }

  /** What the descriptor means; undefined for a peek, and for a repetition. */
  read(request: LimitRequest, descriptor: Descriptor, atUs: number): HeldCall | undefined {
    const { id, estimate, settle } = this.#names;
    const stated = statedBy(descriptor.value(estimate));
    const name = descriptor.value(id);
    const key = `${request.domain}\0${callerName(descriptor, this.#names)}\0${name ?? ""}`;
    if (descriptor.value(settle) !== undefined) return this.#end(key, usedBy(request, descriptor), stated, atUs);
    const hits = hitsOf(request, descriptor);
    if (hits === 0) return undefined;
    if (name === undefined) return { part: "once", used: hits, stated, tookUs: undefined };
    if (this.#calls.has(key)) return undefined;
    this.#remember(key, { atUs, stated, hasEnded: false });
    return { part: "begin", used: undefined, stated, tookUs: undefined };
  }

  #end(key: string, used: number | undefined, stated: number | undefined, atUs: number): HeldCall | undefined {
    const begun = this.#calls.get(key);
    if (begun?.hasEnded === true) return undefined;
    if (begun === undefined) {
      this.#remember(key, { atUs, stated, hasEnded: true });
      return { part: "end", used, stated, tookUs: undefined };
    }
    begun.hasEnded = true;
    return { part: "end", used, stated: begun.stated, tookUs: atUs - begun.atUs };
  }

  #remember(key: string, call: Begun): void {
    this.#calls.set(key, call);
    if (this.#calls.size <= CALLS_MAX) return;
    const [oldest] = this.#calls.keys();
    this.#calls.delete(oldest as string);
  }
}

function statedBy(text: string | undefined): number | undefined {
  const stated = parseWeight(text ?? "", Number.MAX_SAFE_INTEGER);
  return stated === 0 ? undefined : stated;
}

function usedBy(request: LimitRequest, { hasHits, hits }: Descriptor): number | undefined {
  if (hasHits) return hits;
  return request.hitsAddend > 0 ? request.hitsAddend : undefined;
}
