// headgate.v1.Budgets: Reserve and Settle for callers that ask directly. Each call becomes a LimitRequest of one descriptor. Its hold
// fields say what entries of a ShouldRateLimit call would say; otherwise the limiter treats both alike.

import { ON_STORE_FAILURE_NAMES, type OnStoreFailure } from "../../engine/domain/limit.ts";
import { HoldAsk, type LimitRequest, textOf } from "../../engine/domain/request.ts";
import { GLOBAL_DESCRIPTOR, Outcome, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { canPassLater, retryAfterSeconds } from "../../engine/limiter/retry-after.ts";
import { settlementFound } from "../../engine/limiter/settlement-found.ts";
import type { UnaryReply } from "../unary.ts";
import { type Degraded, decodeHoldRequest, encodeReserved, encodeSettled } from "./budgets-codec.ts";
import { CallService } from "./call-service.ts";
import { reasonOf } from "./headers.ts";
import { checkRequest } from "./service.ts";
import { failUnsettled } from "./status.ts";
import { WireWriter } from "./wire-writer.ts";

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
      reason: refusing === undefined ? "" : reasonOf(refusing),
      reserved: paidBy(call),
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

/** What the descriptor has paid, in the caller's parts. A `concurrent` limit costs 1, so the largest cost is the amount. */
function paidBy({ group, rules }: LimitCall): number {
  let paid = 0;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.paid && take.descriptor !== GLOBAL_DESCRIPTOR) paid = Math.max(paid, take.cost);
  }
  return paid * (rules[0]?.hold?.estimate?.per ?? 1);
}

function hasUnanswered(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if ((group.takes[i] as Take).outcome === Outcome.unanswered) return true;
  return false;
}

function degradedBy(policy: OnStoreFailure, { storeFailure }: LimitCall): Degraded {
  return { policy: ON_STORE_FAILURE_NAMES[policy], failure: storeFailure?.code ?? "" };
}
