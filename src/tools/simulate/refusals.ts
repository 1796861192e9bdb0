// Single refusals in full: what each limit of the call held before and after (`simulate --explain N`).

import { isoTime } from "../../engine/base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import { isOver, type Take } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { waitUsOf } from "../../engine/limiter/decision.ts";
import { type CallText, callerOf } from "./call-text.ts";

/** One limit of a refused call. */
export interface ToldLimit {
  readonly limit: string;
  readonly caller: string;
  readonly cost: number;
  readonly had_room: boolean;
  /** What would have passed before and after the call; a refused call takes nothing. */
  readonly before: number;
  readonly after: number;
  /** Until the same cost could pass; absent if it never can, or has room. */
  readonly wait_seconds?: number;
  /** Until the bucket is as new. */
  readonly full_in_seconds: number;
}

/** A refused call. */
export interface ShownRefusal {
  /** Number of the call in the recording, from 1. */
  readonly call: number;
  readonly at: string;
  readonly domain: string;
  readonly descriptors: readonly string[];
  /** The limit that governs the answer. */
  readonly limit: string;
  readonly limits: readonly ToldLimit[];
}

/** Keeps the first refusal of each caller of each limit, until it has as many as wanted. */
export class Refusals {
  readonly told: ShownRefusal[] = [];
  readonly #max: number;
  readonly #text: CallText;
  readonly #seen = new Set<string>();

  constructor(max: number, text: CallText) {
    this.#max = max;
    this.#text = text;
  }

  /** Looks at a refused call. */
  look(call: LimitCall, number: number, atUs: number): void {
    const { governing } = call;
    if (this.told.length >= this.#max || governing === undefined) return;
    const id = `${governing.limit.names.id} ${callerOf(governing)}`;
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    const takes = call.group.takes.slice(0, call.group.size);
    this.told.push({
      call: number,
      at: isoTime(atUs),
      domain: textOf(call.request.domain),
      descriptors: call.request.descriptors
        .slice(0, call.request.descriptorCount)
        .map((_, i) => this.#text.descriptorOf(call, i)),
      limit: textOf(governing.limit.names.id),
      limits: takes.map((take) => this.#tell(call, take)),
    });
  }

  #tell(call: LimitCall, take: Take): ToldLimit {
    const over = isOver(take);
    const waitUs = waitUsOf(take);
    return {
      limit: textOf(take.limit.names.id),
      caller: this.#text.callerOf(call, take),
      cost: take.cost,
      had_room: !over,
      before: take.remaining + (take.paid ? take.cost : 0),
      after: take.remaining,
      ...(over && waitUs > 0 ? { wait_seconds: waitUs / 1_000_000 } : {}),
      full_in_seconds: take.resetUs / 1_000_000,
    };
  }
}
