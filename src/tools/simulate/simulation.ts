// Sends recorded calls through the real limiter in virtual time and counts the outcomes. report.ts makes the report.

import { ConfigError } from "../../base/errors.ts";
import { getOrInsert } from "../../base/get-or-insert.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { Mode, type Take } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { RecordedCall } from "../mirror/read-recording.ts";
import { callerText } from "./call-text.ts";
import { Changes } from "./changes.ts";
import { HoldTally } from "./hold-tally.ts";
import { callerRoom, LimitTally } from "./limit-tally.ts";
import { NeededBursts } from "./needed-bursts.ts";
import { Refusals } from "./refusals.ts";
import { RefusedHolds } from "./refused-holds.ts";
import { LimitsTally, type PlacedLimit } from "./simulated-limits.ts";
import { type DecidingSettings, SimulatedService } from "./simulated-service.ts";
import { UnmatchedShapes } from "./unmatched-shapes.ts";

/** A silence from this length on is reported. */
const GAP_US_MIN = 60_000_000;
/** Limits at run time that are named of those that were refused. */
const REFUSED_SHOWN_MAX = 20;

export interface SimulationOptions {
  readonly ruleSet: RuleSet;
  /** Rules to compare with; by default the same rules without `limits`, if there are any. */
  readonly against?: RuleSet | undefined;
  readonly settings: DecidingSettings;
  /** Limits at run time, in force from the first call on, also under the rules of `against`. */
  readonly limits?: readonly PlacedLimit[] | undefined;
  /** How many refusals to report in full. */
  readonly explainMax?: number;
  /** Hides all values of callers, not only those that rules hide. */
  readonly hashesAll?: boolean;
  /** Gets every decided call; for tests. The next call reuses the object. */
  readonly onDecided?: (call: LimitCall) => void;
}

/** Decides calls in their order and counts. */
export class Simulation {
  readonly service: SimulatedService<RefusedHolds>;
  /** With the rules to compare with. */
  readonly old: SimulatedService<RefusedHolds> | undefined;
  readonly timeline = new Timeline();
  readonly unmatched = new UnmatchedShapes();
  readonly changes = new Changes();
  readonly refusals: Refusals;
  readonly limitsMet: LimitsTally;
  allowed = 0;
  refused = 0;
  /** Calls that only a shadow rule or SHADOW_MODE let pass. */
  shadowed = 0;
  /** Calls with a limit that could not decide: sliding logs are out of memory. */
  undecided = 0;
  readonly #options: SimulationOptions;
  readonly #needs: NeededBursts;
  readonly #room = callerRoom();
  readonly #tallies = new Map<Limit, LimitTally>();
  /** By the limit's name: those of rules, which limits at run time share, and those of overrides. */
  readonly #talliesByName = new Map<string, LimitTally>();
  readonly #holds = new Map<LimitTally, HoldTally>();
  readonly #labelOf: (take: Take) => string;
  readonly #onNeed: (take: Take, needed: number) => void;

  constructor(options: SimulationOptions) {
    const { ruleSet, limits, against = limits && ruleSet, settings, explainMax = 0, hashesAll = false } = options;
    this.#options = options;
    const oldLimits = options.against && limits;
    this.service = new SimulatedService(ruleSet, settings, RefusedHolds, limits !== undefined);
    this.old = against && new SimulatedService(against, settings, RefusedHolds, oldLimits !== undefined);
    this.#needs = new NeededBursts(this.service.clock, settings);
    this.refusals = new Refusals(explainMax, hashesAll);
    this.limitsMet = new LimitsTally(hashesAll);
    for (const domain of ruleSet.domains.values()) {
      for (const limit of domain.limits) {
        const tally = new LimitTally(limit, this.#room);
        this.#tallies.set(limit, tally);
        this.#talliesByName.set(limit.names.id, tally);
      }
    }
    this.#labelOf = (take) => callerText(this.service.call, take, hashesAll);
    this.#onNeed = (take, needed) => {
      const tally = this.#tallyOf(take.limit);
      // What a caller with other amounts needs says nothing of the rule's.
      const isOfRuntime = tally.limit !== take.limit && this.#tallies.has(tally.limit);
      if (needed > tally.needed && !isOfRuntime) tally.needed = needed;
    };
  }

  /** Counts of all limits, in the order of the files; limits that calls bring along come last. */
  tallies(): readonly LimitTally[] {
    return [...new Set([...this.#tallies.values(), ...this.#talliesByName.values()])];
  }

  /** What became of the limit's holds until `atUs`; undefined if its payments are final. */
  holdsOf(tally: LimitTally, atUs: number) {
    return tally.limit.holdSeconds > 0 ? (this.#holds.get(tally) ?? new HoldTally()).report(atUs) : undefined;
  }

  /**
   * Decides a call, later than the one before or at the same time, and counts it. With the first one throws ConfigError
   * if limits at run time can't be read or the rules refuse them.
   */
  feed({ atUs, message }: RecordedCall): void {
    const nowUs = this.timeline.place(atUs);
    if (this.timeline.calls === 1) this.#setLimits(nowUs);
    const { service, old } = this;
    const { call } = service;
    const isDecided = service.decide(message, nowUs) === undefined;
    // The old rules are asked in any case: what they let pass counts in their buckets.
    const isDecidedByOld = old !== undefined && old.decide(message, nowUs) === undefined;
    if (!isDecided) return;
    this.#count(call, nowUs);
    this.#needs.settle(call.group, this.#onNeed);
    const oldCall = isDecidedByOld ? old.call : undefined;
    if (oldCall !== undefined) this.changes.compare(call, oldCall);
    this.refusals.look(call, oldCall, this.timeline.calls, nowUs);
    this.limitsMet.count(call, oldCall);
    this.#options.onDecided?.(call);
  }

  async close(): Promise<void> {
    await Promise.all([this.service.close(), this.old?.close(), this.#needs.close()]);
  }

  #setLimits(nowUs: number): void {
    const { limits = [] } = this.#options;
    const refused = limits.flatMap(({ at, asked }) => {
      const error = this.service.setLimit(asked, nowUs);
      // Of those that only the old rules refuse, a service that has them says that they do nothing.
      this.old?.setLimit(asked, nowUs);
      return error === undefined ? [] : [`${at}: ${error.message}`];
    });
    if (refused.length === 0) return;
    const more = refused.length - REFUSED_SHOWN_MAX;
    const lines = [...refused.slice(0, REFUSED_SHOWN_MAX), ...(more > 0 ? [`and ${more} more`] : [])];
    throw new ConfigError("CONFIG_SETTINGS", `limits at run time can't be used\n${lines.join("\n")}`);
  }

  #count(call: LimitCall, nowUs: number): void {
    if (call.failure !== undefined || call.policy !== undefined) this.undecided++;
    if (call.decision.overLimit) this.refused++;
    else if (call.failure === undefined) this.allowed++;
    if (call.wasShadowed) this.shadowed++;
    this.unmatched.count(call);
    for (let i = 0; i < call.group.size; i++) {
      const take = call.group.takes[i] as Take;
      // Of a limit at run time, which counts it itself; or a guarantee, which refuses nobody.
      if (take.mode >= Mode.blocked) continue;
      const tally = this.#tallyOf(take.limit);
      tally.count(take, nowUs, this.#labelOf);
      if (take.limit.holdSeconds > 0) {
        const isOfRefused = this.service.store.leftOut.has(take);
        getOrInsert(this.#holds, tally, () => new HoldTally()).count(take, nowUs, isOfRefused);
      }
    }
  }

  // Limits of overrides and at run time are made per amount and unit, and share an id per rule.
  #tallyOf(limit: Limit): LimitTally {
    return (
      this.#tallies.get(limit) ??
      getOrInsert(this.#talliesByName, limit.names.id, () => new LimitTally(limit, this.#room))
    );
  }
}

/**
 * Places calls in time, which never steps back, as in a process. Notes long silences: perhaps no call came, perhaps
 * none was recorded.
 */
export class Timeline {
  firstUs = 0;
  lastUs = 0;
  calls = 0;
  /** Calls dated before an earlier line's call; they are decided at the time of that call. */
  late = 0;
  /** How far behind the worst of these calls was. */
  lateUsMax = 0;
  /** Silences of a minute or more. */
  gaps = 0;
  longestGapUs = 0;
  longestGapFromUs = 0;

  /** The time at which the call is decided. */
  place(atUs: number): number {
    if (this.calls++ === 0) {
      this.firstUs = atUs;
      this.lastUs = atUs;
      return atUs;
    }
    if (atUs < this.lastUs) {
      this.late++;
      this.lateUsMax = Math.max(this.lateUsMax, this.lastUs - atUs);
      return this.lastUs;
    }
    const silenceUs = atUs - this.lastUs;
    if (silenceUs >= GAP_US_MIN) this.gaps++;
    if (silenceUs > this.longestGapUs) {
      this.longestGapUs = silenceUs;
      this.longestGapFromUs = this.lastUs;
    }
    this.lastUs = atUs;
    return atUs;
  }
}
