// The way of takes to one server and back, whatever its protocol. A subclass has the connections and the form of a
// call.
//
//   take          admits a group, or says why not, and gathers it with this turn's other takes (queues.ts, batch.ts)
//   #onTurnEnd    has the subclass send what `next` returns
//   onReply       the subclass has a reply: answers.ts answers each group once; without one by its deadline, or as
//                 failed
//
// An Intake owns all of its parts: the breaker hears outcomes from `answers` and is asked here; what is to be given
// back comes from `answers` and `giveBack`, and leaves like a take.
//
// - A take is refused at once if the store is closing, the breaker is open, the server is away, or too many takes have
//   no outcome yet.
// - Admitted takes join the batch of their queue that is being filled.
// - A batch leaves when its queue has room, or when it is full (unless the server's connections carry one call each).
//   Until then its takes are answered by their deadlines all the same.
// - What is to be given back joins the takes of its queue (give-backs.ts), only while the breaker is closed.
// - Only `#onTurnEnd` sends, once a turn, so a caller that takes again when it is answered waits for the next turn.

import { StoreError } from "../../base/errors.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { OWN_LIMIT } from "../../engine/domain/limit.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import { Source, TakeGroup, Verdict } from "../../engine/domain/take.ts";
import { costToReturn } from "../../engine/domain/verdict.ts";
import { Answers, type BackToSending } from "./answers.ts";
import type { Batch, BatchedGroup } from "./batch.ts";
import { Breaker } from "./breaker.ts";
import { type GiveBackRoad, GiveBacks } from "./give-backs.ts";
import type { Link } from "./link.ts";
import type { CompleteOptions } from "./options.ts";
import { BatchQueues } from "./queues.ts";
import type { ReplyReader } from "./reply.ts";
import { ServerTime } from "./server-time.ts";

/**
 * Number of a queue's calls under way from which takes are held back for batching. The server works on one while the
 * next waits for it; more calls would only queue there, each with its own overhead.
 */
const UNDER_WAY_MAX = 2;
/**
 * Greatest weight of payments under way to be given back: eight calls of 64. Where a connection carries one call, one
 * of them.
 */
const GIVE_BACK_WEIGHT_MAX = 512;
const GIVE_BACK_WEIGHT_ALONE = 64;
/** Closing waits for answers at least this long. */
const CLOSE_MS_MIN = 250;
/** Closing waits at most this long for payments to be given back. */
const GIVE_BACK_MS_MAX = 1_000;
/** Interval of checks whether closing may end. */
const CLOSE_LOOK_MS = 5;

/** The bucket that probes pay, and the queue of its key. */
export interface ProbeBucket {
  readonly bucketKey: string;
  readonly queue: number;
}

/** Admits, gathers and answers the takes for one server. */
export abstract class Intake<B extends Batch> implements BackToSending<B>, GiveBackRoad {
  readonly answers: Answers<B>;
  readonly giveBacks: GiveBacks;
  readonly serverTime = new ServerTime();
  protected readonly options: CompleteOptions;
  /** The server's name in sentences. */
  protected readonly name: string;
  readonly #queues = new BatchQueues<B>();
  readonly #isPipelined: boolean;
  readonly #breaker: Breaker;
  #probeTimer: NodeJS.Timeout | undefined;
  readonly #pauseError: StoreError;
  readonly #fullError: StoreError;
  #unreachableError: StoreError | undefined;
  #state: "open" | "closing" = "open";
  #isScheduled = false;
  /** What the server refused last; undefined once it answers a call. */
  #refusal: string | undefined;

  /**
   * `ownName`: the server's in sentences, such as Redis. `isPipelined`: a connection carries any number of calls, so
   * that full batches leave however many are under way.
   */
  constructor(options: CompleteOptions, ownName: string, isPipelined: boolean) {
    const name = `${ownName}${options.nameSuffix}`;
    this.options = options;
    this.name = name;
    this.#isPipelined = isPipelined;
    this.#pauseError = new StoreError("STORE_BREAKER_OPEN", pauseSentence(name));
    this.#fullError = new StoreError("STORE_QUEUE_FULL", `too many takes are waiting for ${name}`);
    this.#breaker = new Breaker(options.breaker, (state) => this.#onBreaker(state));
    const weightMax = isPipelined ? GIVE_BACK_WEIGHT_MAX : GIVE_BACK_WEIGHT_ALONE;
    this.giveBacks = new GiveBacks({ ...options, weightMax }, this);
    const { serverTime, giveBacks } = this;
    const parts = { serverTime, giveBacks, breaker: this.#breaker, queues: this.#queues };
    this.answers = new Answers<B>({ ...options, ...parts, serverName: name }, this);
  }

  /** Why nothing can be sent, in one sentence; undefined while the server is up. */
  protected abstract get down(): string | undefined;
  /** An empty batch that the group shall begin. */
  protected abstract newBatch(queue: number, group: TakeGroup): B;
  /** Called at the end of a turn while the server is up: has to send what `next` returns. */
  protected abstract send(): void;
  /** The batch has had no answer for so long that its connection should be given up. */
  abstract onSilence(batch: B, trouble: string): void;
  /** The bucket that probes pay. Undefined: the server has none now. */
  protected abstract probeBucket(): ProbeBucket | undefined;

  /**
   * A group was passed over because `holder` holds this key. Returns the queue in which it waits; undefined: it fails.
   */
  protected queueOfHeld(_bucketKey: string, _holder: number, _group: TakeGroup): number | undefined {
    return undefined;
  }

  /** From how many calls of this queue under way on another one waits, until it is full or one of them is answered. */
  protected underWayMax(_queue: number): number {
    return UNDER_WAY_MAX;
  }

  /** Number of this queue's calls under way. */
  underWay(queue: number): number {
    return this.#queues.underWay(queue);
  }

  /** Like Store.take; all takes of the group belong to `queue`, 0 without queues. */
  take(group: TakeGroup, then: TakeListener, queue = 0): boolean {
    return this.#take(group, then, queue, false);
  }

  #take(group: TakeGroup, then: TakeListener, queue: number, isProbe: boolean): boolean {
    group.source = Source.store;
    if (group.size === 0) {
      group.verdict = Verdict.allowed;
      return true;
    }
    const error = this.#reasonNotToSend(group, isProbe);
    if (error !== undefined) {
      this.fail(group, error);
      return true;
    }
    this.gather(group, then, queue);
    return false;
  }

  /** Has a group sent at the end of this turn, or when its queue has room. */
  gather(group: TakeGroup, then: TakeListener, queue: number): void {
    this.answers.add(this.#batchFor(group, queue), group, then);
    this.schedule();
  }

  sendAgain(batched: BatchedGroup, bucketKey: string, holder: number): boolean {
    const queue = this.queueOfHeld(bucketKey, holder, batched.group);
    if (queue === undefined) return false;
    this.answers.addAgain(this.#batchFor(batched.group, queue), batched);
    this.schedule();
    return true;
  }

  onRoom(): void {
    if (!this.#queues.isEmpty) this.schedule();
  }

  /** Answers a group that is not sent. */
  protected fail(group: TakeGroup, error: StoreError): void {
    group.source = Source.store;
    group.verdict = Verdict.failed;
    group.failure = error;
    this.options.onFailed(error);
  }

  /** Like Store.giveBack; all takes of the group belong to `queue`. */
  giveBack(group: TakeGroup, queue = 0): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (!take?.paid) continue;
      const cost = costToReturn(take);
      const { bucketKey, limit, paidAtUs, holdId } = take;
      const sinceUs = this.options.clock.nowUs();
      if (cost > 0) this.giveBacks.add({ bucketKey, limit, cost, paidAtUs, holdId, sinceUs, queue });
    }
  }

  /** Whether the server is up and answers. */
  get isWell(): boolean {
    return this.down === undefined && this.#breaker.state === "closed";
  }

  /** Reports the breaker as closed, because the server is no longer used. */
  forgetBreaker(): void {
    if (this.#breaker.state !== "closed") this.options.observer.breakerChanged(this.name, "closed");
  }

  /**
   * Has what waits sent at the end of this turn: after all sockets have been read, so that their takes travel together.
   */
  schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurnEnd);
  }

  /**
   * Removes and returns the next batch to send, already begun. Undefined if nothing can be sent now. While a queue has
   * no room, its takes wait until a call is answered or their batch is full. So a busy server gets fewer and larger
   * calls, and an idle one is asked at once.
   */
  next(): B | undefined {
    const batch = this.#queues.shift(this.#mayGo);
    if (batch === undefined) return undefined;
    if (this.answers.begin(batch)) return batch;
    // Its callers have been answered. What they ask next belongs to the next turn.
    this.schedule();
    return undefined;
  }

  /** Notes a new connection: the cause of failures may be gone. */
  onUp(): void {
    this.#refusal = undefined;
    this.#probe();
    this.giveBacks.sendWaiting();
    if (!this.#queues.isEmpty) this.schedule();
  }

  /** Fails what was gathered, because nothing can be sent. */
  failGathered(): void {
    for (const batch of this.#queues.takeAll()) this.answers.fail(batch, this.unreachable());
  }

  /** Notes that the server refused a call, with a sentence that says how. */
  onRefusal(sentence: string): void {
    this.#refusal = sentence;
    this.#probeLater();
  }

  /** Answers a batch by its reply; undefined: the server sent something else. */
  onReply(batch: B, reader: ReplyReader | undefined, link: Pick<Link<never>, "name" | "reconnect">): void {
    if (batch.state === "done") return;
    if (reader === undefined) {
      const trouble = "sent a reply that does not fit the take";
      this.answers.lose(batch, new StoreError("STORE_REPLY", `${this.name} ${trouble}`));
      link.reconnect(`${link.name} ${trouble}`);
      return;
    }
    this.#refusal = undefined;
    this.answers.answer(batch, reader);
  }

  /** Undefined while the server is up and gets takes; otherwise the reason, in one sentence. */
  trouble(): string | undefined {
    return this.down ?? this.#refusal ?? (this.#breaker.state === "closed" ? undefined : pauseSentence(this.name));
  }

  /**
   * The error of takes that get no answer. One object per trouble, because creating an error with its stack costs more
   * than a take.
   */
  unreachable(sentence = this.down ?? `${this.name} is not connected`): StoreError {
    if (this.#unreachableError?.message !== sentence) {
      this.#unreachableError = new StoreError("STORE_UNREACHABLE", sentence);
    }
    return this.#unreachableError;
  }

  /**
   * Refuses new takes, and waits for outstanding answers, and until everything has been given back, within bounds; then
   * the connections can be closed (test/unit/stores/batching/closing.test.ts).
   */
  async drain(): Promise<void> {
    this.#state = "closing";
    this.#onTurnEnd();
    const { deadlineUs, patienceUs } = this.options;
    const slowestMs = Math.max(deadlineUs, patienceUs) / MICROS_PER_MILLI;
    await waitFor(() => this.answers.isIdle, Math.max(CLOSE_MS_MIN, 2 * slowestMs));
    // Calls that were under way may have left more to give back.
    await waitFor(() => {
      if (!this.isWell) return true;
      this.giveBacks.sendWaiting(true);
      return this.giveBacks.isDone;
    }, GIVE_BACK_MS_MAX);
  }

  /**
   * Notes that the connections are closed: unanswered takes fail, and payments that were to be given back stay paid.
   */
  protected end(): void {
    clearTimeout(this.#probeTimer);
    this.failGathered();
    this.answers.loseSent(this.unreachable());
    this.giveBacks.end();
  }

  #onBreaker(state: Breaker["state"]): void {
    // A server that is no longer used has no trouble to report.
    if (this.#state === "open") this.options.observer.breakerChanged(this.name, state);
    if (state === "closed") this.giveBacks.sendWaiting();
    if (state === "open") this.#probeLater();
  }

  #probeLater(): void {
    // A millisecond more: a timer may be early by a part of one, and the breaker would refuse the probe.
    const ms = Math.ceil(this.options.breaker.pauseUs / MICROS_PER_MILLI) + 1;
    this.#probeTimer ??= setTimeout(() => this.#probe(), ms).unref();
  }

  /**
   * Asks a server in trouble, by a take of Headgate's own, whether that is over, and again after each pause: a process
   * that is not ready because of its store may get nobody's takes, which would show it. A probe pays, because a server
   * that refuses writes may still answer peeks.
   */
  #probe(): void {
    clearTimeout(this.#probeTimer);
    this.#probeTimer = undefined;
    if (this.#state !== "open" || this.down !== undefined || this.trouble() === undefined) return;
    const own = this.probeBucket();
    if (own === undefined) {
      this.#probeLater();
      return;
    }
    const group = new TakeGroup();
    group.add(OWN_LIMIT).bucketKey = `${own.bucketKey}:probe`;
    const answered = () => {
      this.#breaker.endProbe(group.verdict !== Verdict.failed);
      this.#probeLater();
    };
    this.#breaker.beginProbe();
    if (this.#take(group, { answered }, own.queue, true)) answered();
  }

  #reasonNotToSend(group: TakeGroup, isProbe: boolean): StoreError | undefined {
    if (this.#state === "closing") return CLOSED;
    if (this.#breaker.state !== "closed" && !isProbe) return this.#pauseError;
    if (this.down !== undefined) {
      this.#breaker.record(0, 1, this.options.clock.nowUs());
      return this.unreachable();
    }
    const { takes } = this.answers;
    if (takes > 0 && takes + group.size > this.options.takesInFlightMax) return this.#fullError;
    return undefined;
  }

  #batchFor(group: TakeGroup, queue: number): B {
    let batch = this.#queues.batchFor(group, queue);
    if (batch === undefined) {
      batch = this.newBatch(queue, group);
      this.#queues.add(batch);
    }
    return batch;
  }

  readonly #onTurnEnd = (): void => {
    this.#isScheduled = false;
    if (this.down !== undefined) {
      this.failGathered();
      return;
    }
    this.send();
    for (const batch of this.#queues) this.answers.setDeadlines(batch);
  };

  readonly #mayGo = (queue: number, isFull: boolean): boolean =>
    (isFull && this.#isPipelined) || this.underWay(queue) < this.underWayMax(queue);
}

const CLOSED = new StoreError("STORE_CLOSED", "the store is closed");

function pauseSentence(name: string): string {
  return `${name} failed too many takes; the breaker is open`;
}

async function waitFor(isSo: () => boolean, ms: number): Promise<void> {
  for (let waitedMs = 0; waitedMs < ms && !isSo(); waitedMs += CLOSE_LOOK_MS) {
    await new Promise((resolve) => setTimeout(resolve, CLOSE_LOOK_MS));
  }
}
