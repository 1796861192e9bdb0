// The way in to one server that takes travel to in batches: admits them or says why not, gathers what comes in one turn of
// the event loop, and has it sent when the turn ends. Connections and the form of a call are the store's business; answering
// is the settler's.

import { StoreError } from "../../core/errors.ts";
import { Source, type TakeGroup, Verdict } from "../../core/take.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
import { costToReturn } from "../../core/verdict.ts";
import type { SettleListener } from "../store.ts";
import type { Batch } from "./batch.ts";
import { Breaker } from "./breaker.ts";
import type { CompleteOptions } from "./options.ts";
import { type Receipt, Receipts } from "./receipts.ts";
import { RetryPause } from "./retry-pause.ts";
import { ServerTime } from "./server-time.ts";
import { Settler } from "./settler.ts";
import { WaitingBatches } from "./waiting-batches.ts";

/**
 * Calls of a lane under way at which takes are held back for batching. One is settled while the next already waits at the server:
 * more would only queue there, each with the cost of a call of its own.
 */
const UNDER_WAY_MAX = 2;
/** Closing waits for answers at least this long. */
const CLOSE_MS_MIN = 250;
/** Closing waits at most this long until every receipt has been given back. */
const GIVE_BACK_MS_MAX = 1_000;
/** How often it looks meanwhile whether what the server refused to give back travels again. */
const REFUSED_MS = 10;

/** What an intake asks of the server's side. */
interface ServerSide<B extends Batch> {
  /** The server in sentences: Redis. */
  readonly name: string;
  readonly newBatch: (lane: number) => B;
  readonly isUp: () => boolean;
  /** Why it is not up, in one sentence. */
  readonly downSentence: () => string;
  /** A turn is over while the server is up: send what was gathered, by `takeReady` or `next`. */
  readonly send: () => void;
  /** The batch got no answer for so long that its connection should be given up. */
  readonly onSilence: (batch: B, trouble: string) => void;
  /** As SettlerOptions says. Absent: the server passes nobody over. */
  readonly onHeld?: (bucketKey: string, holder: number) => number | undefined;
  /** The lane in which payments of a lane are given back. Absent: the same. */
  readonly laneOfReceipts?: (lane: number) => number;
}

/** Takes on their way to one server. */
export class Intake<B extends Batch> {
  /** What answers them. */
  readonly settler: Settler<B>;
  readonly serverTime = new ServerTime();
  readonly #options: CompleteOptions;
  readonly #server: ServerSide<B>;
  readonly #breaker: Breaker;
  readonly #receipts: Receipts;
  readonly #receiptPause = new RetryPause();
  /** While it runs, receipts wait: the server refused the last ones. */
  #receiptTimer: NodeJS.Timeout | undefined;
  readonly #gathering = new WaitingBatches<B>();
  readonly #pauseError: StoreError;
  readonly #fullError: StoreError;
  #isScheduled = false;
  /** Some of what was gathered waits until a call is answered. */
  #holds = false;
  #isClosed = false;
  /** The one batch that may go out while the breaker probes. */
  #probe: B | undefined;
  /** What the server refused last, until it settles a call. */
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
    });
    this.settler = new Settler<B>({
      ...options,
      serverName: name,
      serverTime: this.serverTime,
      breaker: this.#breaker,
      giveBack: (receipt, lane) => this.addReceipt(receipt, lane),
      onGivenBack: () => this.#receiptPause.reset(),
      onNotGivenBack: (receipts, lane) => this.#giveBackLater(receipts, lane),
      onHeld: (bucketKey, holder) => server.onHeld?.(bucketKey, holder),
      again: (batched, lane) => {
        this.settler.addAgain(this.#batchFor(batched.group, lane), batched);
        this.schedule();
      },
      onUnsent: (batch) => this.#gathering.remove(batch),
      onRoom: () => this.#onRoom(),
      onSilence: server.onSilence,
    });
  }

  /** As Store.take. All takes of the group are of that lane; 0 where there are none. */
  take(group: TakeGroup, then: SettleListener, lane = 0): boolean {
    group.source = Source.store;
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    const error = this.#reasonNotToSend(group, lane);
    if (error !== undefined) {
      group.verdict = Verdict.failed;
      group.failure = error;
      this.#options.observer.failed(error);
      return true;
    }
    const batch = this.#batchFor(group, lane);
    this.settler.add(batch, group, then);
    this.schedule();
    return false;
  }

  /** As Store.giveBack, for a group whose keys are of that lane. */
  giveBack(group: TakeGroup, lane = 0): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (!take?.paid) continue;
      const cost = costToReturn(take);
      const { bucketKey, limit, paidAtUs, holdId } = take;
      const sinceUs = this.#options.clock.nowUs();
      if (cost > 0) this.addReceipt({ bucketKey, limit, cost, paidAtUs, holdId, sinceUs }, lane);
    }
  }

  /** Has a payment undone with the next call of that lane. */
  addReceipt(receipt: Receipt, lane: number): void {
    this.#receipts.add(receipt, this.#server.laneOfReceipts?.(lane) ?? lane);
    if (this.#server.isUp()) this.schedule();
  }

  /** Hands over the payments that still have to be undone: another server keeps their buckets now. */
  drainReceipts(each: (receipt: Receipt, lane: number) => void): void {
    this.#receipts.drain(each);
  }

  /** Has what waits sent at the end of this turn: after all sockets were read, so that their takes travel together. */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurnEnd);
  }

  /**
   * Hands over what was gathered, with what is to be given back; with receipts alone if there is nothing else. While
   * UNDER_WAY_MAX calls of a lane are under way, takes of that lane wait until one is answered or their call is full: so a
   * server that is busy gets fewer and larger calls, and one that is not is asked at once.
   */
  takeReady(): B[] {
    const batches = this.#gathering.takeReady(this.#hasRoom);
    this.#holds = !this.#gathering.isEmpty;
    if (this.#holds) this.setDeadlines();
    if (!this.#canGiveBack()) return batches;
    for (const batch of batches) this.#addReceiptsTo(batch);
    // The rest follows in the next turns, one more call in each; at once if there are no more turns to come.
    do {
      const alone = this.#receiptsAlone();
      if (alone !== undefined) batches.push(alone);
    } while (this.#isClosed && !this.#receipts.isEmpty);
    if (!this.#receipts.isEmpty) this.schedule();
    return batches;
  }

  /**
   * Hands over the oldest batch alone, of those whose lane has room on the way, with what is to be given back; before it
   * receipts alone, where no batch waits that they can join. Undefined if nothing waits.
   */
  next(hasRoom: (lane: number) => boolean = () => true): B | undefined {
    const canGiveBack = this.#canGiveBack();
    const lane = this.#receipts.oldestLane;
    if (canGiveBack && lane !== undefined && hasRoom(lane) && !this.#gathering.has(lane)) {
      const alone = this.#receiptsAlone();
      if (alone !== undefined) return alone;
    }
    const batch = this.#gathering.shift(hasRoom);
    if (batch !== undefined && canGiveBack) this.#addReceiptsTo(batch);
    return batch;
  }

  /** Starts the clock of what was gathered but may have to wait: each group is answered in its time, sent or not. */
  setDeadlines(): void {
    for (const batch of this.#gathering) this.settler.setDeadlines(batch);
  }

  /** There is a new connection: the reason for failing may be gone. */
  onUp(): void {
    this.#refusal = undefined;
    this.#breaker.endPause();
    if (!this.#receipts.isEmpty || !this.#gathering.isEmpty) this.schedule();
  }

  /** Nothing can be sent any more: fails what was gathered. */
  failGathered(): void {
    for (const batch of this.#gathering.takeAll()) this.settler.fail(batch, this.unreachable());
  }

  /** The server refused a call; the sentence says how. */
  onRefusal(sentence: string): void {
    this.#refusal = sentence;
  }

  /** The server settled a call. */
  onAnswer(): void {
    this.#refusal = undefined;
  }

  /** Undefined while the server is up and takes are sent to it, otherwise why not. */
  trouble(): string | undefined {
    if (!this.#server.isUp()) return this.#server.downSentence();
    if (this.#refusal !== undefined) return this.#refusal;
    return this.#breaker.state === "closed" ? undefined : pauseSentence(this.#server.name);
  }

  /** Why what was sent gets no answer. One object per trouble: an error's stack costs more than a take. */
  unreachable(): StoreError {
    const sentence = this.#server.downSentence();
    if (this.#unreachableError?.message !== sentence) {
      this.#unreachableError = new StoreError("STORE_UNREACHABLE", sentence);
    }
    return this.#unreachableError;
  }
  #unreachableError: StoreError | undefined;

  /**
   * Refuses new takes and waits a moment for the answers that are due, and until everything is given back; then the
   * connections can be closed (test/unit/stores/batching/closing.test.ts).
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
    // What was under way may have brought more to give back.
    while (!isLate && this.#server.isUp() && !this.#receipts.isEmpty && this.#breaker.state === "closed") {
      this.#onTurnEnd();
      await this.settler.whenIdle(GIVE_BACK_MS_MAX);
      await new Promise((resolve) => setTimeout(resolve, this.#receiptTimer === undefined ? 0 : REFUSED_MS));
    }
    clearTimeout(timer);
  }

  /** The connections are closed: what was not answered fails, and what is still to be given back stays paid. */
  end(): void {
    clearTimeout(this.#receiptTimer);
    this.failGathered();
    this.settler.loseSent(this.unreachable());
    this.#receipts.dropAll();
  }

  #reasonNotToSend(group: TakeGroup, lane: number): StoreError | undefined {
    if (this.#isClosed) return CLOSED;
    const breaker = this.#breaker;
    if (breaker.state !== "closed") {
      if (!breaker.admits(this.#options.clock.nowUs())) return this.#pauseError;
      const probe = this.#probe;
      if (probe !== undefined && probe !== this.#gathering.batchFor(group, lane)) return this.#pauseError;
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

  #batchFor(group: TakeGroup, lane: number): B {
    let batch = this.#gathering.batchFor(group, lane);
    if (batch === undefined) {
      batch = this.#server.newBatch(lane);
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

  readonly #hasRoom = (lane: number): boolean => this.settler.underWay(lane) < UNDER_WAY_MAX;

  #onRoom(): void {
    if (this.#holds) this.schedule();
  }

  /** A batch of those receipts that wait longest; undefined if there are none, or all of them for too long. */
  #receiptsAlone(): B | undefined {
    const lane = this.#receipts.oldestLane;
    if (lane === undefined) return undefined;
    const batch = this.#server.newBatch(lane);
    this.#addReceiptsTo(batch);
    return batch.receipts.length > 0 ? batch : undefined;
  }

  #addReceiptsTo(batch: B): void {
    if (!batch.carriesReceipts) return;
    this.#receipts.moveTo(batch.receipts, batch.lane, this.#options.clock.nowUs());
  }

  /** A server that fails is asked for what must be, not for this. */
  #canGiveBack(): boolean {
    return !this.#receipts.isEmpty && this.#receiptTimer === undefined && this.#breaker.state === "closed";
  }

  /** The server ran nothing of the batch: its receipts travel again, less and less often while it goes on refusing. */
  #giveBackLater(receipts: readonly Receipt[], lane: number): void {
    for (const receipt of receipts) this.#receipts.add(receipt, lane);
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
