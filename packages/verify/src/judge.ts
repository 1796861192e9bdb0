// Judges the calls of one caller against one limit. When a service decided is known only to lie between sending and
// receiving, so two meters bound what was used: a grant is wrong if even the least use had no room for it, a refusal if
// even the most use had room.

import type { Call, Told } from "./call.ts";
import { type Algorithm, type Limit, quotaOf } from "./limit.ts";
import { createMeter, type Meter } from "./meters.ts";

/** A call as one of its limits meets it. */
export interface Use {
  readonly call: Call;
  /** Hits that it pays of this limit, or gives back. */
  readonly cost: number;
  /** What the answer told of this limit. */
  readonly told: Told | undefined;
}

/** How the limit is read. */
export interface Reading {
  readonly limit: Limit;
  readonly algorithm: Algorithm;
  /** Windows begin so many milliseconds after multiples of their length, or up to `widthMs` later. */
  readonly phaseMs: number;
  readonly widthMs: number;
  /** Whether nobody used the limit before. */
  readonly isFresh: boolean;
}

/** A number in an answer, and the bounds of the true one. */
export interface Statement {
  readonly call: Call;
  readonly told: number;
  readonly least: number;
  readonly most: number;
}

/** A service's clock may tell whole milliseconds only. */
const CLOCK_STEP_MS = 1;
/** A call may still be decided this long after it was given up. */
const LOST_MS = 1_000;
const ROUNDING = 1e-6;

/** Judges calls of one caller, in any order. */
export function judge(uses: readonly Use[], reading: Reading): Run {
  const events: Event[] = uses.flatMap(({ call }, index) => [
    { at: call.sentMs - CLOCK_STEP_MS - reading.widthMs, index, isEnd: false },
    { at: endOf(call), index, isEnd: true },
  ]);
  events.sort((a, b) => a.at - b.at || Number(a.isEnd) - Number(b.isEnd));
  const run = new Run(uses, reading, events[0]?.at ?? 0);
  for (const event of events) run.take(event);
  // Concurrent calls may be refused because of each other, but not all of them at a limit that nobody used.
  const isSpent = ({ call: { answer }, cost }: Use) =>
    answer.outcome !== "refused" || cost > quotaOf(reading.limit) - reading.limit.tolerance;
  if (reading.isFresh && run.roomyRefusals.length === 0 && !uses.some(isSpent))
    run.roomyRefusals.push(...uses.map(({ call }) => call));
  return run;
}

function endOf({ receivedMs, answer }: Call): number {
  return receivedMs + CLOCK_STEP_MS + (answer.outcome === "lost" ? LOST_MS : 0);
}

interface Event {
  readonly at: number;
  readonly index: number;
  readonly isEnd: boolean;
}

/** What was known when a call was sent. */
type Before = ReturnType<Run["now"]>;

class Run {
  /** More was granted than the limit allows. */
  readonly excesses: { readonly call: Call; readonly hits: number }[] = [];
  /** Calls that were refused although this limit had room. */
  readonly roomyRefusals: Call[] = [];
  readonly remaining: Statement[] = [];
  /** Waits of descriptors that refused, or may have, in ms: until the call could pass. */
  readonly waits: Statement[] = [];
  /** The same waits, read as the time until all is free. */
  readonly waitsUntilFull: Statement[] = [];
  /** Waits of descriptors that had room in a refused call: until all is free. */
  readonly waitsOfRoomy: Statement[] = [];
  /** Calls that this limit is known to have refused, alone or with others. */
  refused = 0;
  readonly #uses: readonly Use[];
  readonly #before: Before[] = [];
  readonly #least: Meter;
  readonly #most: Meter;
  readonly #quota: number;
  readonly #amount: number;
  readonly #tolerance: number;
  readonly #countsRefused: boolean;
  /** From the first fault on, numbers in answers describe another count than the one kept here. */
  #isBroken = false;
  /** Calls under way and calls so far. */
  #openCalls = 0;
  #calls = 0;
  /** Hits under way that may be paid already, or not yet be given back; and all that were sent. */
  #open = 0;
  #sent = 0;
  /** Hits given back so far. */
  #givenBack = 0;
  /** Hits under way that the least meter has, and may not be paid yet. */
  #leastOpen = 0;

  constructor(uses: readonly Use[], reading: Reading, startMs: number) {
    const { limit, algorithm, phaseMs, isFresh } = reading;
    this.#uses = uses;
    this.#least = createMeter(limit, algorithm, "least", phaseMs);
    this.#most = createMeter(limit, algorithm, "most", phaseMs);
    this.#quota = quotaOf(limit);
    this.#amount = limit.amount;
    this.#tolerance = limit.tolerance;
    this.#countsRefused = algorithm === "counter";
    this.#least.advance(startMs);
    this.#most.advance(startMs);
    if (!isFresh) this.#most.fill(this.#quota);
  }

  take({ at, index, isEnd }: Event): void {
    const use = this.#uses[index];
    if (use === undefined) return;
    this.#least.advance(at);
    this.#most.advance(at);
    if (!isEnd) this.#send(use, at, index);
    else this.#receive(use, at, this.#before[index] as Before);
  }

  now({ cost }: Use, at: number) {
    return {
      at,
      mostUsed: Math.min(this.#quota, this.#most.used + this.#open),
      sent: this.#sent,
      calls: this.#calls,
      open: this.#openCalls,
      givenBack: this.#givenBack,
      wait: this.#most.waitFor(this.#quota - cost),
      waitUntilFull: this.#most.waitFor(0),
    };
  }

  #send(use: Use, at: number, index: number): void {
    const { call, cost } = use;
    this.#before[index] = this.now(use, at);
    this.#openCalls++;
    this.#calls++;
    if (call.isRefund && this.#mayPay(call, at)) this.#most.giveBack(cost);
    if (this.#mayPay(call, at)) {
      this.#open += cost;
      this.#sent += cost;
    }
    const isCertain = this.#isCertain(call, at);
    if (isCertain) this.#least.pay(cost);
    if (isCertain || call.isRefund) this.#leastOpen += cost;
  }

  /** Whether the call is, between sending and receiving, in doubt for the most meter. */
  #mayPay(call: Call, sentAt: number): boolean {
    const { outcome } = call.answer;
    if (call.isRefund) return outcome !== "lost" && this.#least.isOneWindow(sentAt, endOf(call));
    return outcome !== "refused" || this.#countsRefused;
  }

  #isCertain(call: Call, sentAt: number): boolean {
    return call.answer.outcome === "granted" && !call.isRefund && this.#least.isOneWindow(sentAt, endOf(call));
  }

  #receive(use: Use, at: number, before: Before): void {
    const { call, cost } = use;
    const isAlone = before.open === 0 && this.#calls === before.calls + 1 && !this.#isBroken;
    const own = this.#mayPay(call, before.at) ? cost : 0;
    const mostUsed = Math.min(this.#quota, before.mostUsed + this.#sent - before.sent - own);
    this.#openCalls--;
    this.#open -= own;
    if (call.isRefund) {
      this.#leastOpen -= cost;
      this.#givenBack += cost;
      this.#least.giveBack(cost);
      return;
    }
    if (call.answer.outcome === "granted") {
      this.#checkGrant(use, before);
      if (isAlone) this.#noteRemaining(use, before);
    } else if (call.answer.outcome === "refused") {
      if (this.#hasRefused(use)) this.refused++;
      if (isAlone) this.#noteWaits(use, before);
      this.#checkRefusal(use, mostUsed, at, before);
    }
    if (own > 0) this.#most.pay(own);
    if (!this.#countsRefused) this.#most.atMost(this.#quota);
  }

  /** By the answer, or because this limit had no room even if the least was used. */
  #hasRefused({ call, cost, told }: Use): boolean {
    if (call.limits === 1) return true;
    return told?.isOver ?? this.#least.used - this.#leastOpen + cost > this.#quota - this.#tolerance + ROUNDING;
  }

  #checkRefusal({ call, cost }: Use, mostUsed: number, at: number, before: Before): void {
    const isOnly = call.limits === 1;
    if (mostUsed + cost <= this.#quota - this.#tolerance) {
      this.roomyRefusals.push(call);
      if (isOnly) this.#isBroken = true;
    } else if (isOnly && this.#tolerance === 0 && this.#least.isOneWindow(before.at, at)) {
      // A refusal that is right tells how much is used. What came back since may have come after it.
      this.#least.refused(cost + this.#givenBack - before.givenBack, this.#quota, at - before.at);
    }
  }

  #checkGrant({ call, cost }: Use, { at }: Before): void {
    if (this.#isCertain(call, at)) this.#leastOpen -= cost;
    const hits = this.#least.used - this.#leastOpen - this.#quota - this.#tolerance;
    if (hits <= ROUNDING) return;
    this.excesses.push({ call, hits });
    this.#isBroken = true;
    this.#least.giveBack(hits);
  }

  /** Whether the answer's numbers are exact and of this limit, not of another one on the same entries. */
  #isAbout({ quota }: Told): boolean {
    return this.#tolerance === 0 && (quota === undefined || quota === this.#quota || quota === this.#amount);
  }

  #noteRemaining({ call, cost, told }: Use, { at, mostUsed }: Before): void {
    if (told?.remaining === undefined || !this.#isAbout(told) || !this.#isCertain(call, at)) return;
    const least = Math.floor(this.#quota - Math.min(this.#quota, mostUsed + cost) + ROUNDING);
    const most = Math.floor(this.#quota - this.#least.used + ROUNDING);
    this.remaining.push({ call, told: told.remaining, least, most });
  }

  #noteWaits({ call, cost, told }: Use, { wait, waitUntilFull }: Before): void {
    if (told?.resetMs === undefined || !this.#isAbout(told)) return;
    const statement = { call, told: told.resetMs };
    const untilFull = { ...statement, least: this.#least.waitFor(0), most: waitUntilFull };
    if (told.isOver === false) this.waitsOfRoomy.push(untilFull);
    else {
      this.waits.push({ ...statement, least: this.#least.waitFor(this.#quota - cost), most: wait });
      this.waitsUntilFull.push(untilFull);
    }
  }
}
