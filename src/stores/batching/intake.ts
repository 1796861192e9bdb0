// The entrance to one server that takes travel to in batches: admits takes or says why not, gathers those of one turn of the event loop, and
// has them sent when the turn ends. The store has connections and the form of a call; the settler answers.

import { StoreError } from "../../engine/base/errors.ts";
import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { Source, type TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { costToReturn } from "../../engine/domain/verdict.ts";
import type { SettleListener } from "../store.ts";
import type { Batch } from "./batch.ts";
import { Breaker } from "./breaker.ts";
import type { CompleteOptions } from "./options.ts";
import { type ProbeBucket, Probes } from "./probes.ts";
import { type Receipt, Receipts } from "./receipts.ts";
import { RetryPause } from "./retry-pause.ts";
import { ServerTime } from "./server-time.ts";
import { Settler } from "./settler.ts";
import { WaitingBatches } from "./waiting-batches.ts";

/**
 * Number of a queue's calls under way from which takes are held back for batching. The server settles one while the next waits for it; more
 * calls would only queue there, each with its own overhead.
 */
const UNDER_WAY_MAX = 2;
/**
 * Most calls of receipts alone under way: those of an outage would keep takes waiting, which carry receipts as well. A call that is refused over
 * several queues of a cluster is undone at once all the same.
 */
const ALONE_MAX = 8;
/** Closing waits for answers at least this long. */
const CLOSE_MS_MIN = 250;
/** Closing waits at most this long for receipts to be given back. */
const GIVE_BACK_MS_MAX = 1_000;
/** Interval at which closing checks whether receipts that the server refused can be sent again. */
const REFUSED_MS = 10;

/** What an intake asks of the code for its server. */
interface ServerSide<B extends Batch> {
  /** The server's name in sentences, such as Redis. */
  readonly name: string;
  readonly newBatch: (queue: number) => B;
  readonly isUp: () => boolean;
  /** Why the server is not up, in one sentence. */
  readonly downSentence: () => string;
  /** Called at the end of a turn while the server is up: has to send what was gathered, from `takeReady` or `next`. */
  readonly send: () => void;
  /** The batch has had no answer for so long that its connection should be given up. */
  readonly onSilence: (batch: B, trouble: string) => void;
  /** See ProbesOptions. */
  readonly probeBucket: () => ProbeBucket | undefined;
  /** See SettlerOptions. Absent: the server passes over no group. */
  readonly onHeld?: (bucketKey: string, holder: number, group: TakeGroup) => number | undefined;
  /** The queue in which payments of a queue are given back. Absent: the same queue. */
  readonly queueOfReceipts?: (queue: number) => number;
}

/** Admits and gathers the takes for one server. */
export class Intake<B extends Batch> {
  /** Answers the takes. */
  readonly settler: Settler<B>;
  readonly serverTime = new ServerTime();
  readonly #options: CompleteOptions;
  readonly #server: ServerSide<B>;
  readonly #breaker: Breaker;
  readonly #probes: Probes;
  readonly #receipts: Receipts;
  readonly #receiptPause = new RetryPause();
  /** While it runs, receipts wait, because the server has refused the last ones. */
  #receiptTimer: NodeJS.Timeout | undefined;
  readonly #gathering = new WaitingBatches<B>();
  readonly #pauseError: StoreError;
  readonly #fullError: StoreError;
  #isScheduled = false;
  #isClosed = false;
  /** The one batch that may be sent while the breaker probes. */
  #probe: B | undefined;
  /** The batches of receipts alone that are under way. */
  readonly #alone = new Set<B>();
  /** Whether the batch that `next` returned last was one of them. */
  #wasAlone = false;
  /** What the server refused last; undefined once it settles a call. */
  #refusal: string | undefined;

  constructor(options: CompleteOptions, server: ServerSide<B>) {
    this.#options = options;
    this.#server = server;
    const { name } = server;
    this.#pauseError = new StoreError("STORE_BREAKER_OPEN", pauseSentence(name));
    this.#fullError = new StoreError("STORE_QUEUE_FULL", `too many takes wait for ${name}`);
    this.#receipts = new Receipts((count) => options.observer.keptPaid(count));
    this.#breaker = new Breaker(options.breaker, (state) => {
      this.#probe = undefined;
      options.observer.breakerChanged(state);
      options.observer.serverBreakerChanged(name, state);
      if (state === "closed" && !this.#receipts.isEmpty) this.schedule();
      if (state === "open") this.#probes.begin();
    });
    this.#probes = new Probes({
      pauseUs: options.breaker.pauseUs,
      areNeeded: () => !this.#isClosed && server.isUp() && this.trouble() !== undefined,
      bucket: server.probeBucket,
      take: (group, then, queue) => this.take(group, then, queue),
    });
    this.settler = new Settler<B>({
      ...options,
      serverName: name,
      serverTime: this.serverTime,
      breaker: this.#breaker,
      giveBack: (receipt, queue) => {
        options.onUndone(receipt);
        this.addReceipt(receipt, queue);
      },
      onGivenBack: () => this.#receiptPause.reset(),
      onNotGivenBack: (receipts, queue) => this.#giveBackLater(receipts, queue),
      onHeld: (bucketKey, holder, group) => server.onHeld?.(bucketKey, holder, group),
      again: (batched, queue) => {
        this.settler.addAgain(this.#batchFor(batched.group, queue), batched);
        this.schedule();
      },
      onUnsent: (batch) => this.#gathering.remove(batch),
      onRoom: () => {
        if (!this.#gathering.isEmpty || this.#canGiveBack()) this.schedule();
      },
      onSilence: server.onSilence,
    });
  }

  /** Like Store.take; all takes of the group belong to `queue`, 0 without queues. */
  take(group: TakeGroup, then: SettleListener, queue = 0): boolean {
    group.source = Source.store;
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    const error = this.#reasonNotToSend(group, queue);
    if (error !== undefined) {
      group.verdict = Verdict.failed;
      group.failure = error;
      this.#options.observer.failed(error);
      return true;
    }
    const batch = this.#batchFor(group, queue);
    this.settler.add(batch, group, then);
    this.schedule();
    return false;
  }

  /** Like Store.giveBack; all takes of the group belong to `queue`. */
  giveBack(group: TakeGroup, queue = 0): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (!take?.paid) continue;
      const cost = costToReturn(take);
      const { bucketKey, limit, paidAtUs, holdId } = take;
      const sinceUs = this.#options.clock.nowUs();
      if (cost > 0) this.addReceipt({ bucketKey, limit, cost, paidAtUs, holdId, sinceUs }, queue);
    }
  }

  /** Gives a payment back with the next call of its queue. */
  addReceipt(receipt: Receipt, queue: number): void {
    this.#receipts.add(receipt, this.#server.queueOfReceipts?.(queue) ?? queue);
    if (this.#server.isUp()) this.schedule();
  }

  /** Passes on the outstanding receipts, because another server keeps their buckets now. */
  drainReceipts(each: (receipt: Receipt, queue: number) => void): void {
    this.#receipts.drain(each);
  }

  /** Has what waits sent at the end of this turn: after all sockets have been read, so that their takes travel together. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurnEnd);
  }

  /**
   * Removes and returns what was gathered, with receipts; or receipts alone. While a queue has UNDER_WAY_MAX calls under way, its takes wait
   * until one of them is answered or their batch is full. So a busy server gets fewer and larger calls, and an idle one is asked at once.
   */
  takeReady(): B[] {
    const batches = this.#gathering.takeReady(this.#hasRoom);
    this.setDeadlines();
    if (!this.#canGiveBack()) return batches;
    for (const batch of batches) this.#addReceiptsTo(batch);
    // Further receipts follow when these have their answer; when closing, all of them at once.
    for (;;) {
      const alone = this.#receiptsAlone(ALONE_MAX);
      if (alone === undefined) return batches;
      batches.push(alone);
    }
  }

  /**
   * Removes and returns the oldest batch whose queue `hasRoom`, with receipts; before it receipts alone, if no batch of their queue waits, and in
   * turns with takes, because there may be only one connection. Undefined if nothing can be sent.
   */
  next(hasRoom: (queue: number) => boolean = () => true): B | undefined {
    const alone = this.#wasAlone ? undefined : this.#nextAlone(hasRoom);
    const batch = alone ?? this.#nextOfTakes(hasRoom) ?? this.#nextAlone(hasRoom);
    this.#wasAlone = batch !== undefined && this.#alone.has(batch);
    return batch;
  }

  /** Sets deadlines for gathered takes that may have to wait: each group is answered in time, sent or not. */
  setDeadlines(): void {
    for (const batch of this.#gathering) this.settler.setDeadlines(batch);
  }

  /** Notes a new connection: the cause of failures may be gone. */
  onUp(): void {
    this.#refusal = undefined;
    this.#breaker.endPause();
    this.#probes.begin();
    if (!this.#receipts.isEmpty || !this.#gathering.isEmpty) this.schedule();
  }

  /** Fails what was gathered, because nothing can be sent. */
  failGathered(): void {
    for (const batch of this.#gathering.takeAll()) this.settler.fail(batch, this.unreachable());
  }

  /** Notes that the server refused a call, with a sentence that says how. */
  onRefusal(sentence: string): void {
    this.#refusal = sentence;
    this.#probes.begin();
  }

  /** Notes that the server settled a call. */
  onAnswer(): void {
    this.#refusal = undefined;
  }

  /** Undefined while the server is up and gets takes; otherwise the reason, in one sentence. */
  trouble(): string | undefined {
    if (!this.#server.isUp()) return this.#server.downSentence();
    if (this.#refusal !== undefined) return this.#refusal;
    return this.#breaker.state === "closed" ? undefined : pauseSentence(this.#server.name);
  }

  /** The error of takes that get no answer. One object per trouble, because creating an error with its stack costs more than a take. */
  unreachable(): StoreError {
    const sentence = this.#server.downSentence();
    if (this.#unreachableError?.message !== sentence) {
      this.#unreachableError = new StoreError("STORE_UNREACHABLE", sentence);
    }
    return this.#unreachableError;
  }
  #unreachableError: StoreError | undefined;

  /**
   * Refuses new takes, and waits for outstanding answers, and until everything has been given back, within bounds; then the connections can be
   * closed (test/unit/stores/batching/closing.test.ts).
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#onTurnEnd();
    const { deadlineUs, patienceUs } = this.#options;
    const slowestMs = Math.max(deadlineUs, patienceUs) / MICROS_PER_MILLI;
    await this.settler.whenIdle(Math.max(CLOSE_MS_MIN, 2 * slowestMs));
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
    }, GIVE_BACK_MS_MAX);
    // Calls that were under way may have left more to give back.
    while (!isLate && this.#server.isUp() && !this.#receipts.isEmpty && this.#breaker.state === "closed") {
      this.#onTurnEnd();
      await this.settler.whenIdle(GIVE_BACK_MS_MAX);
      await new Promise((resolve) => setTimeout(resolve, this.#receiptTimer === undefined ? 0 : REFUSED_MS));
    }
    clearTimeout(timer);
  }

  /** Notes that the connections are closed: unanswered takes fail, and payments that were to be given back stay paid. */
  end(): void {
    clearTimeout(this.#receiptTimer);
    this.#probes.end();
    this.failGathered();
    this.settler.loseSent(this.unreachable());
    this.#receipts.dropAll();
  }

  #reasonNotToSend(group: TakeGroup, queue: number): StoreError | undefined {
    if (this.#isClosed) return CLOSED;
    const breaker = this.#breaker;
    if (breaker.state !== "closed") {
      if (!breaker.admits(this.#options.clock.nowUs())) return this.#pauseError;
      const probe = this.#probe;
      if (probe !== undefined && probe !== this.#gathering.batchFor(group, queue)) return this.#pauseError;
    }
    if (!this.#server.isUp()) {
      const isProbe = breaker.state === "probing";
      breaker.record({ succeeded: 0, failed: 1, isProbe }, this.#options.clock.nowUs());
      return this.unreachable();
    }
    const { takes } = this.settler;
    if (takes > 0 && takes + group.size > this.#options.takesInFlightMax) return this.#fullError;
    return undefined;
  }

  #batchFor(group: TakeGroup, queue: number): B {
    let batch = this.#gathering.batchFor(group, queue);
    if (batch === undefined) {
      batch = this.#server.newBatch(queue);
      this.#gathering.begin(batch);
    }
    if (this.#breaker.state === "probing") {
      batch.isProbe = true;
      this.#probe = batch;
    }
    return batch;
  }

  readonly #onTurnEnd = (): void => {
    this.#isScheduled = false;
    if (this.#server.isUp()) this.#server.send();
    else this.failGathered();
  };

  readonly #hasRoom = (queue: number): boolean => this.settler.underWay(queue) < UNDER_WAY_MAX;

  #nextOfTakes(hasRoom: (queue: number) => boolean): B | undefined {
    const batch = this.#gathering.shift(hasRoom);
    if (batch !== undefined && this.#canGiveBack()) this.#addReceiptsTo(batch);
    return batch;
  }

  // One at a time, because each needs a connection.
  #nextAlone(hasRoom: (queue: number) => boolean): B | undefined {
    if (!this.#canGiveBack()) return undefined;
    return this.#receiptsAlone(1, (queue) => hasRoom(queue) && !this.#gathering.has(queue));
  }

  /** A batch of the receipts that have waited longest, of queues that may send one; undefined if none may, or `countMax` are under way. */
  #receiptsAlone(countMax: number, mayBe: (queue: number) => boolean = () => true): B | undefined {
    for (const batch of this.#alone) if (batch.isDone || batch.isHandedOver) this.#alone.delete(batch);
    // When closing, all can leave at once.
    if (this.#alone.size >= countMax && !this.#isClosed) return undefined;
    for (const queue of this.#receipts.queues()) {
      if (!mayBe(queue)) continue;
      const batch = this.#server.newBatch(queue);
      this.#addReceiptsTo(batch);
      // They may all have waited too long.
      if (batch.receipts.length === 0) continue;
      this.#alone.add(batch);
      return batch;
    }
    return undefined;
  }

  #addReceiptsTo(batch: B): void {
    if (!batch.carriesReceipts) return;
    this.#receipts.moveTo(batch.receipts, batch.queue, this.#options.clock.nowUs());
  }

  /** A failing server gets only what it must. */
  #canGiveBack(): boolean {
    return !this.#receipts.isEmpty && this.#receiptTimer === undefined && this.#breaker.state === "closed";
  }

  /** The server ran nothing of the batch: its receipts are sent again, after growing pauses while the server keeps refusing. */
  #giveBackLater(receipts: readonly Receipt[], queue: number): void {
    for (const receipt of receipts) this.#receipts.add(receipt, queue);
    this.#receiptTimer ??= setTimeout(() => {
      this.#receiptTimer = undefined;
      if (this.#server.isUp()) this.schedule();
    }, this.#receiptPause.next()).unref();
  }
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed");

function pauseSentence(name: string): string {
  return `${name} failed too many takes lately and is given a pause`;
}
