// Single decisions, as lines that `headgate simulate` reads: refusals, or all. Sampled, and bounded by a rate per limit, so that
// an attack writes no more than a quiet day.

import type { Clock } from "../core/clock.ts";
import { base64Unless, type Descriptor, HoldAsk, textOf } from "../core/request.ts";
import { readTraceparent, type SpanIds } from "../core/trace-context.ts";
import { isoTime, MICROS_PER_SECOND } from "../core/units.ts";
import type { LimitCall } from "../limiter/call.ts";
import { shownValues } from "../limiter/hidden-values.ts";
import { waitUsOf } from "../limiter/retry-after.ts";

/** Longer lines are left out: a call may have 256 descriptors of 64 KiB each. */
const LINE_CHARS_MAX = 65_536;

export interface DecisionLogOptions {
  readonly kind: "refusals" | "all";
  /** Share of the decisions that is written, 0 to 1. */
  readonly share: number;
  /** Lines per second and limit; as many may come at once. */
  readonly linesPerSecond: number;
  readonly clock: Clock;
  /** Takes a line without its line feed; false if there is no room for it. */
  readonly write: (line: string, fields: DecisionLine) => boolean;
  /** 0 to 1, as evenly spread as Math.random. */
  readonly random?: () => number;
}

/** A line. The first four fields make up the request, as the body of /json has it. */
interface DecisionLine {
  readonly at: string;
  readonly domain: string;
  readonly descriptors: readonly object[];
  readonly hits_addend?: number;
  readonly code: "OK" | "OVER_LIMIT";
  /** The limit that governs the answer; absent if none had a say. */
  readonly limit?: string;
  readonly cost?: number;
  readonly remaining?: number;
  readonly wait_seconds?: number;
  /** The caller's trace, or that of the call's own span; absent without either. */
  readonly trace_id?: string;
  /** The span of this call, if it is recorded. */
  readonly span_id?: string;
  /** Decisions of this limit that the rate or the disk left out since its last line. */
  readonly left_out?: number;
}

/** Whose trace a line names: the caller's, and the span of the call in it if that is recorded. */
interface LineTrace {
  readonly traceId: string | undefined;
  readonly spanId?: string;
}

/** What is left of the rate of one limit. */
interface Allowance {
  lines: number;
  atUs: number;
  leftOut: number;
}

/** Writes decisions. Called on the decision path for calls that qualify; costs nothing for others but a comparison. */
export class DecisionLog {
  readonly #options: DecisionLogOptions;
  readonly #random: () => number;
  readonly #allowances = new Map<string, Allowance>();
  /** Lines that were written, and decisions that were left out by the rate or for lack of room; samples left aside are in neither. */
  written = 0;
  leftOut = 0;

  constructor(options: DecisionLogOptions) {
    this.#options = options;
    this.#random = options.random ?? Math.random;
  }

  /** Hears of a decided call, with the caller's `traceparent`, if it sent one, and the span of the call, if it has one. */
  decided(call: LimitCall, traceparent: string | undefined, span?: SpanIds): void {
    const { kind, share } = this.#options;
    if (kind === "refusals" && !call.decision.overLimit) return;
    if (share < 1 && this.#random() >= share) return;
    // Limits of a rule set are bounded in number; those that callers bring along share one id per domain.
    const allowance = this.#allowanceOf(call.governing?.limit.id ?? "");
    if (!this.#spend(allowance)) {
      allowance.leftOut++;
      this.leftOut++;
      return;
    }
    const fields = decisionLine(call, span ?? { traceId: readTraceparent(traceparent)?.traceId }, allowance.leftOut);
    const line = JSON.stringify(fields);
    if (line.length > LINE_CHARS_MAX || !this.#options.write(line, fields)) {
      allowance.leftOut++;
      this.leftOut++;
      return;
    }
    allowance.leftOut = 0;
    this.written++;
  }

  #allowanceOf(id: string): Allowance {
    let allowance = this.#allowances.get(id);
    if (allowance === undefined) {
      allowance = { lines: this.#options.linesPerSecond, atUs: this.#options.clock.nowUs(), leftOut: 0 };
      this.#allowances.set(id, allowance);
    }
    return allowance;
  }

  #spend(allowance: Allowance): boolean {
    const { linesPerSecond, clock } = this.#options;
    const nowUs = clock.nowUs();
    const returned = ((nowUs - allowance.atUs) * linesPerSecond) / MICROS_PER_SECOND;
    allowance.lines = Math.min(linesPerSecond, allowance.lines + Math.max(0, returned));
    allowance.atUs = nowUs;
    if (allowance.lines < 1) return false;
    allowance.lines--;
    return true;
  }
}

function decisionLine(call: LimitCall, { traceId, spanId }: LineTrace, leftOut: number): DecisionLine {
  const { request, decision, governing } = call;
  return {
    // A date only writes down what the process's clock says, and it has milliseconds.
    at: `${isoTime(call.startedUs).slice(0, -1)}${String(call.startedUs % 1_000).padStart(3, "0")}Z`,
    domain: textOf(request.domain),
    descriptors: request.descriptors.slice(0, request.descriptorCount).map((_, i) => descriptorOf(call, i)),
    ...(request.hitsAddend > 1 ? { hits_addend: request.hitsAddend } : {}),
    code: decision.overLimit ? "OVER_LIMIT" : "OK",
    ...(governing === undefined
      ? {}
      : { limit: textOf(governing.limit.id), cost: governing.cost, remaining: governing.remaining }),
    ...(governing !== undefined && decision.overLimit ? { wait_seconds: waitUsOf(governing) / MICROS_PER_SECOND } : {}),
    ...(traceId === undefined ? {} : { trace_id: traceId }),
    ...(spanId === undefined ? {} : { span_id: spanId }),
    ...(leftOut === 0 ? {} : { left_out: leftOut }),
  };
}

function descriptorOf(call: LimitCall, index: number): object {
  const descriptor = call.request.descriptors[index] as Descriptor;
  const entries = shownValues(call, index).map((value, i) => entryOf(descriptor.keys[i] as string, value));
  if (call.request.holdAsk !== HoldAsk.none) return heldDescriptor(call, entries);
  return {
    entries,
    ...(descriptor.hasHits ? { hits_addend: descriptor.hits } : {}),
    ...(descriptor.isRefund ? { is_negative_hits: true } : {}),
    ...(descriptor.hasOverride
      ? { limit: { requests_per_unit: descriptor.overrideAmount, unit: descriptor.overrideUnit } }
      : {}),
  };
}

interface WrittenEntry {
  readonly key: string;
}

function entryOf(key: string, value: string): WrittenEntry {
  const base64 = base64Unless(value);
  const text = base64 === undefined ? { value: textOf(value) } : { value_base64: base64 };
  return { key: textOf(key), ...text };
}

// What fields of the request say of a hold is written as the entries that say the same, so that a simulation asks the same.
function heldDescriptor({ request, rules }: LimitCall, entries: readonly WrittenEntry[]): object {
  const { holdAsk, holdId, holdAmount } = request;
  const hold = rules[0]?.hold;
  if (hold === undefined) return { entries };
  const { idEntry, settleEntry, settleValue = "", estimate } = hold;
  const names = [idEntry, settleEntry, estimate?.entry].map((name) => name !== undefined && textOf(name));
  const written = [...entries.filter(({ key }) => !names.includes(key)), entryOf(idEntry, holdId)];
  if (holdAsk === HoldAsk.settle)
    return { entries: [...written, entryOf(settleEntry, settleValue)], hits_addend: holdAmount };
  if (estimate?.entry === undefined) return { entries: written, hits_addend: Math.max(1, holdAmount) };
  return { entries: [...written, entryOf(estimate.entry, String(holdAmount))] };
}
