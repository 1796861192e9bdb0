// Answers the groups of batches: by the reply, at the deadline, or because the connection was lost, whichever comes
// first.
//
// - Each group is answered exactly once (Batch.answer), and never written after its generation has changed.
// - Each batch has one outcome (Batch.state): answered by its reply, failed (nothing was paid), lost (unknown what
//   was), or released to another server. Until then it is in `#open`, and its takes count against the bound on takes in
//   flight.
// - What a reply says was paid for a group that was answered already is given back by receipt. Of a lost batch nothing
//   is given back, because its payments are unknown.
// - A batch has a timer for its earliest deadline, or while it is sent for the connection's silence. Timers act after
//   the sockets were read.
// - The breaker hears of each group once: as a success if the server answered it, as a failure if it got no answer in
//   time. Groups of a batch that was redirected count as failures nowhere.

import { StoreError } from "../../base/errors.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { HOLDS_FULL_ERROR } from "../../engine/domain/limit.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import { type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { costToReturn } from "../../engine/domain/verdict.ts";
import type { Batch, BatchedGroup, BatchedTake } from "./batch.ts";
import type { Breaker } from "./breaker.ts";
import type { GiveBacks } from "./give-backs.ts";
import type { CompleteOptions } from "./options.ts";
import type { BatchQueues } from "./queues.ts";
import { HELD, NOT_COUNTED, NOT_COUNTED_ERROR, type ReplyReader, TOO_LATE } from "./reply.ts";
import { answerByUs, type ServerTime } from "./server-time.ts";

/** A latest time of payment that is in the past for every server. */
const NEVER_PAY_US = 1;
/** Means no latest time to the server. */
const ANY_TIME = 0;

interface AnswersOptions<B extends Batch> extends Omit<CompleteOptions, "breaker"> {
  /** The server's name in sentences, such as Redis. */
  readonly serverName: string;
  readonly serverTime: ServerTime;
  /** Hears each group's outcome. */
  readonly breaker: Breaker;
  readonly queues: BatchQueues<B>;
  /** Take payments of groups that had been answered without the store. */
  readonly giveBacks: GiveBacks;
}

/** What leads from an answer back to sending; the Intake does it. */
export interface BackToSending<B extends Batch> {
  /** A sent batch has its outcome, or all its callers were answered: its queue has room for another. */
  onRoom(): void;
  /**
   * A group was passed over because `holder` holds this key: has it wait in another batch. False if it shall fail
   * instead.
   */
  sendAgain(batched: BatchedGroup, bucketKey: string, holder: number): boolean;
  /** A sent batch has had no answer for so long that its connection should be given up. */
  onSilence(batch: B, trouble: string): void;
}

/** Keeps the batches without an outcome: those being filled, and those under way. */
export class Answers<B extends Batch> {
  readonly #options: AnswersOptions<B>;
  readonly #back: BackToSending<B>;
  /** In the order in which they came. */
  readonly #open = new Set<B>();
  #takes = 0;

  constructor(options: AnswersOptions<B>, back: BackToSending<B>) {
    this.#options = options;
    this.#back = back;
  }

  /** Whether every batch has an outcome. */
  get isIdle(): boolean {
    return this.#open.size === 0;
  }

  /** Takes of batches without an outcome; those answered without it count too. */
  get takes(): number {
    return this.#takes;
  }

  /** Adds the group to the batch. */
  add(batch: B, group: TakeGroup, then: TakeListener): void {
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
    added.state = "timed";
    this.#arm(batch);
  }

  /**
   * Sets the time at which groups are answered without the store, for those that have none yet, and a timer for it.
   * Groups whose own deadline has passed fail at once; the request tells the server not to pay for them.
   */
  setDeadlines(batch: B): void {
    const nowUs = this.#options.clock.nowUs();
    let tooLate: StoreError | undefined;
    let count = 0;
    let hasNewDeadline = false;
    // A caller that is answered here may call again at once, and so add a group to this batch; that group is handled
    // later.
    const { length } = batch.groups;
    for (let i = 0; i < length; i++) {
      const batched = batch.groups[i];
      if (batched?.state !== "added") continue;
      hasNewDeadline = true;
      batched.state = "timed";
      batched.answerByUs = answerByUs(nowUs, batched.answerByUs, this.#options);
      if (batched.answerByUs > nowUs) continue;
      tooLate ??= new StoreError("STORE_TOO_LATE", "the call's deadline passed before its takes could be sent");
      count++;
      this.#fail(batch, batched, tooLate);
    }
    if (count > 0) this.#options.observer.loopLate(count);
    if (hasNewDeadline) this.#arm(batch);
  }

  /**
   * Sets missing deadlines, and begins to wait for the batch's reply. Returns false if the batch has nothing left to
   * send; then it is done.
   */
  begin(batch: B): boolean {
    this.setDeadlines(batch);
    if (!batch.isWanted) {
      this.finish(batch);
      return false;
    }
    this.#options.queues.enter(batch);
    batch.state = "sent";
    batch.sentUs = this.#options.clock.nowUs();
    this.#open.add(batch);
    if (batch.waiting === 0) this.#arm(batch);
    return true;
  }

  /** The latest server time at which a group may still pay. */
  readonly latestOf = (batched: BatchedGroup): number => {
    if (batched.isGiveBack) return ANY_TIME;
    if (batched.state === "answered") return NEVER_PAY_US;
    const { injectedTime, serverTime } = this.#options;
    // With an injected time no call can be late, because the time does not depend on when the call arrives.
    if (injectedTime !== undefined) return ANY_TIME;
    return Math.max(NEVER_PAY_US, Math.floor(serverTime.latestFor(batched.answerByUs)));
  };

  /** Answers the batch by its reply, which `isReplyTo` has accepted. */
  answer(batch: B, reader: ReplyReader): void {
    const { clock, serverTime, observer, injectedTime } = this.#options;
    this.finish(batch);
    const receivedUs = clock.nowUs();
    const { sentUs } = batch;
    if (injectedTime === undefined) serverTime.observe({ sentUs, serverUs: reader.serverUs, receivedUs });
    observer.answered(receivedUs - sentUs, batch.takes - batch.giveBacks);
    if (reader.damaged > 0) observer.damaged(reader.damaged);
    this.#answerGroups(batch, reader, receivedUs);
    if (batch.asksOfHolds) reader.eachEnded((place, count) => batch.countEnded(place, count));
  }

  /**
   * Fails the batch's groups, because it was not sent or was refused; nothing was paid or given back. `isWell`: the
   * server works, and only other calls were in the way of these.
   */
  fail(batch: B, error: StoreError, isWell = false): void {
    this.finish(batch);
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.state === "answered") continue;
      this.#fail(batch, batched, error);
      if (!batched.isGiveBack) failed++;
    }
    this.#record(batch, isWell ? failed : 0, isWell ? 0 : failed);
  }

  /** Fails the batch's groups; it is unknown what was paid and given back. */
  lose(batch: B, error: StoreError): void {
    if (batch.state === "done") return;
    const groups = batch.groups.length - batch.giveBacks;
    if (groups > 0) this.#options.observer.outcomeUnknown(groups);
    this.fail(batch, new StoreError(error.code, error.message, error.cause, true));
  }

  /**
   * The server ran nothing of the batch because somebody holds some keys: passes over the groups with a take for which
   * `isHeld` is true. Returns their number; the batch can be sent again for the rest.
   */
  passOver(batch: B, isHeld: (take: BatchedTake) => boolean, holder: number): number {
    let count = 0;
    for (const batched of batch.groups) {
      for (let i = 0; i < batched.size && batched.state !== "answered"; i++) {
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
    for (const batch of [...this.#open]) if (batch.state === "sent" && isOverIt(batch)) this.lose(batch, error);
  }

  /**
   * Gives up a batch without an outcome, unchanged: the server said that another one has its keys, and paid nothing.
   * The other server gets the batch by `adopt`.
   */
  release(batch: B): void {
    this.finish(batch);
    this.#record(batch, 1, 0);
    this.#options.breaker.noteAlive();
  }

  /** Takes over a batch that another server has released. Its groups keep the times at which they are answered. */
  adopt(batch: B): void {
    batch.redirections++;
    batch.state = "waiting";
    this.#open.add(batch);
    this.#takes += batch.takes;
    this.#arm(batch);
  }

  #answerGroups(batch: B, reader: ReplyReader, receivedUs: number): void {
    let succeeded = 0;
    let failed = 0;
    let late = 0;
    for (const batched of batch.groups) {
      const { verdict } = reader;
      if (batched.state === "answered" || batched.group.generation !== batched.generation) {
        this.#giveBackPaid(batch, batched, reader);
      } else if (verdict === TOO_LATE) {
        failed++;
        const text = `${this.#options.serverName} came to the call's takes after their deadline, and paid nothing`;
        this.#fail(batch, batched, new StoreError("STORE_TOO_LATE", text));
      } else {
        // The server works, even if it did not decide this group.
        succeeded++;
        if (verdict > TOO_LATE) this.#endUnpaid(batch, batched, reader);
        else {
          if (batched.answerByUs < receivedUs && !batched.isGiveBack) late++;
          reader.writeTo(batched.group, batched);
          batch.answer(batched);
          continue;
        }
      }
      reader.skip(batched);
    }
    if (late > 0) this.#options.observer.loopLate(late);
    this.#record(batch, succeeded, failed);
  }

  #endUnpaid(batch: B, batched: BatchedGroup, { verdict, held }: ReplyReader): void {
    if (verdict === HELD) this.#passOver(batch, batched, batch.keyAt(held.place), held.holder);
    else this.#fail(batch, batched, verdict === NOT_COUNTED ? NOT_COUNTED_ERROR : HOLDS_FULL_ERROR);
  }

  #passOver(batch: B, batched: BatchedGroup, bucketKey: string, holder: number): void {
    // What is to be given back can wait until its row is free, so it never waits with other rows locked.
    if (!batched.isGiveBack && this.#back.sendAgain(batched, bucketKey, holder)) {
      batch.leave(batched);
      return;
    }
    const text = `somebody else has held rows of the call in ${this.#options.serverName} for long`;
    this.#fail(batch, batched, new StoreError("STORE_TIMEOUT", text));
  }

  #giveBackPaid(batch: B, batched: BatchedGroup, reader: ReplyReader): void {
    const { clock, giveBacks, onUndone } = this.#options;
    reader.eachPaid(batched, (index, paidAtUs, cappedHits) => {
      const take = batch.takeOf(batched, index);
      const cost = take === undefined ? 0 : costToReturn({ mode: take.mode, cost: take.cost, cappedHits });
      if (take === undefined || cost === 0) return;
      onUndone(take);
      giveBacks.add({ ...take, cost, paidAtUs, sinceUs: clock.nowUs(), queue: batch.giveBackQueue });
    });
  }

  #arm(batch: B): void {
    clearTimeout(batch.timer);
    let earliestUs = batch.state === "sent" ? batch.sentUs + this.#options.silenceUsMax : Number.POSITIVE_INFINITY;
    for (const batched of batch.groups) {
      if (batched.answerByUs < earliestUs && isAwaited(batched)) earliestUs = batched.answerByUs;
    }
    if (earliestUs === Number.POSITIVE_INFINITY) return;
    const ms = Math.max(1, Math.ceil((earliestUs - this.#options.clock.nowUs()) / 1000));
    batch.timer = setTimeout(this.#onTimer, ms, batch);
  }

  // Timers run before sockets are read, and setImmediate after. So a reply that arrived while this process was busy is
  // read before its deadline is handled.
  readonly #onTimer = (batch: B): void => {
    setImmediate(this.#expire, batch);
  };

  readonly #expire = (batch: B): void => {
    // A batch that was redirected at this moment belongs to another server, which has its own timer for it.
    if (!this.#open.has(batch)) return;
    const { clock, deadlineUs, serverName, silenceUsMax } = this.#options;
    const nowUs = clock.nowUs();
    const isSent = batch.state === "sent";
    const text = `no reply from ${serverName} within ${deadlineUs / 1000} ms or the call's deadline`;
    const error = new StoreError("STORE_TIMEOUT", text, undefined, isSent);
    let failed = 0;
    for (const batched of batch.groups) {
      if (!isAwaited(batched) || batched.answerByUs > nowUs) continue;
      if (batched.isGiveBack) {
        batched.state = "late";
        batch.waiting--;
        continue;
      }
      this.#fail(batch, batched, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    if (batch.waiting === 0 && !isSent) {
      this.#options.queues.remove(batch);
      this.fail(batch, error);
      return;
    }
    // A connection may be lost without any error. It is given up then, and its takes fail.
    if (isSent && nowUs - batch.sentUs >= silenceUsMax) {
      this.#back.onSilence(batch, `has not answered for ${silenceUsMax / MICROS_PER_SECOND} seconds`);
      return;
    }
    // Other calls need not wait for an answer that nobody waits for.
    if (batch.waiting === 0) this.#leave(batch);
    this.#arm(batch);
  };

  /** Ends the wait for the batch's outcome, whatever happened to its groups. */
  finish(batch: B): void {
    clearTimeout(batch.timer);
    batch.state = "done";
    if (!this.#open.delete(batch)) return;
    this.#takes -= batch.takes;
    this.#leave(batch);
  }

  #leave(batch: B): void {
    if (this.#options.queues.leave(batch)) this.#back.onRoom();
  }

  #fail(batch: B, batched: BatchedGroup, error: StoreError): void {
    if (batched.group.generation === batched.generation) {
      batched.group.verdict = Verdict.failed;
      batched.group.failure = error;
      if (!batched.isGiveBack) this.#options.onFailed(error);
    }
    batch.answer(batched);
  }

  #record(batch: B, succeeded: number, failures: number): void {
    // A deadline that passes after a redirection says nothing about this server.
    const failed = batch.redirections > 0 ? 0 : failures;
    if (succeeded === 0 && failed === 0) return;
    const { breaker, clock } = this.#options;
    breaker.record(succeeded, failed, clock.nowUs());
  }
}

/** Whether the group is to be answered by its deadline. */
function isAwaited({ state }: BatchedGroup): boolean {
  return state === "added" || state === "timed";
}
