// Brings batches to PostgreSQL and settles their groups: by the reply, by the deadline, or because the connection was
// lost. Batches wait in a queue while all connections are busy, and fill up meanwhile. What PostgreSQL rolled back
// because of another transaction is sent again, a bounded number of times; nothing else is.

import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../core/clock.ts";
import { StoreError } from "../../core/errors.ts";
import { Mode, type TakeGroup, Verdict } from "../../core/take.ts";
import type { Receipt, Receipts } from "../redis/receipts.ts";
import type { ServerTime } from "../redis/server-time.ts";
import type { Settled } from "../store.ts";
import type { StoreObserver } from "../store-observer.ts";
import type { Breaker } from "../wrappers/breaker.ts";
import { Batch, type BatchedGroup } from "./batch.ts";
import { isRefusal, isWorthRepeating, type PostgresConnection } from "./connect.ts";
import { type Link, TAKE_ALL } from "./link.ts";
import { Reply, TOO_LATE } from "./reply.ts";

/** A latest time of payment that lies in the past of every server. */
const NEVER_PAY_US = 1;
/** What take_all takes as no latest time. */
const ANY_TIME = 0;
/** A call is made this often at most. */
const ATTEMPTS_MAX = 6;
/** From the third attempt on there is a pause first, of a random length that may double each time. */
const PAUSE_MS = 1;

export interface DispatchOptions {
  readonly clock: Clock;
  readonly serverTime: ServerTime;
  /** Time that is passed in instead of the server's own; tests only. */
  readonly injectedTime: Clock | undefined;
  readonly isSerializable: boolean;
  readonly deadlineUs: number;
  /** A connection that owes an answer for longer than this is given up. */
  readonly silenceUsMax: number;
  readonly observer: StoreObserver;
  readonly breaker: Breaker;
  readonly receipts: Receipts;
  /** A connection that a statement can be sent over now. */
  readonly freeLink: () => Link | undefined;
  readonly describe: (error: unknown) => string;
  /** Where PostgreSQL is, as sentences about it begin. */
  readonly serverName: string;
  /** PostgreSQL refused a call, over that connection. */
  readonly onRefusal: (error: unknown, sentence: string, link: Link) => void;
  /** PostgreSQL settled a call. */
  readonly onAnswer: () => void;
}

interface Sent {
  readonly batch: Batch;
  readonly link: Link;
}

/** The batches that wait and those that are under way. */
export class Dispatch {
  readonly #options: DispatchOptions;
  /** Unsent, oldest first; the last one may still be filled. */
  #queue: Batch[] = [];
  readonly #underWay = new Set<Sent>();
  #takes = 0;
  #onIdle: (() => void) | undefined;

  /** How many calls were made again, since the start. */
  repeats = 0;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** Takes whose call has no outcome yet, those that were answered without it included. */
  get takes(): number {
    return this.#takes;
  }

  /** The batch that the group can join, if one waits that has room. */
  batchFor(group: TakeGroup): Batch | undefined {
    const batch = this.#queue.at(-1);
    return batch?.hasRoomFor(group) === true ? batch : undefined;
  }

  /** Has the group wait for `flush`; returns the batch that it travels in. */
  add(group: TakeGroup, then: Settled): Batch {
    let batch = this.batchFor(group);
    if (batch === undefined) {
      batch = new Batch();
      this.#queue.push(batch);
    }
    const { clock, deadlineUs } = this.#options;
    batch.add(group, then, Math.min(group.deadlineUs, clock.nowUs() + deadlineUs));
    this.#takes += group.size;
    return batch;
  }

  /** Sends what waits, as far as connections are free. Every group is settled by its deadline at the latest. */
  flush(): void {
    const nowUs = this.#options.clock.nowUs();
    for (const batch of this.#queue) {
      if (batch.attempts === 0) this.#failPassed(batch, nowUs);
      this.#arm(batch);
    }
    this.pump();
  }

  /** Sends waiting batches over free connections; with receipts alone if there is no other. */
  pump(): void {
    const { freeLink, receipts, breaker } = this.#options;
    for (let link = freeLink(); link !== undefined; link = freeLink()) {
      const canGiveBack = !receipts.isEmpty && breaker.state === "closed";
      let batch = this.#queue.shift();
      if (batch === undefined && !canGiveBack) return;
      batch ??= new Batch();
      if (canGiveBack) receipts.moveTo(batch.receipts);
      void this.#send(batch, link);
    }
  }

  /** Fails all that waits: it can't be sent. */
  failQueue(error: StoreError): void {
    const queue = this.#queue;
    this.#queue = [];
    for (const batch of queue) this.#drop(batch, error);
  }

  /** The connection is gone. What was paid over it stays paid; nobody knows which. */
  lose(link: Link, error: StoreError): void {
    for (const sent of [...this.#underWay]) if (sent.link === link) this.#lose(sent, error);
  }

  /** Resolves when nothing is under way or waits any more, or after `ms`. */
  async whenIdle(ms: number): Promise<void> {
    if (this.#takes === 0 && this.#underWay.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #send(batch: Batch, link: Link): Promise<void> {
    const sent = { batch, link };
    this.#underWay.add(sent);
    try {
      await link.use(async (connection) => {
        for (;;) {
          try {
            this.#onReply(sent, await this.#call(batch, connection));
            return;
          } catch (error) {
            if (!(await this.#repeats(batch, error))) {
              this.#onError(sent, error);
              return;
            }
          }
        }
      });
    } catch (error) {
      // What the callers of our callers throw is theirs; the connection's own failures end above.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  async #call(batch: Batch, connection: PostgresConnection): Promise<string | null | undefined> {
    const { clock, injectedTime, isSerializable } = this.#options;
    batch.attempts++;
    batch.sentUs = clock.nowUs();
    const { keys, limits, groups } = batch.encode((batched) => this.#latestOf(batched));
    const values = [keys, String(injectedTime?.nowUs() ?? 0), limits, groups, String(!isSerializable)];
    const rows = await connection.query({ ...TAKE_ALL, values });
    return rows[0]?.[0];
  }

  /** Whether the batch goes out again, after a pause if it was in conflict repeatedly. */
  async #repeats(batch: Batch, error: unknown): Promise<boolean> {
    if (batch.isDone || !isWorthRepeating(error) || batch.attempts >= ATTEMPTS_MAX) return false;
    // Nobody waits for it any more, and nothing was paid.
    if (batch.waiting === 0 && batch.receipts.length === 0) return false;
    this.repeats++;
    this.#options.observer.repeated();
    if (batch.attempts > 1) await sleep(Math.random() * PAUSE_MS * 2 ** (batch.attempts - 1));
    return true;
  }

  #latestOf(batched: BatchedGroup): number {
    if (batched.isAnswered) return NEVER_PAY_US;
    const { injectedTime, serverTime } = this.#options;
    // Time that is passed in is the same whenever the call arrives: it can't be late.
    if (injectedTime !== undefined) return ANY_TIME;
    return Math.max(NEVER_PAY_US, Math.floor(serverTime.latestFor(batched.deadlineUs)));
  }

  // A group whose own deadline passed before it could be sent fails at once.
  #failPassed(batch: Batch, nowUs: number): void {
    let tooLate: StoreError | undefined;
    let count = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered || batched.deadlineUs > nowUs) continue;
      tooLate ??= new StoreError("STORE_TOO_LATE", "the call's deadline passed before its takes could be sent", {
        transient: true,
      });
      count++;
      this.#fail(batched, batch, tooLate);
    }
    if (count === 0) return;
    this.#options.observer.loopLate(count);
    this.#record(batch, 0, count);
  }

  #arm(batch: Batch): void {
    clearTimeout(batch.timer);
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
      const text = `no reply from PostgreSQL within ${deadlineUs / 1000} ms or the call's deadline`;
      error ??= new StoreError("STORE_TIMEOUT", text, { transient: true });
      this.#fail(batched, batch, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    if (batch.waiting > 0) this.#arm(batch);
    else if (batch.attempts === 0) this.#leaveQueue(batch);
    this.#checkSilence(nowUs);
  };

  /** All of its groups were answered before it could be sent. */
  #leaveQueue(batch: Batch): void {
    this.#queue = this.#queue.filter((other) => other !== batch);
    this.#finish(batch);
  }

  // A connection can be gone without anybody saying so: then it is given up, and its takes with it.
  #checkSilence(nowUs: number): void {
    const { silenceUsMax, serverName } = this.#options;
    const trouble = `${serverName} has not answered for ${silenceUsMax / 1_000_000} seconds`;
    for (const { batch, link } of [...this.#underWay]) {
      if (nowUs - batch.sentUs > silenceUsMax) link.reconnect(trouble);
    }
  }

  #onReply(sent: Sent, text: string | null | undefined): void {
    const { batch, link } = sent;
    if (batch.isDone) return;
    const { clock, serverTime, observer, onAnswer, injectedTime, serverName } = this.#options;
    const reply = Reply.parse(text, batch);
    if (reply === undefined) {
      const error = "PostgreSQL sent a reply that is none to a take";
      this.#lose(sent, new StoreError("STORE_REPLY", error, { transient: true }));
      link.reconnect(`${serverName} sent a reply that is none to a take`);
      return;
    }
    this.#finish(batch);
    this.#underWay.delete(sent);
    const receivedUs = clock.nowUs();
    if (injectedTime === undefined) serverTime.observe({ sentUs: batch.sentUs, serverUs: reply.serverUs, receivedUs });
    observer.answered(receivedUs - batch.sentUs, batch.takes);
    if (reply.damaged > 0) observer.damaged(reply.damaged);
    if (batch.receipts.length > 0) observer.gaveBack(batch.receipts.length);
    onAnswer();
    this.#settleAll(batch, reply, receivedUs);
    this.#noteIdle();
  }

  #settleAll(batch: Batch, reply: Reply, receivedUs: number): void {
    let succeeded = 0;
    let failed = 0;
    let late = 0;
    batch.groups.forEach((batched, index) => {
      if (batched.isAnswered || batched.group.generation !== batched.generation) {
        this.#giveBackPaid(batched, index, reply);
      } else if (reply.verdictOf(index) === TOO_LATE) {
        const error = "PostgreSQL came to the call's takes after their deadline, and paid nothing";
        this.#fail(batched, batch, new StoreError("STORE_TOO_LATE", error, { transient: true }));
        failed++;
      } else {
        if (batched.deadlineUs < receivedUs) late++;
        succeeded++;
        reply.writeTo(batched.group, index);
        this.#answer(batched, batch);
      }
    });
    if (late > 0) this.#options.observer.loopLate(late);
    this.#record(batch, succeeded, failed);
  }

  #giveBackPaid(batched: BatchedGroup, index: number, reply: Reply): void {
    batched.takes.forEach(({ bucketKey, limit, mode, cost }, i) => {
      const payment = reply.paymentOf(index, i);
      if (payment === undefined || (mode !== Mode.pay && mode !== Mode.postPaid)) return;
      const { paidAtUs, cappedHits } = payment;
      const receipt: Receipt = { bucketKey, limit, cost: cost - cappedHits, paidAtUs };
      if (receipt.cost > 0) this.#options.receipts.add(receipt);
    });
  }

  #onError(sent: Sent, error: unknown): void {
    const { batch, link } = sent;
    if (batch.isDone) return;
    const { describe, onRefusal } = this.#options;
    const sentence = describe(error);
    if (!isRefusal(error)) {
      this.#lose(sent, new StoreError("STORE_UNREACHABLE", sentence, { transient: true, cause: error }));
      link.reconnect(sentence);
      return;
    }
    this.#underWay.delete(sent);
    // What PostgreSQL says may quote values; it is described, never passed on.
    this.#drop(batch, new StoreError("STORE_COMMAND", sentence, { transient: true }));
    onRefusal(error, sentence, link);
  }

  #lose(sent: Sent, error: StoreError): void {
    this.#underWay.delete(sent);
    if (sent.batch.isDone) return;
    if (sent.batch.groups.length > 0) this.#options.observer.outcomeUnknown(sent.batch.groups.length);
    this.#drop(sent.batch, error);
  }

  #drop(batch: Batch, error: StoreError): void {
    this.#finish(batch);
    let failed = 0;
    for (const batched of batch.groups) {
      if (batched.isAnswered) continue;
      this.#fail(batched, batch, error);
      failed++;
    }
    this.#record(batch, 0, failed);
    this.#noteIdle();
  }

  #finish(batch: Batch): void {
    if (batch.isDone) return;
    clearTimeout(batch.timer);
    batch.isDone = true;
    this.#takes -= batch.takes;
  }

  #noteIdle(): void {
    if (this.#takes === 0 && this.#underWay.size === 0) this.#onIdle?.();
  }

  #fail(batched: BatchedGroup, batch: Batch, error: StoreError): void {
    if (batched.group.generation === batched.generation) {
      batched.group.verdict = Verdict.failed;
      batched.group.failure = error;
      this.#options.observer.failed(error);
    }
    this.#answer(batched, batch);
  }

  #answer(batched: BatchedGroup, batch: Batch): void {
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
