// Sends each call to two targets. The caller gets the answer of the first at once; the answer of the second is compared
// afterwards, within bounds. Knows no sockets; run-mirror.ts connects it to them.

import type { Clock } from "../../base/clock.ts";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "../../base/units.ts";
import { GrpcStatus, type UnaryHandler, type UnaryReply } from "../../grpc/unary.ts";
import { LatencyHistogram } from "../../operate/telemetry/latency-histogram.ts";
import { readAnswer, readRequest, UnreadableError } from "./answer.ts";
import { ByteAccount, ByteBudget, PIECE_BYTES } from "./byte-budget.ts";
import { type CompareOptions, compareAnswers } from "./compare.ts";
import type { Differences } from "./differences.ts";
import type { Recording } from "./recording.ts";
import type { FailureReason, SentCall, Target, TargetOutcome, TargetRequest } from "./target.ts";

export interface MirrorOptions extends CompareOptions {
  readonly answering: Target;
  /** The target whose answers are compared. Undefined: calls are only passed on and recorded. */
  readonly compared: Target | undefined;
  readonly book: Differences;
  readonly clock: Clock;
  /** Most calls under comparison at once. */
  readonly comparisonsMax: number;
  /** Most bytes of requests and answers that these calls hold together. */
  readonly memoryMax: number;
  /** Time limit of a call, in milliseconds; a nearer deadline counts before it. */
  readonly callMsMax: number;
  /** How long the compared target may take, in milliseconds. */
  readonly compareTimeout: number;
  /** Called with errors that are bugs of the mirror. */
  readonly onFault: (error: unknown) => void;
  /** Called after each comparison has ended; must not throw. */
  readonly onSettled?: (() => void) | undefined;
}

/** A call under comparison. */
interface Comparison {
  readonly request: TargetRequest;
  readonly startedUs: number;
  readonly account: ByteAccount;
  /** Of the compared target. */
  sent?: SentCall;
  timeout?: NodeJS.Timeout;
  answering?: Answer;
  compared?: Answer;
}

type Answer = TargetOutcome & { kind: "answer" };
type Side = "answering" | "compared";

/** How long answers are compared per turn of the event loop, so that it never delays callers noticeably. */
const TURN_US_MAX = 2_000;

/** The mirror and its counters. */
export class Mirror implements UnaryHandler {
  readonly #options: MirrorOptions;
  readonly #startUs: number;
  /** Calls under comparison. */
  readonly #open = new Set<Comparison>();
  /** Those with both answers. */
  readonly #toCompare: Comparison[] = [];
  /** What calls under comparison hold. */
  readonly #held: ByteBudget;
  /** What requests and answers take on their way. */
  readonly #underWay: ByteBudget;
  /** Number of calls passed on to the answering target. */
  relayed = 0;
  readonly answeringFailures = new Map<FailureReason, number>();
  /**
   * Calls that were not compared, by why: the side that failed and its reason, or one of `busy`, `unreadable`, `fault`
   * and `ended`.
   */
  readonly notCompared = new Map<string, number>();
  /** Gets all calls from when it is set. */
  recorder: Recording | undefined;
  readonly answeringLatency = new LatencyHistogram();
  readonly comparedLatency = new LatencyHistogram();

  constructor(options: MirrorOptions) {
    this.#options = options;
    this.#startUs = options.clock.nowUs();
    this.#held = new ByteBudget(options.memoryMax);
    this.#underWay = new ByteBudget(options.memoryMax);
  }

  /** Since the mirror began. */
  get seconds(): number {
    return (this.#options.clock.nowUs() - this.#startUs) / MICROS_PER_SECOND;
  }

  /** Number of calls under comparison. */
  get comparisons(): number {
    return this.#open.size;
  }

  /** Bytes that calls under comparison hold. */
  get heldBytes(): number {
    return this.#held.held;
  }

  /** Handles ShouldRateLimit: passes the call on to the answering target, then records it and begins the comparison. */
  handle(message: Buffer, deadlineUs: number, reply: UnaryReply): void {
    const sentUs = this.#options.clock.nowUs();
    let comparison: Comparison | undefined;
    const request = this.#passOn(message, deadlineUs, reply, (outcome) => {
      this.#noteAnswering(outcome, sentUs);
      if (comparison !== undefined) this.#got(comparison, "answering", outcome);
    });
    if (request === undefined) return;
    this.relayed++;
    this.recorder?.record(request.message);
    comparison = this.#begin(request, sentUs);
  }

  /**
   * Has the answering target answer the call; `done` is called after that. Undefined if there is no room for it: the
   * call is refused.
   */
  #passOn(
    message: Buffer,
    deadlineUs: number,
    reply: UnaryReply,
    done: (outcome: TargetOutcome) => void,
  ): TargetRequest | undefined {
    const { answering, callMsMax, clock } = this.#options;
    const account = new ByteAccount(this.#underWay);
    if (!account.take(message.length + PIECE_BYTES)) {
      reply.fail(GrpcStatus.resourceExhausted, `calls under way hold more than ${this.#underWay.max} bytes`);
      return undefined;
    }
    const leftMs = Math.ceil((deadlineUs - clock.nowUs()) / MICROS_PER_MILLI);
    const timeoutMs = Math.max(1, Math.min(leftMs, callMsMax));
    // Copied, because the transport uses its buffer again.
    const request = { message: Buffer.from(message), timeoutMs, traceparent: reply.traceparent };
    const sent = answering.send(
      request,
      (bytes) => account.take(bytes),
      (outcome) => {
        clearTimeout(overdue);
        account.close();
        answer(reply, outcome);
        done(outcome);
      },
    );
    const overdue = setTimeout(() => sent.cancel("cancelled", `no answer within ${timeoutMs} ms`), timeoutMs);
    reply.onGone = () => sent.cancel("cancelled");
    return request;
  }

  /** Waits up to `timeoutMs` until all comparisons have ended; the rest counts as `ended`. */
  async finish(timeoutMs: number): Promise<void> {
    const endUs = this.#options.clock.nowUs() + timeoutMs * MICROS_PER_MILLI;
    while (this.#open.size > 0 && this.#options.clock.nowUs() < endUs) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (const comparison of [...this.#open]) this.#drop(comparison, "ended");
  }

  #noteAnswering(outcome: TargetOutcome, sentUs: number): void {
    if (outcome.kind === "answer") this.answeringLatency.observe(this.#options.clock.nowUs() - sentUs);
    else count(this.answeringFailures, outcome.reason);
  }

  #begin(request: TargetRequest, startedUs: number): Comparison | undefined {
    const { compared, comparisonsMax } = this.#options;
    if (compared === undefined) return undefined;
    const account = new ByteAccount(this.#held);
    if (this.#open.size >= comparisonsMax || !account.take(request.message.length)) {
      count(this.notCompared, "busy");
      return undefined;
    }
    const comparison: Comparison = { request, startedUs, account };
    this.#open.add(comparison);
    // In a later turn, when all calls that were read from the sockets have been sent to the answering target.
    setImmediate(() => {
      if (this.#open.has(comparison)) this.#send(comparison, compared);
    });
    return comparison;
  }

  #send(comparison: Comparison, compared: Target): void {
    const { clock, compareTimeout } = this.#options;
    const sentUs = clock.nowUs();
    const admits = (bytes: number) => !this.#open.has(comparison) || comparison.account.take(bytes);
    const sent = compared.send(comparison.request, admits, (outcome) => {
      if (outcome.kind === "answer") this.comparedLatency.observe(clock.nowUs() - sentUs);
      this.#got(comparison, "compared", outcome);
    });
    comparison.sent = sent;
    comparison.timeout = setTimeout(() => sent.cancel("too_slow"), compareTimeout).unref();
  }

  #got(comparison: Comparison, side: Side, outcome: TargetOutcome): void {
    if (!this.#open.has(comparison)) return;
    if (outcome.kind === "answer") comparison[side] = outcome;
    const { answering, compared } = comparison;
    if (outcome.kind === "failure") this.#drop(comparison, `${side}_${outcome.reason}`);
    // The bytes of the compared target were counted as they came.
    else if (side === "answering" && !comparison.account.take(outcome.message.length)) this.#drop(comparison, "busy");
    else if (answering === undefined || compared === undefined) return;
    else if (isByteEqual(answering, compared)) {
      this.#options.book.same++;
      this.#close(comparison);
    } else if (this.#toCompare.push(comparison) === 1) setImmediate(() => this.#compareSome());
  }

  #compareSome(): void {
    const { clock } = this.#options;
    const endUs = clock.nowUs() + TURN_US_MAX;
    let done = 0;
    for (const comparison of this.#toCompare) {
      this.#settle(comparison);
      done++;
      if (clock.nowUs() >= endUs) break;
    }
    this.#toCompare.splice(0, done);
    if (this.#toCompare.length > 0) setImmediate(() => this.#compareSome());
  }

  #settle(comparison: Comparison): void {
    const { answering, compared } = comparison;
    if (!this.#open.has(comparison) || answering === undefined || compared === undefined) return;
    const { book } = this.#options;
    try {
      const a = readAnswer(answering);
      const b = readAnswer(compared);
      const differences = compareAnswers(a, b, this.#options);
      const request = readRequest(comparison.request.message);
      book.enter({ request, answering: a, compared: b, differences, atUs: comparison.startedUs });
    } catch (error) {
      // A bug of the mirror costs a comparison, never a call.
      const isOurs = !(error instanceof UnreadableError);
      count(this.notCompared, isOurs ? "fault" : "unreadable");
      if (isOurs) this.#options.onFault(error);
    }
    this.#close(comparison);
  }

  #drop(comparison: Comparison, reason: string): void {
    count(this.notCompared, reason);
    this.#close(comparison);
    // Calls whose answer is not needed must not pile up. The target has counted the call already.
    comparison.sent?.cancel("cancelled");
  }

  #close(comparison: Comparison): void {
    this.#open.delete(comparison);
    clearTimeout(comparison.timeout);
    comparison.account.close();
    this.#options.onSettled?.();
  }
}

function count<Reason>(counts: Map<Reason, number>, reason: Reason): void {
  counts.set(reason, (counts.get(reason) ?? 0) + 1);
}

function isByteEqual(a: Answer, b: Answer): boolean {
  return a.code === 0 && b.code === 0 && a.message.equals(b.message);
}

function answer(reply: UnaryReply, outcome: TargetOutcome): void {
  reply.onGone = undefined;
  if (outcome.kind === "failure") {
    const isLate = outcome.reason === "cancelled";
    reply.fail(isLate ? GrpcStatus.deadlineExceeded : GrpcStatus.unavailable, outcome.message);
  } else if (outcome.code === 0) reply.ok(outcome.message);
  else reply.fail(outcome.code as GrpcStatus, outcome.details);
}
