// What a simulation counts of one limit: its calls, those that it refused, whose, and for how long.

import type { Limit } from "../../engine/domain/limit.ts";
import { canRefuseCall, isOver, type Take } from "../../engine/domain/take.ts";
import { callerOf } from "./call-text.ts";

/** Callers counted separately over all limits, some 60 bytes each. With more, reports give lower bounds. */
const CALLERS_MAX = 2_000_000;
/** Refused callers remembered over all limits, some 300 bytes each. Others are counted, but never among the worst. */
const REFUSED_CALLERS_MAX = 300_000;

/** What is left of these two bounds; all limits of a simulation share it. */
export const callerRoom = () => ({ callers: CALLERS_MAX, refusedCallers: REFUSED_CALLERS_MAX });

/** A caller that a limit refused at least once. */
interface RefusedCaller {
  readonly label: string;
  readonly firstUs: number;
  refused: number;
  /** When the refusals since the last admitted call began; -1 if the last call was admitted. */
  sinceUs: number;
  /** When the last of these refused calls would have passed. */
  untilUs: number;
  refusedSince: number;
}

/** What became of a limit's holds, as fields of the report. Hits are in the limit's unit. */
export interface HoldCounts {
  opened: number;
  /** Settled in time, whether more, less or just as much was used. */
  settled: number;
  settled_below: number;
  unused_hits: number;
  settled_above: number;
  exceeded_hits: number;
  exceeded_hits_max: number;
  /** Ended by themselves. */
  expired: number;
  /** Settlements that found no hold, charged as reported; and repeated settlements. */
  late_settlements: number;
  late_hits: number;
  repeated_settlements: number;
  /** Settlements left out because these rules refuse their calls. */
  settlements_of_refused: number;
}

/** Counts of one limit. */
export class LimitTally {
  readonly limit: Limit;
  /** Calls (descriptors of calls) that asked the limit whether they may pass, without reports after the fact. */
  asked = 0;
  refused = 0;
  /** Reports of post-paid hits, refunds and settlements. */
  reported = 0;
  firstRefusal: { readonly atUs: number; readonly caller: string } | null = null;
  /** The smallest burst (of windows: amount) under which every call would have had room. */
  needed = 0;
  callers = 0;
  refusedCallers = 0;
  /** False: the numbers of callers are lower bounds. */
  countsAllCallers = true;
  readonly #room: ReturnType<typeof callerRoom>;
  readonly #seen = new Set<number>();
  readonly #refusedBy = new Map<number, RefusedCaller>();
  #longest: RefusedCaller | null = null;

  constructor(limit: Limit, room: ReturnType<typeof callerRoom>) {
    this.limit = limit;
    this.#room = room;
  }

  /** Counts a settled take. `labelOf` names its caller, and is called only for callers that are remembered. */
  count(take: Take, atUs: number, labelOf: (take: Take) => string): void {
    const caller = callerOf(take);
    this.#see(caller);
    if (!canRefuseCall(take)) {
      this.reported++;
      return;
    }
    this.asked++;
    if (isOver(take)) this.#refuse(take, caller, atUs, labelOf);
    else if (this.#refusedBy.size > 0) this.#admit(caller);
  }

  /**
   * A caller at the end of the longest stretch of refusals with no admitted call between them, even if the recording's
   * end cuts it off.
   */
  longest(): RefusedCaller | null {
    for (const caller of this.#refusedBy.values()) this.#endStretch(caller);
    return this.#longest;
  }

  /** The callers refused most often, the worst first. */
  worst(count: number): readonly RefusedCaller[] {
    return [...this.#refusedBy.values()].sort((a, b) => b.refused - a.refused || a.firstUs - b.firstUs).slice(0, count);
  }

  #see(caller: number): void {
    if (this.#seen.has(caller)) return;
    if (this.#room.callers === 0) {
      this.countsAllCallers = false;
      return;
    }
    this.#room.callers--;
    this.#seen.add(caller);
    this.callers++;
  }

  #refuse(take: Take, id: number, atUs: number, labelOf: (take: Take) => string): void {
    this.refused++;
    let caller = this.#refusedBy.get(id);
    if (caller === undefined) {
      if (this.#room.refusedCallers === 0) {
        this.countsAllCallers = false;
        return;
      }
      this.#room.refusedCallers--;
      this.refusedCallers++;
      caller = { label: labelOf(take), firstUs: atUs, refused: 0, sinceUs: -1, untilUs: 0, refusedSince: 0 };
      this.#refusedBy.set(id, caller);
      this.firstRefusal ??= { atUs, caller: caller.label };
    }
    caller.refused++;
    if (caller.sinceUs < 0) {
      caller.sinceUs = atUs;
      caller.refusedSince = 0;
    }
    caller.refusedSince++;
    caller.untilUs = atUs + take.waitUs;
  }

  #admit(id: number): void {
    const caller = this.#refusedBy.get(id);
    if (caller === undefined || caller.sinceUs < 0) return;
    this.#endStretch(caller);
    caller.sinceUs = -1;
  }

  #endStretch(caller: RefusedCaller): void {
    if (caller.sinceUs < 0) return;
    const longestUs = this.#longest === null ? -1 : this.#longest.untilUs - this.#longest.sinceUs;
    if (caller.untilUs - caller.sinceUs > longestUs) this.#longest = { ...caller };
  }
}
