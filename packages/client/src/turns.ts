// Waiting for limits: a queue for each key. Only its head asks the service, and asks again after the wait that the
// service names.

import type { CheckDecision } from "./decision.ts";
import { CheckFailure } from "./failure.ts";
import type { CheckRequest } from "./request.ts";

/** A call that would have to wait longer than its `maxWaitMs`, or that came while too many others waited. */
export class WaitRefused extends Error {
  override readonly name = "WaitRefused";
  /** The refusal that says how long; undefined if none was known. */
  readonly decision: CheckDecision | undefined;

  constructor(message: string, decision?: CheckDecision) {
    super(message);
    this.decision = decision;
  }
}

/** Most calls that wait in one limiter at a time, about 1 KB each. */
const WAITERS_MAX = 10_000;

/** A call of `wait`. Settling it removes it from its queue; settling it again does nothing. */
interface Waiter {
  readonly request: CheckRequest;
  readonly deadlineMs: number;
  /** While true, the answer decides, even if it comes after the deadline. */
  isAsking: boolean;
  /** Ends its pause, if it is in one. */
  wake: () => void;
  readonly resolve: (decision: CheckDecision) => void;
  readonly reject: (error: unknown) => void;
}

interface Queue {
  /** In the order in which they came; the first one asks. */
  readonly waiters: Set<Waiter>;
  /** While the first one pauses: until when, and because of which refusal. Nobody behind it passes earlier. */
  pause: { readonly untilMs: number; readonly refusal: CheckDecision } | undefined;
}

/** The queues of one limiter. */
export class Turns {
  readonly #check: (request: CheckRequest) => Promise<CheckDecision>;
  /** Only queues with waiters. */
  readonly #queues = new Map<string, Queue>();
  /** The waiters that each signal may abort. They share one listener, because Node.js warns of more than ten. */
  readonly #bySignal = new Map<AbortSignal, { readonly waiters: Set<Waiter>; readonly abort: () => void }>();
  #count = 0;

  constructor(check: (request: CheckRequest) => Promise<CheckDecision>) {
    this.#check = check;
  }

  /**
   * Waits behind the earlier calls of this key. Rejects with a WaitRefused, the signal's reason, or what the check
   * rejects with.
   */
  wait(key: string, request: CheckRequest, maxWaitMs: number, signal?: AbortSignal): Promise<CheckDecision> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#count >= WAITERS_MAX) throw new WaitRefused(`${WAITERS_MAX} calls are waiting already`);
      const known = this.#queues.get(key);
      const queue = known ?? { waiters: new Set(), pause: undefined };
      const deadlineMs = performance.now() + maxWaitMs;
      if (queue.pause !== undefined && queue.pause.untilMs >= deadlineMs) throw tooLate(queue.pause.refusal);
      const timer = setTimeout(() => waiter.isAsking || waiter.reject(tooLate(queue.pause?.refusal)), maxWaitMs);
      const leave = () => {
        if (!queue.waiters.delete(waiter)) return;
        this.#count--;
        clearTimeout(timer);
        this.#forget(signal, waiter);
        waiter.wake();
      };
      const waiter: Waiter = {
        request,
        deadlineMs,
        isAsking: false,
        wake: () => undefined,
        resolve: (decision) => {
          leave();
          resolve(decision);
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      this.#heed(signal, waiter);
      queue.waiters.add(waiter);
      this.#count++;
      if (known === undefined) void this.#serve(key, queue);
    });
  }

  /** Rejects all that wait. */
  close(): void {
    for (const { waiters } of this.#queues.values()) {
      for (const waiter of waiters) waiter.reject(new CheckFailure("CANCELLED", "the limiter is closed"));
    }
  }

  #heed(signal: AbortSignal | undefined, waiter: Waiter): void {
    if (signal === undefined) return;
    const known = this.#bySignal.get(signal);
    if (known !== undefined) {
      known.waiters.add(waiter);
      return;
    }
    const waiters = new Set([waiter]);
    const abort = () => {
      for (const each of waiters) each.reject(signal.reason);
    };
    signal.addEventListener("abort", abort);
    this.#bySignal.set(signal, { waiters, abort });
  }

  #forget(signal: AbortSignal | undefined, waiter: Waiter): void {
    const known = signal === undefined ? undefined : this.#bySignal.get(signal);
    if (signal === undefined || known === undefined) return;
    known.waiters.delete(waiter);
    if (known.waiters.size > 0) return;
    signal.removeEventListener("abort", known.abort);
    this.#bySignal.delete(signal);
  }

  async #serve(key: string, queue: Queue): Promise<void> {
    this.#queues.set(key, queue);
    // A set's iteration also meets what is added meanwhile.
    for (const head of queue.waiters) while (queue.waiters.has(head)) await this.#ask(queue, head);
    this.#queues.delete(key);
  }

  async #ask(queue: Queue, head: Waiter): Promise<void> {
    try {
      head.isAsking = true;
      const decision = await this.#check(head.request);
      head.isAsking = false;
      if (decision.allowed) return head.resolve(decision);
      if (!queue.waiters.has(head)) return;
      const waitMs = (decision.retryAfterSeconds ?? Number.POSITIVE_INFINITY) * 1_000;
      const untilMs = performance.now() + waitMs;
      if (untilMs >= head.deadlineMs) return head.reject(tooLate(decision));
      queue.pause = { untilMs, refusal: decision };
      for (const other of queue.waiters) if (untilMs >= other.deadlineMs) other.reject(tooLate(decision));
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        head.wake = () => resolve(clearTimeout(timer));
      });
      queue.pause = undefined;
    } catch (error) {
      head.reject(error);
    }
  }
}

function tooLate(refusal: CheckDecision | undefined): WaitRefused {
  const seconds = refusal?.retryAfterSeconds;
  const why = refusal === undefined ? "others are first" : (refusal.reason ?? "refused");
  return new WaitRefused(
    `can't pass within maxWaitMs: ${why}${seconds === undefined ? "" : `, again in ${seconds} s`}`,
    refusal,
  );
}
