// Writes single decisions, refusals or all, as lines that `headgate simulate` reads. Bounded in rate per limit, so that
// an attack does not write more than an ordinary day.

import type { Clock } from "../../base/clock.ts";
import { getOrInsert } from "../../base/get-or-insert.ts";
import type { LogFields } from "../../base/log.ts";
import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import { base64Unless, type Descriptor, HoldAsk, textOf } from "../../engine/domain/request.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { shownBeside, shownValues } from "../../engine/limiter/shown-values.ts";
import type { DomainRules } from "../../engine/rules/rule-set.ts";
import { readTraceparent, type SpanIds } from "../../grpc/trace-context.ts";

/** Longer lines are left out: a call may have 256 descriptors of 64 KiB each. In UTF-16 units. */
const LINE_CHARS_MAX = 65_536;

interface DecisionLogOptions {
  readonly kind: "refusals" | "all";
  /** Lines per second for each limit, and the burst. */
  readonly linesPerSecond: number;
  readonly clock: Clock;
  /** Takes a line without its line feed; returns false if there is no room for it. */
  readonly write: (line: string, fields: LogFields) => boolean;
}

/** The rest of one limit's rate. */
interface Allowance {
  lines: number;
  atUs: number;
  leftOut: number;
}

/** Writes decisions. `decided` is on the decision path: a call that is not written costs a comparison. */
export class DecisionLog {
  readonly #options: DecisionLogOptions;
  readonly #allowances = new Map<string, Allowance>();
  /** Lines written, and decisions left out by the rate or by the disk. */
  written = 0;
  leftOut = 0;

  constructor(options: DecisionLogOptions) {
    this.#options = options;
  }

  /** Takes a decided call, with the caller's `traceparent`, if there is one, and the call's span, if it is recorded. */
  decided(call: LimitCall, traceparent: string | undefined, span?: SpanIds): void {
    if (this.#options.kind === "refusals" && !call.decision.overLimit) return;
    // The map is bounded: a rule set has few limits, and limits that callers send in requests share one id per domain.
    const allowance = this.#allowanceOf(call.governing?.limit.names.id ?? "");
    const isTaken =
      this.#spend(allowance) &&
      this.#write(decisionLine(call, span ?? { traceId: readTraceparent(traceparent)?.traceId }, allowance.leftOut));
    if (isTaken) {
      allowance.leftOut = 0;
      this.written++;
    } else {
      allowance.leftOut++;
      this.leftOut++;
    }
  }

  #write(fields: LogFields): boolean {
    const line = JSON.stringify(fields);
    return line.length <= LINE_CHARS_MAX && this.#options.write(line, fields);
  }

  #allowanceOf(id: string): Allowance {
    const { linesPerSecond: lines, clock } = this.#options;
    return getOrInsert(this.#allowances, id, () => ({ lines, atUs: clock.nowUs(), leftOut: 0 }));
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

/**
 * A line. `domain`, `descriptors` and `hits_addend` are the request in the form of a body of /json; `limit` and what
 * follows is of the limit that governs the answer, if there is one; the trace is the call's span's, or else the
 * caller's. `left_out` counts decisions of this limit since its last line that the rate left out, or a disk that is too
 * slow.
 */
function decisionLine(
  call: LimitCall,
  { traceId, spanId }: { readonly traceId: string | undefined; readonly spanId?: string },
  leftOut: number,
): LogFields {
  const { request, decision, governing } = call;
  return {
    // Date has milliseconds; the last three digits are added so that the line has the microseconds of the process's
    // clock.
    at: `${isoTime(call.startedUs).slice(0, -1)}${String(call.startedUs % 1_000).padStart(3, "0")}Z`,
    domain: textOf(request.domain),
    ...askedOf(call),
    code: decision.overLimit ? "OVER_LIMIT" : "OK",
    ...(call.missing === undefined ? {} : { missing: textOf(call.missing) }),
    ...(governing === undefined
      ? {}
      : { limit: textOf(governing.limit.names.id), cost: governing.cost, remaining: governing.remaining }),
    ...(governing !== undefined && decision.overLimit ? { wait_seconds: governing.waitUs / MICROS_PER_SECOND } : {}),
    ...(traceId === undefined ? {} : { trace_id: traceId }),
    ...(spanId === undefined ? {} : { span_id: spanId }),
    ...(leftOut === 0 ? {} : { left_out: leftOut }),
  };
}

function descriptorOf(call: LimitCall, index: number): object {
  const descriptor = call.request.descriptors[index] as Descriptor;
  return {
    entries: shownEntries(call, index),
    ...(descriptor.hasHits ? { hits_addend: descriptor.hits } : {}),
    ...(descriptor.isRefund ? { is_negative_hits: true } : {}),
    ...(descriptor.hasOverride ? { limit: overrideOf(descriptor) } : {}),
  };
}

function overrideOf({ overrideAmount, overrideUnit, overrideUnits, overrideAlgorithm }: Descriptor): object {
  const units = overrideUnits < 0 ? {} : { unit_multiplier: overrideUnits };
  const algorithm = overrideAlgorithm === "" ? {} : { algorithm: textOf(overrideAlgorithm) };
  return { requests_per_unit: overrideAmount, unit: overrideUnit, ...units, ...algorithm };
}

function shownEntries(call: LimitCall, index: number) {
  const { keys } = call.request.descriptors[index] as Descriptor;
  return shownValues(call, index).map((value, i) => entryOf(keys[i] as string, value));
}

function entryOf(key: string, value: string) {
  const base64 = base64Unless(value);
  const text = base64 === undefined ? { value: textOf(value) } : { value_base64: base64 };
  return { key: textOf(key), ...text };
}

/** Descriptors and hits of the call, in the form of a body of /json. */
function askedOf(call: LimitCall): object {
  const { request } = call;
  if (request.holdAsk !== HoldAsk.none) return heldAsEntries(call);
  return {
    descriptors: request.descriptors.slice(0, request.descriptorCount).map((_, i) => descriptorOf(call, i)),
    // Only a settlement distinguishes one hit from none given: there it is what was used.
    ...(request.hitsAddend > 0 ? { hits_addend: request.hitsAddend } : {}),
  };
}

// A hold that the request names in its fields is written as the entries that mean the same, so that a simulation
// repeats it.
function heldAsEntries(call: LimitCall): object {
  const { holdAsk, holdId, holdAmount } = call.request;
  const entries = shownEntries(call, 0);
  const hold = call.rules[0]?.hold;
  if (hold === undefined) return { descriptors: [{ entries }] };
  const { idEntry, settleEntry, settleValue, estimate } = hold;
  const names = [idEntry, settleEntry, estimate?.entry].map((name) => name !== undefined && textOf(name));
  const written = [
    ...entries.filter(({ key }) => !names.includes(key)),
    entryOf(idEntry, shownBeside(call, 0, holdId)),
  ];
  if (holdAsk === HoldAsk.settle) {
    const settled = [...written, entryOf(settleEntry, settleValue ?? "")];
    return { descriptors: [{ entries: settled, hits_addend: holdAmount }] };
  }
  if (estimate?.entry !== undefined) {
    const amount = unmarked(estimate.entry, String(holdAmount), call.domain?.settleEntries);
    return { descriptors: [{ entries: [...written, entryOf(estimate.entry, amount)] }] };
  }
  const hits = Math.max(1, holdAmount);
  // Under a rule that marks by value, a descriptor with its own hits would only ask.
  if (settleValue !== undefined) return { descriptors: [{ entries: written }], hits_addend: hits };
  return { descriptors: [{ entries: written, hits_addend: hits }] };
}

/** The number as the value of an entry that does not mark a settlement: a zero before it changes nothing. */
function unmarked(key: string, number: string, settleEntries: DomainRules["settleEntries"] | undefined): string {
  const marks = settleEntries?.get(key);
  let text = number;
  while (marks?.has(text)) text = `0${text}`;
  return text;
}
