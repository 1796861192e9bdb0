// headgate.v1.Budgets: Reserve and Settle for callers that ask directly. Each call becomes a LimitRequest of one
// descriptor. Its hold fields say what entries of a ShouldRateLimit call would say; otherwise the limiter treats both
// alike.

import { RequestError } from "../../base/errors.ts";
import { WireType, WireWriter } from "../../base/wire.ts";
import { ON_STORE_FAILURE_NAMES, type OnStoreFailure } from "../../engine/domain/limit.ts";
import { HoldAsk, type LimitRequest, textOf } from "../../engine/domain/request.ts";
import { Outcome, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { canPassLater, paidBy, retryAfterSeconds, settlementFound } from "../../engine/limiter/decision.ts";
import type { UnaryReply } from "../unary.ts";
import { CODE_OK, CODE_OVER_LIMIT, readDomain, readEntry, readEntryText, reader } from "./codec.ts";
import { reasonOf } from "./headers.ts";
import { CallService, checkRequest, failUnsettled } from "./service.ts";

/** The handler of `headgate.v1.Budgets/Reserve`. */
export class ReserveService extends CallService {
  readonly #writer = new WireWriter();

  protected read(message: Buffer, into: LimitRequest): void {
    decodeHoldRequest(message, HoldAsk.reserve, into);
    checkRequest(into);
  }

  protected answer(call: LimitCall, reply: UnaryReply): void {
    const { decision, governing } = call;
    const { overLimit } = decision;
    const refusing = overLimit ? governing : undefined;
    const answer = {
      overLimit,
      remaining: remainingOf(call),
      retryAfterSeconds: refusing !== undefined && canPassLater(refusing) ? retryAfterSeconds(refusing) : undefined,
      rule: governing === undefined ? "" : textOf(governing.limit.names.id),
      reason: overLimit ? reasonOf(call) : "",
      reserved: paidBy(call, 0),
      degraded: call.policy === undefined ? undefined : degradedBy(call.policy, call),
    };
    reply.ok(encodeReserved(answer, this.#writer));
  }
}

/** The handler of `headgate.v1.Budgets/Settle`. */
export class SettleService extends CallService {
  readonly #writer = new WireWriter();

  protected read(message: Buffer, into: LimitRequest): void {
    decodeHoldRequest(message, HoldAsk.settle, into);
    checkRequest(into);
  }

  // An unanswered settlement fails whatever on_store_failure says, so that the caller settles again.
  protected answer(call: LimitCall, reply: UnaryReply): void {
    if (hasUnanswered(call.group)) {
      failUnsettled(reply, call.storeFailure?.code ?? "");
      return;
    }
    const degraded = call.policy === undefined ? undefined : degradedBy(call.policy, call);
    const answer = { found: settlementFound(call.group, 0), remaining: remainingOf(call), degraded };
    reply.ok(encodeSettled(answer, this.#writer));
  }
}

function remainingOf({ decision }: LimitCall): number {
  return decision.statuses[0]?.remaining ?? 0;
}

function hasUnanswered(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if ((group.takes[i] as Take).outcome === Outcome.unanswered) return true;
  return false;
}

function degradedBy(policy: OnStoreFailure, { storeFailure }: LimitCall): Degraded {
  return { policy: ON_STORE_FAILURE_NAMES[policy], failure: storeFailure?.code ?? "" };
}

// Decodes and encodes the messages of headgate.v1.Budgets. test/property/budgets-codec.test.ts compares it with
// proto/headgate/v1/budgets.proto.

const VARINT = WireType.varint;
const BYTES = WireType.bytes;

/**
 * Resets `into` and fills it from the wire form of a ReserveRequest or a SettleRequest, which have the same fields.
 * Nothing of `message` is kept. Throws RequestError for a malformed message, one without entries or id, and one beyond
 * the bounds of engine/domain/request.ts. An empty domain is not checked here.
 */
export function decodeHoldRequest(message: Buffer, ask: HoldAsk, into: LimitRequest): void {
  into.reset();
  into.holdAsk = ask;
  into.holdId = "";
  into.holdAmount = 0;
  const descriptor = into.addDescriptor();
  reader.open(message);
  try {
    while (reader.position < reader.end) {
      const tag = reader.readTag();
      if (tag === ((1 << 3) | BYTES)) into.domain = readDomain();
      else if (tag === ((2 << 3) | BYTES)) readEntry(descriptor);
      else if (tag === ((3 << 3) | BYTES)) into.holdId = readEntryText("the id");
      else if (tag === ((4 << 3) | VARINT)) into.holdAmount = readAmount();
      else reader.skip(tag);
    }
  } finally {
    reader.close();
  }
  if (descriptor.entryCount === 0) {
    throw new RequestError("REQUEST_DESCRIPTORS_EMPTY", "the request has no entries; expected at least one");
  }
  if (into.holdId === "") {
    const calls = ask === HoldAsk.reserve ? "a new id for each reservation" : "the reservation's id";
    throw new RequestError("REQUEST_HOLD_ID", `the request has no id; expected ${calls}`);
  }
}

function readAmount(): number {
  const low = reader.readVarint();
  return reader.high * 4_294_967_296 + low;
}

/** Why and how a call was answered without the store. */
interface Degraded {
  /** Name of the failure policy that was applied. */
  readonly policy: string;
  /** Code of the store's error. */
  readonly failure: string;
}

/** An answer to Reserve. Numbers are whole and not negative. */
interface Reserved {
  readonly overLimit: boolean;
  readonly remaining: number;
  /** Undefined: the answer has none. */
  readonly retryAfterSeconds: number | undefined;
  readonly rule: string;
  readonly reason: string;
  readonly reserved: number;
  readonly degraded: Degraded | undefined;
}

/** The protocol's numbers for what a settlement found. */
const FOUND = { settled: 1, unknown: 2, already_settled: 3 } as const;

/** An answer to Settle. */
interface Settled {
  readonly found: keyof typeof FOUND;
  readonly remaining: number;
  readonly degraded: Degraded | undefined;
}

/** Writes the wire form of a ReserveResponse. Returns a view into the writer's buffer, good until its next use. */
export function encodeReserved(answer: Reserved, writer: WireWriter): Uint8Array {
  const { retryAfterSeconds: seconds, degraded } = answer;
  writer.clear();
  writer.writeVarintField(1, answer.overLimit ? CODE_OVER_LIMIT : CODE_OK);
  if (answer.remaining !== 0) writer.writeVarintField(2, answer.remaining);
  if (seconds !== undefined) {
    const at = writer.openMessage(3);
    if (seconds !== 0) writer.writeVarintField(1, seconds);
    writer.closeMessage(at);
  }
  if (answer.rule !== "") writer.writeTextField(4, answer.rule);
  if (answer.reason !== "") writer.writeTextField(5, answer.reason);
  if (answer.reserved !== 0) writer.writeVarintField(6, answer.reserved);
  if (degraded !== undefined) writeDegraded(7, degraded, writer);
  return writer.view();
}

/** Writes the wire form of a SettleResponse. Returns a view into the writer's buffer, good until its next use. */
export function encodeSettled({ found, remaining, degraded }: Settled, writer: WireWriter): Uint8Array {
  writer.clear();
  writer.writeVarintField(1, FOUND[found]);
  if (remaining !== 0) writer.writeVarintField(2, remaining);
  if (degraded !== undefined) writeDegraded(3, degraded, writer);
  return writer.view();
}

function writeDegraded(field: number, { policy, failure }: Degraded, writer: WireWriter): void {
  const at = writer.openMessage(field);
  if (policy !== "") writer.writeTextField(1, policy);
  if (failure !== "") writer.writeTextField(2, failure);
  writer.closeMessage(at);
}
