// Sends batches and settles their groups: by the reply, by the deadline, or because the connection was lost. A batch is
// sent once; only NOSCRIPT, which Redis gives before it runs anything, makes it go out again.

import type { Clock } from "../../core/clock.ts";
import { StoreError } from "../../core/errors.ts";
import { Mode, Verdict } from "../../core/take.ts";
import type { StoreObserver } from "../store-observer.ts";
import type { Breaker } from "../wrappers/breaker.ts";
import type { Batch, BatchedGroup } from "./batch.ts";
import { isReplyError, type RedisConnection, wasNeverSent } from "./connect.ts";
import type { Receipt } from "./receipts.ts";
import { damagedOf, isReplyTo, NO_COUNT, ReplyReader, serverTimeOf, TOO_LATE } from "./reply.ts";
import type { Script } from "./scripts.ts";
import type { ServerTime } from "./server-time.ts";

/** A latest time of payment that lies in the past of every server. */
const NEVER_PAY_US = 1;
/** What the script takes as no latest time. */
const ANY_TIME = 0;

export interface DispatchOptions {
  readonly script: Script;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  /** Time that is passed in instead of the server's own; tests only. */
  readonly injectedTime: Clock | undefined;
  readonly deadlineUs: number;
  /** The same for calls whose own deadline leaves at least twice as long; half of what it leaves if that is less. */
  readonly patienceUs: number;
  /** EXPIRATION_JITTER_MAX_SECONDS, for counters. */
  readonly jitterSecondsMax: number;
  /** A connection that owes an answer for longer than this is given up. */
  readonly silenceUsMax: number;
  readonly observer: StoreObserver;
  readonly breaker: Breaker;
  /** What was paid for groups that had been answered without the store. */
  readonly giveBack: (receipt: Receipt) => void;
  /** Redis refused a call; the sentence says how. */
  readonly describe: (error: unknown) => string;
  /** Redis refused a call or sent something unreadable. */
  readonly onRefusal: (error: unknown, sentence: string) => void;
  /** Redis settled a call. */
  readonly onAnswer: () => void;
  /** The connection should be given up, because it has that trouble. */
  readonly onTrouble: (trouble: string) => void;
}

/** The batches that are under way. */
export class Dispatch {
  readonly #options: DispatchOptions;
  readonly #underWay = new Set<Batch>();
  #takes = 0;
  #onIdle: (() => void) | undefined;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** Takes whose call has no outcome yet, those that were answered without it included. */
  get takes(): number {
    return this.#takes;
  }

  /** Sends the batch; every group is settled by its deadline at the latest. */
  send(batch: Batch, connection: RedisConnection): void {
    const { clock, script, injectedTime, jitterSecondsMax } = this.#options;
    batch.sentUs = clock.nowUs();
    this.#setDeadlines(batch);
    if (batch.waiting === 0 && batch.receipts.length === 0) {
      this.#record(batch, 0, 1);
      return;
    }
    this.#underWay.add(batch);
    this.#takes += batch.takes;
    this.#arm(batch);
    const args = batch.encode(injectedTime?.nowUs() ?? 0, (batched) => this.#latestOf(batched), jitterSecondsMax);
    const reply = (value: unknown) => this.#onReply(batch, value);
    connection.command("evalsha", [script.sha, ...args]).then(reply, (error: unknown) => {
      if (batch.isDone || !isReplyError(error) || !error.message.startsWith("NOSCRIPT")) {
        this.#onError(batch, error);
        return;
      }
      connection.command("eval", [script.text, ...args]).then(reply, (again: unknown) => this.#onError(batch, again));
    });
  }

  /** Settles a batch that can't be sent. */
  failAll(batch: Batch, error: StoreError): void {
    this.#record(batch, 0, this.#failWaiting(batch, error));
  }

  /** The connection is gone. What was paid over it stays paid; nobody knows which. */
  loseAll(error: StoreError): void {
    for (const batch of [...this.#underWay]) this.#lose(batch, error);
  }

  /** Resolves when nothing is under way any more, or after `ms`. */
  async whenIdle(ms: number): Promise<void> {
    if (this.#underWay.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  // A group whose own deadline passed before it could be sent fails at once; the script is told not to pay for it.
  #setDeadlines(batch: Batch): void {
    const { deadlineUs, patienceUs, observer } = this.#options;
    let tooLate: StoreError | undefined;
    let count = 0;
    for (const batched of batch.groups) {
      if (batched.deadlineUs <= batch.sentUs) {
        tooLate ??= new StoreError("STORE_TOO_LATE", "the call's deadline passed before its takes could be sent", {
          transient: true,
        });
        count++;
        this.#fail(batch, batched, tooLate);
      } else {
        const leftUs = batched.deadlineUs - batch.sentUs;
        batched.deadlineUs = batch.sentUs + Math.min(leftUs, Math.max(deadlineUs, Math.min(patienceUs, leftUs / 2)));
      }
    }
    if (count > 0) observer.loopLate(count);
  }

  #latestOf(batched: BatchedGroup): number {
    if (batched.isAnswered) return NEVER_PAY_US;
    const { injectedTime, serverTime } = this.#options;
    // Time that is passed in is the same whenever the call arrives: it can't be late.
    if (injectedTime !== undefined) return ANY_TIME;
    return Math.max(NEVER_PAY_US, Math.floor(serverTime.latestFor(batched.deadlineUs)));
  }

  #arm(batch: Batch): void {
    let earliestUs = Number.POSITIVE_INFINITY;
    for (const batched of batch.groups) {
      if (!batched.isAnswered && batched.deadlineUs < earliestUs) earliestUs = batched.deadlineUs;
    }
    if (earliestUs === Number.POSITIVE_INFINITY) return;
    const ms = Math.max(1, Math.ceil((earliestUs - this.#options.clock.nowUs()) / 1000));
    batch.timer = setTimeout(this.#onTimer, ms, batch);
  }

  // Timers run before sockets are read, setImmediate after: a reply that came in while this process was busy is read
  // before its deadline is acted upon.
  readonly #onTimer = (batch: Batch): void => {
    setImmediate(this.#expire, batch);
  };

  readonly #expire = (batch: Batch): void => {
    if (batch.isDone) return;
    const { clock, deadlineUs } = this.#options;
    const nowUs = clock.nowUs();
    let error: StoreError | undefined;
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered || batched.deadlineUs > nowUs) continue;
      error ??= new StoreError(
        "STORE_TIMEOUT",
        `no reply from Redis within ${deadlineUs / 1000} ms or the call's deadline`,
        {
          transient: true,
        },
      );
      this.#fail(batch, batched, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    if (batch.waiting > 0) this.#arm(batch);
    this.#checkSilence(nowUs);
  };

  // A connection can be gone without anybody saying so: then it is given up, and its takes with it.
  #checkSilence(nowUs: number): void {
    const { silenceUsMax, onTrouble } = this.#options;
    for (const oldest of this.#underWay) {
      if (nowUs - oldest.sentUs > silenceUsMax) onTrouble(`has not answered for ${silenceUsMax / 1_000_000} seconds`);
      return;
    }
  }

  #onReply(batch: Batch, reply: unknown): void {
    if (batch.isDone) return;
    const { clock, serverTime, observer, onTrouble, onAnswer } = this.#options;
    if (!isReplyTo(batch, reply)) {
      this.#lose(
        batch,
        new StoreError("STORE_REPLY", "Redis sent a reply that is none to a take", { transient: true }),
      );
      onTrouble("sent a reply that is none to a take");
      return;
    }
    this.#finish(batch);
    const receivedUs = clock.nowUs();
    const serverUs = serverTimeOf(reply);
    if (this.#options.injectedTime === undefined) serverTime.observe({ sentUs: batch.sentUs, serverUs, receivedUs });
    observer.answered(receivedUs - batch.sentUs, batch.takes);
    if (damagedOf(reply) > 0) observer.damaged(damagedOf(reply));
    if (batch.receipts.length > 0) observer.gaveBack(batch.receipts.length);
    onAnswer();
    this.#settleAll(batch, reply, receivedUs);
  }

  #settleAll(batch: Batch, reply: readonly number[], receivedUs: number): void {
    const reader = new ReplyReader(reply);
    let succeeded = 0;
    let failed = 0;
    let late = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered || batched.group.generation !== batched.generation) {
        this.#giveBackPaid(batch, batched, reader);
        reader.skip(batched);
      } else if (reader.verdict === TOO_LATE) {
        const error = "Redis came to the call's takes after their deadline, and paid nothing";
        this.#fail(batch, batched, new StoreError("STORE_TOO_LATE", error, { transient: true }));
        reader.skip(batched);
        failed++;
      } else if (reader.verdict === NO_COUNT) {
        const error = "the key of a counter holds no count; the call's other counters were charged";
        this.#fail(batch, batched, new StoreError("STORE_COUNTER", error, { transient: false }));
        reader.skip(batched);
        succeeded++;
      } else {
        if (batched.deadlineUs < receivedUs) late++;
        succeeded++;
        reader.writeTo(batched.group, batched);
        this.#answer(batch, batched);
      }
    }
    if (late > 0) this.#options.observer.loopLate(late);
    this.#record(batch, succeeded, failed);
  }

  #giveBackPaid(batch: Batch, batched: BatchedGroup, reader: ReplyReader): void {
    reader.eachPaid(batched, (index, paidAtUs, cappedHits) => {
      const take = batch.takeOf(batched, index);
      if (take === undefined || (take.mode !== Mode.pay && take.mode !== Mode.postPaid)) return;
      const { bucketKey, limit, cost } = take;
      if (cost > cappedHits) this.#options.giveBack({ bucketKey, limit, cost: cost - cappedHits, paidAtUs });
    });
  }

  #onError(batch: Batch, error: unknown): void {
    if (batch.isDone) return;
    const { describe, onRefusal } = this.#options;
    const sentence = describe(error);
    // A ReplyError holds the whole command, keys and all: it is described, never passed on.
    if (!isReplyError(error)) {
      const lost = new StoreError("STORE_UNREACHABLE", sentence, { transient: true, cause: error });
      if (wasNeverSent(error)) {
        this.#finish(batch);
        this.failAll(batch, lost);
      } else {
        this.#lose(batch, lost);
      }
      return;
    }
    this.#finish(batch);
    this.failAll(batch, new StoreError("STORE_COMMAND", sentence, { transient: true }));
    onRefusal(error, sentence);
  }

  #lose(batch: Batch, error: StoreError): void {
    this.#finish(batch);
    if (batch.groups.length > 0) this.#options.observer.outcomeUnknown(batch.groups.length);
    this.failAll(batch, error);
  }

  #finish(batch: Batch): void {
    clearTimeout(batch.timer);
    batch.isDone = true;
    if (!this.#underWay.delete(batch)) return;
    this.#takes -= batch.takes;
    if (this.#underWay.size === 0) this.#onIdle?.();
  }

  #failWaiting(batch: Batch, error: StoreError): number {
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered) continue;
      this.#fail(batch, batched, error);
      failed++;
    }
    return failed;
  }

  #fail(batch: Batch, batched: BatchedGroup, error: StoreError): void {
    if (batched.group.generation === batched.generation) {
      batched.group.verdict = Verdict.failed;
      batched.group.failure = error;
      this.#options.observer.failed(error);
    }
    this.#answer(batch, batched);
  }

  #answer(batch: Batch, batched: BatchedGroup): void {
    batched.isAnswered = true;
    batch.waiting--;
    if (batched.group.generation !== batched.generation) return;
    try {
      batched.then.settled(batched.group, batched.generation);
    } catch (error) {
      // The caller's mistake is not the other groups': they are settled, then it shows as what it is.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #record(batch: Batch, succeeded: number, failed: number): void {
    if (succeeded === 0 && failed === 0) return;
    this.#options.breaker.record({ succeeded, failed, isProbe: batch.isProbe }, this.#options.clock.nowUs());
  }
}
