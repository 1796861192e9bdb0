// Answers the groups of batches, each once: by the reply, at the deadline, or because the connection was lost. Keeps every batch without an
// outcome. The store sends the batches.

import { StoreError } from "../../engine/base/errors.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { HOLDS_FULL_ERROR } from "../../engine/domain/holds-full.ts";
import { type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { costToReturn } from "../../engine/domain/verdict.ts";
import type { SettleListener } from "../store.ts";
import type { Batch, BatchedGroup, BatchedTake } from "./batch.ts";
import { HELD, HOLDS_FULL, NO_COUNT, type ReplyReader, TOO_LATE } from "./reply.ts";
import type { SettlerOptions } from "./settler-options.ts";
import { answerByUs } from "./store-patience.ts";
import { UnderWay } from "./under-way.ts";

/** A latest time of payment that is in the past for every server. */
const NEVER_PAY_US = 1;
/** Means no latest time to the server. */
const ANY_TIME = 0;

/** The batches without an outcome: those being filled, and those under way. */
export class Settler<B extends Batch> {
  readonly #options: SettlerOptions<B>;
  /** In the order in which they came. */
  readonly #open = new Set<B>();
  readonly #underWay: UnderWay<B>;
  #takes = 0;
  #onIdle: (() => void) | undefined;

  constructor(options: SettlerOptions<B>) {
    this.#options = options;
    this.#underWay = new UnderWay(options.onRoom);
  }

  /** Takes of batches without an outcome; those answered without it count too. */
  get takes(): number {
    return this.#takes;
  }

  /** Number of this queue's sent batches without an outcome; those do not count for which nobody waits: of receipts, or all answered. */
  underWay(queue: number): number {
    return this.#underWay.count(queue);
  }

  /** Adds the group to the batch. */
  add(batch: B, group: TakeGroup, then: SettleListener): void {
    if (batch.waiting === 0) this.#open.add(batch);
    batch.add(group, then);
    this.#takes += group.size;
  }

  /** Adds a group that was passed over to another batch. It keeps the time at which it is answered. */
  addAgain(batch: B, { group, then, answerByUs }: BatchedGroup): void {
    this.add(batch, group, then);
    const added = batch.groups.at(-1);
    if (added === undefined) return;
    added.answerByUs = answerByUs;
    added.hasDeadline = true;
    this.#arm(batch);
  }

  /**
   * Sets the time at which groups are answered without the store, for those that have none yet, and a timer for it. Groups whose own deadline
   * has passed fail at once; the server is told not to pay for them.
   */
  setDeadlines(batch: B): void {
    const nowUs = this.#options.clock.nowUs();
    let tooLate: StoreError | undefined;
    let count = 0;
    let hasNewDeadline = false;
    // A caller that is answered here may call again at once, and so add a group to this batch; that group is handled later.
    const { length } = batch.groups;
    for (let i = 0; i < length; i++) {
      const batched = batch.groups[i];
      if (batched === undefined || batched.hasDeadline || batched.isAnswered) continue;
      hasNewDeadline = true;
      batched.hasDeadline = true;
      batched.answerByUs = answerByUs(nowUs, batched.answerByUs, this.#options);
      if (batched.answerByUs > nowUs) continue;
      tooLate ??= new StoreError("STORE_TOO_LATE", "the call's deadline passed before its takes could be sent");
      count++;
      this.#fail(batch, batched, tooLate);
    }
    if (count > 0) this.#options.observer.loopLate(count);
    if (count > 0 && batch.waiting === 0 && batch.isProbe) {
      // It may never be sent, and then the breaker would wait for its outcome for ever.
      this.#record(batch, 0, count);
      batch.isProbe = false;
    }
    if (hasNewDeadline) this.#arm(batch);
  }

  /**
   * Sets missing deadlines, and begins to wait for the batch's reply. Returns false if the batch has nothing left to send; then it is done. A
   * probe counts as one failure then, so that it has an outcome; other batches tell nothing about the server.
   */
  begin(batch: B): boolean {
    this.setDeadlines(batch);
    if (batch.waiting === 0 && batch.receipts.length === 0) {
      this.finish(batch);
      if (batch.isProbe) this.#record(batch, 0, 1);
      return false;
    }
    this.#underWay.enter(batch);
    batch.isSent = true;
    batch.sentUs = this.#options.clock.nowUs();
    this.#open.add(batch);
    if (batch.waiting === 0) this.#arm(batch);
    return true;
  }

  /** The latest server time at which a group may still pay. */
  readonly latestOf = (batched: BatchedGroup): number => {
    if (batched.isAnswered) return NEVER_PAY_US;
    const { injectedTime, serverTime } = this.#options;
    // With an injected time no call can be late, because the time does not depend on when the call arrives.
    if (injectedTime !== undefined) return ANY_TIME;
    return Math.max(NEVER_PAY_US, Math.floor(serverTime.latestFor(batched.answerByUs)));
  };

  /** Settles the batch by its reply, which `isReplyTo` has accepted. */
  settle(batch: B, reader: ReplyReader): void {
    const { clock, serverTime, observer, injectedTime } = this.#options;
    this.finish(batch);
    const receivedUs = clock.nowUs();
    const { sentUs } = batch;
    if (injectedTime === undefined) serverTime.observe({ sentUs, serverUs: reader.serverUs, receivedUs });
    observer.answered(receivedUs - sentUs, batch.takes);
    if (reader.damaged > 0) observer.damaged(reader.damaged);
    if (batch.receipts.length > 0) this.#noteReceipts(batch, reader);
    this.#settleGroups(batch, reader, receivedUs);
    if (batch.asksOfHolds) reader.eachEnded((place, count) => batch.countEnded(place, count));
    this.#noteIdle();
  }

  #noteReceipts({ receipts, queue }: B, { notGivenBack }: ReplyReader): void {
    const { observer, onGivenBack, onNotGivenBack } = this.#options;
    const count = receipts.length - notGivenBack.length;
    if (count > 0) {
      observer.gaveBack(count);
      onGivenBack();
    }
    if (notGivenBack.length > 0) {
      const waiting = receipts.filter((_, place) => notGivenBack.includes(place));
      onNotGivenBack(waiting, queue);
    }
  }

  /** Fails the batch's groups, because it was not sent or was refused; nothing was paid or given back. */
  fail(batch: B, error: StoreError): void {
    if (batch.receipts.length > 0) this.#options.onNotGivenBack(batch.receipts, batch.queue);
    this.#failGroups(batch, error);
  }

  #failGroups(batch: B, error: StoreError): void {
    this.finish(batch);
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered) continue;
      this.#fail(batch, batched, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    this.#noteIdle();
  }

  /** Fails the batch's groups; it is unknown what was paid and given back. */
  lose(batch: B, error: StoreError): void {
    if (batch.isDone) return;
    const { observer } = this.#options;
    if (batch.groups.length > 0) observer.outcomeUnknown(batch.groups.length);
    // To give back twice would let more pass than the limit allows, so these receipts are dropped.
    if (batch.receipts.length > 0) observer.keptPaid(batch.receipts.length);
    this.#failGroups(batch, new StoreError(error.code, error.message, error.cause, true));
  }

  /**
   * The server ran nothing of the batch because somebody holds some keys: passes over the groups with a take for which `isHeld` is true.
   * Returns their number; the batch can be sent again for the rest.
   */
  passOver(batch: B, isHeld: (take: BatchedTake) => boolean, holder: number): number {
    let count = 0;
    for (const batched of batch.groups) {
      for (let i = 0; i < batched.size && !batched.isAnswered; i++) {
        const take = batch.takeOf(batched, i);
        if (take === undefined || !isHeld(take)) continue;
        this.#passOver(batch, batched, take.bucketKey, holder);
        count++;
      }
    }
    // The server works, so these count as successes.
    this.#record(batch, count, 0);
    return count;
  }

  /** Loses the sent batches of a lost connection, which `isOverIt` finds. */
  loseSent(error: StoreError, isOverIt: (batch: B) => boolean = () => true): void {
    for (const batch of [...this.#open]) if (batch.isSent && isOverIt(batch)) this.lose(batch, error);
  }

  /** Resolves when every batch has an outcome, or after `ms` milliseconds. */
  async whenIdle(ms: number): Promise<void> {
    if (this.#open.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /**
   * Gives up a batch without an outcome, unchanged: the server answered that another one keeps its keys, and paid nothing. The other server's
   * settler gets the batch by `adopt`.
   */
  release(batch: B): void {
    this.finish(batch);
    this.#record(batch, 1, 0);
    this.#options.breaker.noteAlive();
    batch.isProbe = false;
    batch.isSent = false;
    this.#noteIdle();
  }

  /** Takes over a batch that another settler has released. Its groups keep the times at which they are answered. */
  adopt(batch: B): void {
    batch.isHandedOver = true;
    batch.isDone = false;
    this.#open.add(batch);
    this.#takes += batch.takes;
    this.#arm(batch);
  }

  #settleGroups(batch: B, reader: ReplyReader, receivedUs: number): void {
    const { serverName, observer } = this.#options;
    let succeeded = 0;
    let failed = 0;
    let late = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered || batched.group.generation !== batched.generation) {
        this.#giveBackPaid(batch, batched, reader);
        reader.skip(batched);
      } else if (reader.verdict === TOO_LATE) {
        const error = `${serverName} came to the call's takes after their deadline, and paid nothing`;
        this.#fail(batch, batched, new StoreError("STORE_TOO_LATE", error));
        reader.skip(batched);
        failed++;
      } else if (reader.verdict === NO_COUNT) {
        const error = "the key of a counter holds no count; the call's other counters were charged";
        this.#fail(batch, batched, new StoreError("STORE_COUNTER", error, undefined, true));
        reader.skip(batched);
        succeeded++;
      } else if (reader.verdict === HOLDS_FULL) {
        this.#fail(batch, batched, HOLDS_FULL_ERROR);
        reader.skip(batched);
        succeeded++;
      } else if (reader.verdict === HELD) {
        const { place, holder } = reader.held;
        this.#passOver(batch, batched, batch.keyAt(place), holder);
        reader.skip(batched);
        // The server works.
        succeeded++;
      } else {
        if (batched.answerByUs < receivedUs) late++;
        succeeded++;
        reader.writeTo(batched.group, batched);
        this.#answer(batch, batched);
      }
    }
    if (late > 0) observer.loopLate(late);
    this.#record(batch, succeeded, failed);
  }

  #passOver(batch: B, batched: BatchedGroup, bucketKey: string, holder: number): void {
    const { onHeld, again, serverName } = this.#options;
    const queue = onHeld(bucketKey, holder, batched.group);
    if (queue === undefined) {
      const text = `somebody else has held rows of the call in ${serverName} for long`;
      this.#fail(batch, batched, new StoreError("STORE_TIMEOUT", text));
      return;
    }
    batched.isAnswered = true;
    batch.waiting--;
    again(batched, queue);
  }

  #giveBackPaid(batch: B, batched: BatchedGroup, reader: ReplyReader): void {
    reader.eachPaid(batched, (index, paidAtUs, cappedHits) => {
      const take = batch.takeOf(batched, index);
      if (take === undefined) return;
      const { bucketKey, limit, mode, holdId } = take;
      const cost = costToReturn({ mode, cost: take.cost, cappedHits });
      const sinceUs = this.#options.clock.nowUs();
      if (cost > 0) this.#options.giveBack({ bucketKey, limit, cost, paidAtUs, holdId, sinceUs }, batch.queue);
    });
  }

  #arm(batch: B): void {
    clearTimeout(batch.timer);
    let earliestUs = batch.isSent ? batch.sentUs + this.#options.silenceUsMax : Number.POSITIVE_INFINITY;
    for (const batched of batch.groups) {
      if (!batched.isAnswered && batched.answerByUs < earliestUs) earliestUs = batched.answerByUs;
    }
    if (earliestUs === Number.POSITIVE_INFINITY) return;
    const ms = Math.max(1, Math.ceil((earliestUs - this.#options.clock.nowUs()) / 1000));
    batch.timer = setTimeout(this.#onTimer, ms, batch);
  }

  // Timers run before sockets are read, and setImmediate after. So a reply that arrived while this process was busy is read before its deadline
  // is handled.
  readonly #onTimer = (batch: B): void => {
    setImmediate(this.#expire, batch);
  };

  readonly #expire = (batch: B): void => {
    // A batch that was handed over at this moment belongs to another settler, which has its own timer for it.
    if (!this.#open.has(batch)) return;
    const { clock, deadlineUs, serverName, silenceUsMax, onSilence } = this.#options;
    const nowUs = clock.nowUs();
    let error: StoreError | undefined;
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered || batched.answerByUs > nowUs) continue;
      const text = `no reply from ${serverName} within ${deadlineUs / 1000} ms or the call's deadline`;
      error ??= new StoreError("STORE_TIMEOUT", text, undefined, batch.isSent);
      this.#fail(batch, batched, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    if (batch.waiting === 0 && !batch.isSent) {
      this.#dropUnsent(batch);
      return;
    }
    // A connection may be lost without any error. It is given up then, and its takes fail.
    if (batch.isSent && nowUs - batch.sentUs >= silenceUsMax) {
      onSilence(batch, `has not answered for ${silenceUsMax / MICROS_PER_SECOND} seconds`);
      return;
    }
    // Other calls need not wait for an answer that nobody waits for.
    if (batch.waiting === 0) this.#underWay.leave(batch);
    this.#arm(batch);
  };

  #dropUnsent(batch: B): void {
    if (batch.receipts.length > 0) this.#options.onNotGivenBack(batch.receipts, batch.queue);
    this.#options.onUnsent(batch);
    this.finish(batch);
    this.#noteIdle();
  }

  /** Ends the wait for the batch's outcome, whatever happened to its groups. */
  finish(batch: B): void {
    clearTimeout(batch.timer);
    batch.isDone = true;
    if (!this.#open.delete(batch)) return;
    this.#takes -= batch.takes;
    this.#underWay.leave(batch);
  }

  #noteIdle(): void {
    if (this.#open.size === 0) this.#onIdle?.();
  }

  #fail(batch: B, batched: BatchedGroup, error: StoreError): void {
    if (batched.group.generation === batched.generation) {
      batched.group.verdict = Verdict.failed;
      batched.group.failure = error;
      this.#options.observer.failed(error);
    }
    this.#answer(batch, batched);
  }

  #answer(batch: B, batched: BatchedGroup): void {
    batched.isAnswered = true;
    batch.waiting--;
    if (batched.group.generation !== batched.generation) return;
    try {
      batched.then.settled(batched.group, batched.generation);
    } catch (error) {
      // An exception of this caller must not reach the other groups, so it is thrown later.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  #record(batch: B, succeeded: number, failures: number): void {
    // A group's deadline that passes after a hand-over tells nothing about this server.
    const failed = batch.isHandedOver ? 0 : failures;
    if (succeeded === 0 && failed === 0) return;
    const { breaker, clock } = this.#options;
    breaker.record({ succeeded, failed, isProbe: batch.isProbe }, clock.nowUs());
  }
}
